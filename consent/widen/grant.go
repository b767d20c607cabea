package widen

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"uuid"

	"browserhost"
	"browserhost/consent/extract"
	"browserhost/consent/ledger"
	"browserhost/consent/presence"
)

// Spec says what to lend to whom. Names are as the owner types them (K44).
type Spec struct {
	Device    browserhost.DeviceID
	Domains   []string // 1 to 16 sites
	Source    string   // of Sources; "" when there is exactly one
	ExpiresAt string   // RFC 3339, in the future; "" = until it is revoked
}

// Granted is a new grant and what became of the cookies.
type Granted struct {
	Grant    browserhost.Grant
	Imported int            // sealed
	NotRead  map[string]int // the others, by the reasons of consent/extract
	Seeded   int            // set in sessions that were open
}

// maxHashes bounds the row of a grant: names beyond it are counted only.
const maxHashes = 512

// Grant lends the sites to the device (AIP-63 C1). Only a human can: any other
// actor gets CodeUnauthorised and a deny row, whatever it asks for (AIP-63 C7,
// D22). Every name is grantable, or nothing happens (AIP-63 C2).
//
// Refused before anything is done: a bad device, name, source or time
// (CodeInputInvalid), a profile without a cookie of the sites (CodeNotFound, for
// a grant without an import does not exist, K14), a keychain that cannot be
// used (CodeKeyring, K7). After the row: the errors of extract.Read, of the jar,
// and CodeNotFound when there are cookies and none can be read, with the reasons
// in cause.not_read. Then no grant is left, nothing is sealed, and a revoke row
// closes the first one.
func (w *Widener) Grant(ctx context.Context, by browserhost.Actor, spec Spec) (Granted, error) {
	if by.Kind != browserhost.Human {
		return Granted{}, w.refuse(ctx, by, spec)
	}
	g, from, err := w.plan(spec)
	if err != nil {
		return Granted{}, err
	}
	if err := w.record(ctx, by, g, from); err != nil {
		return Granted{}, err
	}
	out, cookies, err := w.give(ctx, g, from)
	if err != nil {
		w.undo(ctx, g)
		return Granted{}, err
	}
	out.Seeded = w.seed(ctx, out.Grant, cookies)
	return out, nil
}

// refuse writes down who tried (S1.42).
func (w *Widener) refuse(ctx context.Context, by browserhost.Actor, spec Spec) error {
	if by.Kind != browserhost.System {
		by.Kind = browserhost.Agent // who is not known to be a person is none
	}
	reason := fmt.Sprintf("asked for a grant of %s", strings.Join(spec.Domains, ", "))
	if err := w.opts.Ledger.Deny(context.WithoutCancel(ctx), by, reason); err != nil {
		w.opts.Log.Error("a refused grant could not be recorded", "error", err)
	}
	return browserhost.Errorf(browserhost.CodeUnauthorised, "only the owner lends a sign-in; ask with request_access")
}

// plan checks all that can be checked without a look at the profile.
func (w *Widener) plan(spec Spec) (browserhost.Grant, extract.Profile, error) {
	none := browserhost.Grant{}
	if !spec.Device.Valid() {
		return none, extract.Profile{}, browserhost.Errorf(browserhost.CodeInputInvalid, "device: that is not the id of a device").With("field", "device")
	}
	names, err := fromOwner(spec.Domains)
	if err != nil {
		return none, extract.Profile{}, err
	}
	now := w.opts.Now()
	ends, err := until(spec.ExpiresAt, now)
	if err != nil {
		return none, extract.Profile{}, err
	}
	from, err := w.choose(spec.Source)
	if err != nil {
		return none, extract.Profile{}, err
	}
	return browserhost.Grant{
		ID:         browserhost.GrantID("grant_" + uuid.NewV4().String()),
		SessionID:  "main",
		DeviceID:   spec.Device,
		Source:     browserhost.GrantSource{Kind: "chrome", Profile: from.profile.Name},
		Domains:    names,
		Sinks:      []browserhost.Sink{{Kind: "local"}},
		GrantedAt:  browserhost.FormatTime(now),
		GrantedVia: "interactive",
		ExpiresAt:  ends,
	}, from.profile, nil
}

