package operator

import (
	"context"
	"slices"
	"sync"

	"browserhost"
)

// house is a host behind the desk. It counts what was done, and by whom.
type house struct {
	mu       sync.Mutex
	done     []string
	by       []browserhost.Actor
	denied   []denial
	requests []Request
	fail     error
}

type denial struct {
	by     browserhost.Actor
	reason string
}

func (h *house) did(what string, by ...browserhost.Actor) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, what)
	h.by = append(h.by, by...)
	return h.fail
}

func (h *house) deeds() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.done)
}

func (h *house) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done, h.by, h.denied = nil, nil, nil
}

func (h *house) deny(_ context.Context, by browserhost.Actor, reason string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.denied = append(h.denied, denial{by, reason})
	return nil
}

func (h *house) denials() []denial {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.denied)
}

var (
	ada       = browserhost.Device{ID: "0123456789abcdef0123456789abcdef", Name: "claude", Role: "agent", Local: true, Scopes: browserhost.DefaultScopes(), CreatedAt: "2026-11-30T10:00:00.000Z"}
	lent      = Grant{Grant: browserhost.Grant{ID: "grant_1", SessionID: "main", DeviceID: ada.ID, Source: browserhost.GrantSource{Kind: "chrome", Profile: "Default"}, Domains: []string{"shop.test"}, Sinks: []browserhost.Sink{{Kind: "local"}}, GrantedAt: "2026-11-30T10:00:00.000Z", GrantedVia: "interactive", CookieCount: 3}, DeviceName: "claude", Active: true}
	filed     = Request{ID: "r1", Code: "K7-204", DeviceID: ada.ID, Domains: []string{"mail.test", "shop.test"}, Reason: "to buy tea", Status: "pending"}
	cancelled = Revoked{ID: "grant_1", Local: "deleted", Remote: "not-applicable", Pages: 2}
)

func newHouse() *house { return &house{requests: []Request{filed}} }

func (h *house) desk() *Desk { return NewDesk(h, h) }

func (h *house) Status(context.Context) (Status, error) {
	return Status{Version: "1", Listen: "127.0.0.1:8863", Store: "memory", Browsers: []Browser{{Provider: "chrome", State: browserhost.Healthy, Pages: 2}}, Providers: []Provider{}, Devices: 1}, h.did("status")
}
func (h *house) Devices(context.Context) ([]browserhost.Device, error) {
	return []browserhost.Device{ada}, h.did("devices")
}
func (h *house) RevokeDevice(_ context.Context, by browserhost.Actor, id browserhost.DeviceID) (Unpaired, error) {
	return Unpaired{ID: id, Grants: []Revoked{cancelled}, Pages: 2}, h.did("device.revoke "+string(id), by)
}
func (h *house) Grants(context.Context) ([]Grant, error) { return []Grant{lent}, h.did("grants") }
func (h *house) Revoke(_ context.Context, by browserhost.Actor, id browserhost.GrantID) (Revoked, error) {
	return cancelled, h.did("revoke "+string(id), by)
}
func (h *house) Requests(context.Context) ([]Request, error) { return h.requests, nil }
func (h *house) Deny(_ context.Context, by browserhost.Actor, id string) (Request, error) {
	return filed, h.did("deny "+id, by)
}
func (h *house) Ledger(context.Context) (Ledger, error) {
	return Ledger{Path: "consent.jsonl", Records: 4, OK: true, Seq: new(int64(3))}, h.did("ledger.info")
}
func (h *house) Stop(_ context.Context, by browserhost.Actor) error { return h.did("stop", by) }
func (h *house) Sources(context.Context) ([]Source, error) {
	return []Source{{"chrome/Default", "chrome", "Default"}}, h.did("sources")
}
func (h *house) Scan(_ context.Context, source string, domains []string) ([]Site, error) {
	return []Site{{Domain: "shop.test", Cookies: 3, Hosts: map[string]int{"www.shop.test": 3}}}, h.did("scan " + source + " " + Subject(domains))
}
func (h *house) Grant(_ context.Context, by browserhost.Actor, spec GrantSpec) (Granted, error) {
	return Granted{Grant: lent, Imported: 3, NotRead: map[string]int{"bound": 1}, Seeded: 1}, h.did("grant "+Subject(spec.Domains), by)
}
func (h *house) Allow(_ context.Context, by browserhost.Actor, spec AllowSpec) (Granted, error) {
	return Granted{Grant: lent, Imported: 3}, h.did("requests.allow "+spec.RequestID, by)
}
func (h *house) Pair(_ context.Context, by browserhost.Actor, spec PairSpec) (Paired, error) {
	return Paired{Device: ada, Bearer: "apd1.x.y"}, h.did("pair "+spec.Name, by)
}
