package cdp

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"browserhost"

	cdproto "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/storage"
)

// Why a cookie was not set. No reason names the cookie.
const (
	refusedExpired   = "expired"     // it had run out before
	refusedMalformed = "malformed"   // it has no name or no domain
	refusedByBrowser = "refused"     // the browser said no
	refusedSilently  = "not_stored"  // the browser said yes, and does not have it
	refusedChanged   = "not_as_lent" // the browser has another value, or keeps it wider or narrower
)

// cookieBatch bounds the cookies on their way at once.
const cookieBatch = 64

// SetCookies lends cookies to the context. Each is set by itself, because one
// bad one makes a whole batch fail; then all are read back, because a browser
// may drop one and say nothing.
func (d *driver) SetCookies(ctx context.Context, cookies []browserhost.Cookie) (browserhost.Counts, error) {
	var counts browserhost.Counts
	if err := d.open(); err != nil {
		return counts, err
	}
	why := make([]string, len(cookies))
	for from := 0; from < len(cookies); from += cookieBatch {
		to := min(from+cookieBatch, len(cookies))
		if err := d.set(ctx, cookies[from:to], why[from:to]); err != nil {
			return counts, shown(err, browserhost.OutcomeUnknown)
		}
	}
	held, err := d.held(ctx)
	if err != nil {
		return counts, shown(err, browserhost.OutcomeUnknown)
	}
	for i, c := range cookies {
		if why[i] == "" {
			why[i] = held.missing(c)
		}
		if why[i] == "" {
			counts.Set++
			continue
		}
		if counts.Refused == nil {
			counts.Refused = map[string]int{}
		}
		counts.Refused[why[i]]++
	}
	return counts, nil
}

// set sets the cookies of one batch, each with its own command, and notes why
// one was refused.
func (d *driver) set(ctx context.Context, cookies []browserhost.Cookie, why []string) error {
	root := d.browser.root
	calls := make([]*call, len(cookies))
	for i, c := range cookies {
		switch {
		case c.Name == "" && c.Value == "" || host(c) == "":
			why[i] = refusedMalformed
			continue
		case !c.Expires.IsZero() && !c.Expires.After(time.Now()):
			why[i] = refusedExpired // setting it would take another one away
			continue
		}
		started, err := root.start(cmd(storage.SetCookies, storage.SetCookiesParams{
			Cookies: []*network.CookieParam{param(c)}, BrowserContextID: d.id,
		}))
		if err != nil {
			return err
		}
		calls[i] = started[0]
	}
	for i, c := range calls {
		if c == nil {
			continue
		}
		_, _, err := root.conn.await(ctx, c)
		if _, refused := errors.AsType[*protocolError](err); refused {
			why[i] = refusedByBrowser
		} else if err != nil {
			return err
		}
	}
	return nil
}

// param is a cookie as the browser takes it. A host-only one is set through a
// URL and without a domain: a domain would widen it, and __Host- forbids one.
func param(c browserhost.Cookie) *network.CookieParam {
	p := &network.CookieParam{
		Name: c.Name, Value: string(c.Value), Path: cmp.Or(c.Path, "/"), Secure: c.Secure, HTTPOnly: c.HTTPOnly,
		SameSite:     network.CookieSameSite(c.SameSite),
		Priority:     network.CookiePriority(c.Priority),
		SourceScheme: network.CookieSourceScheme(c.SourceScheme),
		SourcePort:   int64(c.SourcePort),
	}
	if !c.Expires.IsZero() {
		p.Expires = seconds(c.Expires)
	}
	if c.PartitionKey != "" {
		p.PartitionKey = &network.CookiePartitionKey{TopLevelSite: c.PartitionKey, HasCrossSiteAncestor: c.CrossSite}
	}
	if c.Domain[0] == '.' {
		p.Domain = c.Domain
		return p
	}
	scheme := "http"
	if c.Secure || c.SourceScheme == string(network.CookieSourceSchemeSecure) {
		scheme = "https"
	}
	p.URL = (&url.URL{Scheme: scheme, Host: c.Domain, Path: p.Path}).String()
	return p
}

// cookieKey tells cookies apart as a browser does.
type cookieKey struct {
	name, domain, path, partition string
	crossSite                     bool
}

// cookieSet are the values of the cookies that a context holds.
type cookieSet map[cookieKey]browserhost.Secret

// held reads back what the context holds.
func (d *driver) held(ctx context.Context) (cookieSet, error) {
	r, err := run(ctx, d.browser.root, storage.GetCookies, storage.GetCookiesParams{BrowserContextID: d.id})
	if err != nil {
		return nil, err
	}
	set := cookieSet{}
	for _, c := range r.Cookies {
		k := cookieKey{name: c.Name, domain: c.Domain, path: c.Path}
		if c.PartitionKey != nil {
			k.partition, k.crossSite = c.PartitionKey.TopLevelSite, c.PartitionKey.HasCrossSiteAncestor
		}
		set[k] = browserhost.Secret(c.Value)
	}
	return set, nil
}

// missing says why c does not count as set, "" when it is held as it was lent.
func (s cookieSet) missing(c browserhost.Cookie) string {
	k := cookieKey{c.Name, c.Domain, cmp.Or(c.Path, "/"), c.PartitionKey, c.CrossSite && c.PartitionKey != ""}
	if v, ok := s[k]; ok {
		if v == c.Value {
			return ""
		}
		return refusedChanged
	}
	for other := range s { // e.g. .co.uk, of which a browser makes a cookie of that host alone
		if other.name == k.name && other.path == k.path && host(browserhost.Cookie{Domain: other.domain}) == host(c) {
			return refusedChanged
		}
	}
	return refusedSilently
}

// CookiesLeft counts the cookies that the context holds for the domains. It
// asks the browser even when the context is closed: CodeTargetGone is the
// browser's own word that there is nothing left.
func (d *driver) CookiesLeft(ctx context.Context, domains []string) (int, error) {
	set, err := d.held(ctx)
	if _, refused := errors.AsType[*protocolError](err); refused {
		return 0, goneError(goneContext)
	}
	if err != nil {
		return 0, shown(err, "")
	}
	n := 0
	for k := range set {
		if slices.ContainsFunc(domains, func(domain string) bool { return covers(domain, k.domain) }) {
			n++
		}
	}
	return n, nil
}

// host is the host that a cookie belongs to, without the dot of a wide one.
func host(c browserhost.Cookie) string { return strings.ToLower(strings.Trim(c.Domain, ".")) }

// seconds is a time as the protocol writes it.
func seconds(t time.Time) cdproto.TimeSinceEpoch {
	return cdproto.TimeSinceEpoch(float64(t.UnixMicro()) / 1e6)
}