// until reads when a grant ends and writes it as records do.
func until(given string, now time.Time) (string, error) {
	if given == "" {
		return "", nil
	}
	bad := func(why string) error {
		return browserhost.Errorf(browserhost.CodeInputInvalid, "expiresAt: %s", why).With("field", "expiresAt")
	}
	end, err := time.Parse(time.RFC3339, given)
	if err != nil {
		return "", bad("is not a time in RFC 3339, such as 2027-01-31T18:00:00Z")
	}
	if written := browserhost.FormatTime(end); end.After(now) && written > browserhost.FormatTime(now) {
		return written, nil
	}
	return "", bad("is not in the future")
}

// record counts and names what there is to lend, without reading a value, and
// writes the row. When it returns without an error the row is on the disk; with
// one, nothing was granted (AIP-63 C1, C5, C10, S1.47).
func (w *Widener) record(ctx context.Context, by browserhost.Actor, g browserhost.Grant, from extract.Profile) error {
	names, err := presence.Names(ctx, from, g.Domains)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return browserhost.Errorf(browserhost.CodeNotFound, "the browser profile holds no cookie of %s", strings.Join(g.Domains, ", ")).With("reason", "no_cookies")
	}
	distinct := names[:min(len(names), maxHashes)]
	hashes, err := ledger.NameHashes(ctx, w.opts.Keys, g.ID, distinct)
	if err != nil {
		return err
	}
	_, err = w.opts.Ledger.Append(ctx, ledger.Record{
		Event: ledger.Grant, Actor: ledger.ActorOf(by), GrantID: g.ID, SessionID: g.SessionID, Domains: g.Domains,
		CookieCount: new(len(names)), NameHashes: hashes,
	})
	return err
}

// give reads, seals, and makes the grant exist.
func (w *Widener) give(ctx context.Context, g browserhost.Grant, from extract.Profile) (Granted, []browserhost.Cookie, error) {
	cookies, report, err := extract.Read(ctx, from, g.Domains, w.opts.Secrets)
	if err != nil {
		return Granted{}, nil, err
	}
	if len(cookies) == 0 {
		return Granted{}, nil, browserhost.Errorf(browserhost.CodeNotFound, "none of the %d cookies can be read by another program; sign in again in a browser of this host", report.Matched).
			With("reason", "unreadable").With("not_read", report.Reasons)
	}
	g.CookieCount = len(cookies)
	if err := w.opts.Jar.Seal(ctx, g, cookies); err != nil {
		return Granted{}, nil, err
	}
	if err := w.opts.Jar.Put(ctx, g); err != nil {
		return Granted{}, nil, err
	}
	return Granted{Grant: g, Imported: len(cookies), NotRead: maps.Clone(report.Reasons)}, cookies, nil
}

// undo leaves nothing of a grant that was written down and not given. Where it
// cannot, the next start does: a sealed file without a grant is removed, and a
// row without one is closed.
func (w *Widener) undo(ctx context.Context, g browserhost.Grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), browserhost.CallTime)
	defer cancel()
	local := "none"
	if w.opts.Jar.Sealed(g.ID) {
		local = "deleted"
	}
	deleteErr := w.opts.Jar.Delete(ctx, g.ID)
	_, err := w.opts.Ledger.Append(ctx, ledger.Record{
		Event: ledger.Revoke, Actor: ledger.Actor{Kind: browserhost.System, Via: "grant"}, GrantID: g.ID, SessionID: g.SessionID, Domains: g.Domains,
		Derived: &ledger.Derived{Local: local, Remote: "not-applicable"}, Reason: "the grant was not given: its cookies could not be read or sealed",
	})
	if err := errors.Join(deleteErr, err); err != nil {
		w.opts.Log.Error("a grant that was not given is closed at the next start", "grant", g.ID, "error", err)
	}
}

// seed takes the new cookies to sessions that are open. That it cannot is no
// failure of the grant: the next launch takes them.
func (w *Widener) seed(ctx context.Context, g browserhost.Grant, cookies []browserhost.Cookie) int {
	counts, err := w.opts.Warm.Seed(ctx, browserhost.Material{
		Device: g.DeviceID, Grants: []browserhost.GrantID{g.ID}, Domains: g.Domains, Cookies: cookies,
	})
	if err != nil {
		w.opts.Log.Warn("an open session could not be lent a new grant", "grant", g.ID, "error", err)
	}
	return counts.Set
}
