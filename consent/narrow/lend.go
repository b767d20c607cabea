package narrow

import (
	"context"
	"slices"
	"strings"

	"browserhost"
	"browserhost/consent/domains"
)

// reasonRevoked is what pages and callers are told (contract G).
const reasonRevoked = "grant_revoked"

// Lend lends a device what is granted to it, or what of it concerns the sites,
// for as long as use runs. Grants whose time is up are ended first.
//
// It fails with CodeConsentRequired when nothing is granted, when a site is not
// (cause.domain is the first such site, null without sites) and when a grant
// was revoked while use ran: then use's context ended early and whatever it
// opened is being closed. Without a keychain it fails with CodeKeyring. Other
// errors are those of use.
func (l *Lender) Lend(ctx context.Context, device browserhost.DeviceID, sites []string, use func(context.Context, browserhost.Material) error) error {
	for _, s := range sites {
		if err := domains.Check(s); err != nil {
			return err
		}
	}
	if err := l.expire(ctx, func(g browserhost.Grant) bool { return g.Serves(device) }); err != nil {
		l.opts.Log.Error("a grant that has expired could not be ended yet", "error", err)
	}
	lots, err := l.unseal(ctx, device)
	if err != nil {
		return err
	}
	m := browserhost.Material{Device: device}
	for _, lot := range lots {
		m.Domains = append(m.Domains, lot.grant.Domains...)
	}
	slices.Sort(m.Domains)
	m.Domains = slices.Compact(m.Domains)
	if err := uncovered(m.Domains, sites); err != nil {
		return err
	}
	if len(sites) > 0 {
		m.Domains = slices.Clone(sites)
	}
	m.Grants, m.Cookies = merge(lots, sites)
	return l.during(ctx, m, use)
}

// Seed lends what a new grant brought to the sessions that its device has open
// already, under the same promise as [Lender.Lend].
func (l *Lender) Seed(ctx context.Context, m browserhost.Material) (counts browserhost.Counts, err error) {
	err = l.during(ctx, m, func(ctx context.Context, m browserhost.Material) (err error) {
		counts, err = l.opts.Warm.Seed(ctx, m)
		return err
	})
	return counts, err
}

// lot is what one grant holds.
type lot struct {
	grant   browserhost.Grant
	cookies []browserhost.Cookie
}

// unseal opens what is granted to a device. A grant whose material is damaged
// or gone is left out, so that asking for its sites again is what helps; without
// the keychain nothing is lent at all.
func (l *Lender) unseal(ctx context.Context, device browserhost.DeviceID) ([]lot, error) {
	var lots []lot
	for _, g := range l.For(device) {
		if !slices.ContainsFunc(g.Sinks, func(s browserhost.Sink) bool { return s.Kind == "local" }) {
			continue // the browsers of this host are local (AIP-63 C6)
		}
		cookies, err := l.opts.Jar.Unseal(ctx, g.ID)
		switch browserhost.CodeOf(err) {
		case "":
			cookies = slices.DeleteFunc(cookies, func(c browserhost.Cookie) bool { // AIP-63 C2
				_, ok := domains.CoveredBy(g.Domains, c.Domain)
				return !ok
			})
			lots = append(lots, lot{g, cookies})
		case browserhost.CodeConsentRequired: // revoked this moment
		case browserhost.CodeKeyring, browserhost.CodeTimeout:
			return nil, err
		default:
			l.opts.Log.Warn("a grant is left out: its sign-ins cannot be opened", "grant", g.ID, "error", err)
		}
	}
	return lots, nil
}

// uncovered says which of the sites nothing is granted for, or that nothing is
// granted at all, and how to ask for it (K15).
func uncovered(granted, sites []string) error {
	var missing []string
	for _, s := range sites {
		if _, ok := domains.CoveredBy(granted, s); !ok {
			missing = append(missing, s)
		}
	}
	if len(missing) == 0 && len(granted) > 0 {
		return nil
	}
	next := map[string]any{"tool": "request_access"}
	if len(missing) == 0 {
		return browserhost.Errorf(browserhost.CodeConsentRequired, "no sign-in is granted to this device").With("domain", nil).With("next", next)
	}
	next["arguments"] = map[string]any{"domains": missing}
	return browserhost.Errorf(browserhost.CodeConsentRequired, "no sign-in of %s is granted to this device", missing[0]).
		With("domain", missing[0]).With("next", next)
}

// merge joins the lots, oldest first; of the same cookie the one that was lent
// last counts. With sites it takes what a browser would send there.
func merge(lots []lot, sites []string) (ids []browserhost.GrantID, cookies []browserhost.Cookie) {
	type key struct {
		name, domain, path, partition string
		crossSite                     bool
	}
	at := map[key]int{}
	for _, lot := range lots {
		if len(sites) > 0 && !slices.ContainsFunc(sites, func(s string) bool { _, ok := domains.CoveredBy(lot.grant.Domains, s); return ok }) {
			continue
		}
		ids = append(ids, lot.grant.ID)
		for _, c := range lot.cookies {
			if len(sites) > 0 && !slices.ContainsFunc(sites, func(s string) bool { return goesTo(c, s) }) {
				continue
			}
			k := key{c.Name, c.Domain, c.Path, c.PartitionKey, c.CrossSite}
			i, ok := at[k]
			if !ok {
				i = len(cookies)
				at[k] = i
				cookies = append(cookies, c)
			}
			cookies[i] = c
		}
	}
	return ids, cookies
}

// goesTo reports whether a browser would send c to the site or below it.
func goesTo(c browserhost.Cookie, site string) bool {
	parent, below := strings.CutPrefix(c.Domain, ".")
	return domains.Covers(site, c.Domain) || below && domains.Covers(parent, site)
}

// loan is material that is in use.
type loan struct {
	grants []browserhost.GrantID
	cut    context.CancelFunc // ends use's context
	lost   bool               // a revoke met it; guarded by Lender.mu
	over   chan struct{}      // closed when use has returned
}

// during runs use while m is registered as lent.
func (l *Lender) during(ctx context.Context, m browserhost.Material, use func(context.Context, browserhost.Material) error) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	made := &loan{grants: m.Grants, cut: cut, over: make(chan struct{})}
	if !l.begin(made, m.Device) {
		return revoked()
	}
	defer l.finish(made)
	err := use(ctx, m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if made.lost {
		return revoked()
	}
	return err
}

// begin registers a loan if every grant of it may be used. A revoke marks its
// grant first and looks for loans second, so one of the two sees the other.
func (l *Lender) begin(made *loan, device browserhost.DeviceID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.opts.Now()
	if len(made.grants) == 0 { // AIP-63 C1
		return false
	}
	for _, id := range made.grants {
		g, ok := l.opts.Jar.Grant(id)
		if !ok || !g.Active(now) || !g.Serves(device) || l.removed[device] {
			return false
		}
	}
	for _, id := range made.grants {
		if l.lent[id] == nil {
			l.lent[id] = map[browserhost.DeviceID]bool{}
		}
		l.lent[id][device] = true
	}
	l.loans[made] = true
	return true
}

func (l *Lender) finish(made *loan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.loans, made)
	close(made.over)
}

func revoked() error {
	return browserhost.Errorf(browserhost.CodeConsentRequired, "the sign-in was revoked").With("domain", nil).With("reason", reasonRevoked)
}
