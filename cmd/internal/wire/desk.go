package wire

import (
	"context"
	"errors"
	"slices"
	"time"

	"browserhost"
	"browserhost/consent/gate"
	"browserhost/consent/narrow"
	"browserhost/consent/requests"
	"browserhost/consent/widen"
	"browserhost/host/operator"
)

// narrowDesk is the half of the owner's door that looks and shrinks.
type narrowDesk struct{ app *App }

func (d narrowDesk) Status(ctx context.Context) (operator.Status, error) {
	a := d.app
	st := operator.Status{
		Version: a.opts.Version, Home: a.home, Store: a.opts.Settings.Store,
		Listen: a.listener.Addr().String(), StartedAt: browserhost.FormatTime(a.started),
		NoSandbox: withoutSandbox(a.opts), Rotation: a.jar.Pending(), Devices: len(a.devices.List()),
	}
	if ok, why := a.vault.State(ctx); !ok {
		st.Keyring = why
	}
	for _, i := range a.fleet.Status(ctx) {
		if i.State == browserhost.Absent {
			continue
		}
		st.Browsers = append(st.Browsers, operator.Browser{Provider: i.Provider, State: i.State, Reason: i.Reason, Headed: i.Headed, Sessions: i.Sessions, Pages: i.Pages})
	}
	p := a.provider
	found := p.Discover(ctx)
	st.Providers = []operator.Provider{{ID: p.Manifest().ID, Runnable: found.Runnable, Version: found.Version, Why: found.Why, Path: found.Path}}
	now := time.Now()
	for _, g := range a.lender.Grants() {
		if g.Active(now) {
			st.Grants++
		}
	}
	for _, r := range a.requests.List() {
		if r.Status == requests.Pending {
			st.Requests++
		}
	}
	return st, nil
}

func (d narrowDesk) Devices(context.Context) ([]browserhost.Device, error) {
	return d.app.devices.List(), nil
}

// RevokeDevice refuses the device first, so that nothing new begins while what
// it had is ended (AIP-63 C13).
func (d narrowDesk) RevokeDevice(ctx context.Context, by browserhost.Actor, id browserhost.DeviceID) (operator.Unpaired, error) {
	out := operator.Unpaired{ID: id, Grants: []operator.Revoked{}}
	if _, ok := d.app.devices.Find(string(id)); !ok {
		return out, browserhost.Errorf(browserhost.CodeNotFound, "there is no such device")
	}
	living := d.app.lender.For(id)
	if err := d.app.devices.Revoke(ctx, id); err != nil {
		return out, err
	}
	// Store.Revoke has called App.unpaired, which ended grants and pages; what
	// failed there is tried again here, where the owner sees the error.
	ended, err := d.app.lender.RevokeDevice(ctx, by, id)
	for _, r := range ended {
		out.Grants = append(out.Grants, revoked(r))
		out.Pages += r.Pages
	}
	for _, g := range living {
		if !slices.ContainsFunc(out.Grants, func(r operator.Revoked) bool { return r.ID == g.ID }) {
			out.Grants = append(out.Grants, operator.Revoked{ID: g.ID, Local: "deleted", Remote: "not-applicable", Rotation: d.app.jar.Pending()})
		}
	}
	return out, err
}

func (d narrowDesk) Grants(context.Context) ([]operator.Grant, error) {
	out := []operator.Grant{}
	for _, g := range d.app.lender.Grants() {
		out = append(out, d.app.named(g))
	}
	return out, nil
}

func (a *App) named(g browserhost.Grant) operator.Grant {
	shown := operator.Grant{Grant: g, Active: g.Active(time.Now())}
	if device, ok := a.devices.Find(string(g.DeviceID)); ok {
		shown.DeviceName = device.Name
	}
	return shown
}

func (d narrowDesk) Revoke(ctx context.Context, by browserhost.Actor, id browserhost.GrantID) (operator.Revoked, error) {
	r, err := d.app.lender.Revoke(ctx, by, id)
	return revoked(r), err
}

func revoked(r narrow.Revoked) operator.Revoked {
	return operator.Revoked{ID: r.ID, Local: r.Local, Remote: r.Remote, Pages: r.Pages, Rotation: r.Rotation}
}

func (d narrowDesk) Requests(context.Context) ([]operator.Request, error) {
	out := []operator.Request{}
	for _, r := range d.app.requests.List() {
		out = append(out, d.app.shown(r))
	}
	return out, nil
}

func (a *App) shown(r requests.Request) operator.Request {
	out := operator.Request{
		ID: r.ID, Code: r.Code, DeviceID: r.DeviceID, Domains: r.Domains, Reason: r.Reason,
		Status: string(r.Status), CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, GrantID: r.GrantID,
	}
	if device, ok := a.devices.Find(string(r.DeviceID)); ok {
		out.DeviceName = device.Name
	}
	return out
}

func (d narrowDesk) Deny(ctx context.Context, by browserhost.Actor, id string) (operator.Request, error) {
	d.app.deciding.Lock()
	defer d.app.deciding.Unlock()
	r, err := d.app.requests.Decide(id, requests.Denied, "")
	if err != nil {
		return operator.Request{}, err
	}
	return d.app.shown(r), d.app.ledger.Deny(ctx, by, "the owner refused a request for "+operator.Subject(r.Domains))
}

func (d narrowDesk) Ledger(ctx context.Context) (operator.Ledger, error) {
	path := d.app.path(consentFile)
	r, err := d.app.consent.Verify(ctx)
	return verdict(path, r), err
}

func (d narrowDesk) Stop(context.Context, browserhost.Actor) error {
	d.app.finish(nil)
	return nil
}

// widenDesk is the half that grows access.
type widenDesk struct{ app *App }

func (d widenDesk) Sources(ctx context.Context) ([]operator.Source, error) {
	found, err := d.app.widener.Sources(ctx)
	out := []operator.Source{}
	for _, s := range found {
		out = append(out, operator.Source{Ref: s.Ref, Browser: s.Browser, Profile: s.Profile})
	}
	return out, err
}

func (d widenDesk) Scan(ctx context.Context, source string, domains []string) ([]operator.Site, error) {
	found, err := d.app.widener.Preview(ctx, source, domains)
	out := []operator.Site{}
	for _, s := range found {
		out = append(out, operator.Site{Domain: s.Domain, Cookies: s.Cookies, Hosts: s.Hosts})
	}
	return out, err
}

func (d widenDesk) Grant(ctx context.Context, by browserhost.Actor, spec operator.GrantSpec) (operator.Granted, error) {
	if _, ok := d.app.devices.Find(string(spec.Device)); !ok || !spec.Device.Valid() {
		return operator.Granted{}, browserhost.Errorf(browserhost.CodeNotFound, "there is no such device")
	}
	g, err := d.app.widener.Grant(ctx, by, widen.Spec{Device: spec.Device, Domains: spec.Domains, Source: spec.Source, ExpiresAt: spec.ExpiresAt})
	if err != nil {
		return operator.Granted{}, err
	}
	select {
	case d.app.granted <- struct{}{}:
	default: // the clock will look anyway
	}
	if _, ok := d.app.devices.Find(string(spec.Device)); !ok { // unpaired meanwhile: the revoke wins
		d.app.unpaired(spec.Device)
		return operator.Granted{}, browserhost.Errorf(browserhost.CodeNotFound, "the device was removed meanwhile")
	}
	return operator.Granted{Grant: d.app.named(g.Grant), Imported: g.Imported, NotRead: g.NotRead, Seeded: g.Seeded}, nil
}

// Allow grants what a pending request names, or fewer sites of it, and then
// tells who waits.
func (d widenDesk) Allow(ctx context.Context, by browserhost.Actor, spec operator.AllowSpec) (operator.Granted, error) {
	d.app.deciding.Lock()
	defer d.app.deciding.Unlock()
	r, ok := d.app.requests.Find(spec.RequestID)
	if !ok {
		return operator.Granted{}, browserhost.Errorf(browserhost.CodeNotFound, "there is no such request")
	}
	if r.Status != requests.Pending {
		return operator.Granted{}, browserhost.Errorf(browserhost.CodeInputInvalid, "the request was already %s", r.Status)
	}
	sites := r.Domains
	if len(spec.Domains) > 0 {
		for _, s := range spec.Domains {
			if !slices.Contains(r.Domains, s) {
				return operator.Granted{}, browserhost.Errorf(browserhost.CodeInputInvalid, "the request does not name %q", s)
			}
		}
		sites = spec.Domains
	}
	granted, err := d.Grant(ctx, by, operator.GrantSpec{Device: r.DeviceID, Domains: sites, Source: spec.Source, ExpiresAt: spec.ExpiresAt})
	if err != nil {
		return granted, err
	}
	if _, err := d.app.requests.Decide(r.ID, requests.Allowed, granted.Grant.ID); err != nil {
		// It expired or was withdrawn while the cookies were read: nobody waits
		// for the grant any more, so there is none.
		_, undone := d.app.lender.Revoke(ctx, browserhost.Actor{Kind: browserhost.System, Via: "request"}, granted.Grant.ID)
		return operator.Granted{}, errors.Join(err, undone)
	}
	return granted, nil
}

// Pair makes a device and keeps its bearer in the keychain, where the stdio
// bridge finds it. Without a keychain of the owner's the bearer in the answer
// is the only one.
func (d widenDesk) Pair(ctx context.Context, by browserhost.Actor, spec operator.PairSpec) (operator.Paired, error) {
	scopes := spec.Scopes
	if scopes == nil {
		scopes = browserhost.DefaultScopes()
	}
	if by.Kind == browserhost.Agent {
		return operator.Paired{}, browserhost.Errorf(browserhost.CodeUnauthorised, "only the owner pairs a device")
	}
	device, bearer, err := d.app.devices.Mint(ctx, spec.Name, scopes)
	if err != nil {
		return operator.Paired{}, err
	}
	if err := keepBearer(ctx, d.app.vault, device.ID, bearer); err != nil {
		d.app.log.Warn("the bearer could not be kept for the stdio bridge", "device", device.ID, "error", err)
	}
	return operator.Paired{Device: device, Bearer: string(bearer)}, nil
}

// asking lets consent/gate file and wait without knowing the queue.
type asking struct{ queue *requests.Queue }

func (a asking) File(ctx context.Context, actor browserhost.Actor, domains []string, reason string) (gate.Filed, error) {
	r, err := a.queue.File(ctx, actor, domains, reason)
	return filed(r), err
}

func (a asking) Wait(ctx context.Context, device browserhost.DeviceID, id string) (gate.Filed, error) {
	r, err := a.queue.Wait(ctx, device, id)
	return filed(r), err
}

func filed(r requests.Request) gate.Filed {
	return gate.Filed{ID: r.ID, Code: r.Code, Status: string(r.Status), Domains: r.Domains, GrantID: r.GrantID, ExpiresAt: r.ExpiresAt}
}
