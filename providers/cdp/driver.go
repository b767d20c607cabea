package cdp

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"

	"browserhost"

	cdproto "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
)

// driver is one context: a cookie and storage jar with its pages (AIP-63 L3).
type driver struct {
	browser *Browser
	id      cdproto.BrowserContextID
	domains []string // the fence; nil = none
	own     bool     // the browser's own context, which cannot be disposed of

	mu     sync.Mutex
	closed bool
	pages  []*page // oldest first
}

var (
	_ browserhost.Driver    = (*driver)(nil)
	_ browserhost.CookieJar = (*driver)(nil)
	_ browserhost.Page      = (*page)(nil)
)

func newDriver(b *Browser, id cdproto.BrowserContextID, domains []string) *driver {
	return &driver{browser: b, id: id, domains: slices.Clone(domains)}
}

// room reports whether one more page may open. Pages open pages: without a
// bound one of them could fill the machine (contract B).
func (d *driver) room() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.closed && len(d.pages) < browserhost.MaxPagesPerDevice
}

func (d *driver) add(p *page) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages = append(d.pages, p)
}

func (d *driver) remove(p *page) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages = slices.DeleteFunc(d.pages, func(q *page) bool { return q == p })
}

// Pages lists what is open, oldest first.
func (d *driver) Pages() []browserhost.Page {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]browserhost.Page, len(d.pages))
	for i, p := range d.pages {
		out[i] = p
	}
	return out
}

// NewPage opens a page in a window of its own: a second tab of one window is
// hidden, and in a hidden tab input and pictures hang.
func (d *driver) NewPage(ctx context.Context, url string) (browserhost.Page, browserhost.Navigation, error) {
	var nav browserhost.Navigation
	if url != "" {
		if err := d.check(url); err != nil {
			return nil, nav, err
		}
	}
	if err := d.open(); err != nil {
		return nil, nav, err
	}
	if !d.room() {
		return nil, nav, browserhost.Errorf(browserhost.CodeBusy, "%d pages are open already; close one first", browserhost.MaxPagesPerDevice).
			State(browserhost.NotStarted)
	}
	root := d.browser.root
	c, err := root.start(cmd(target.CreateTarget, target.CreateTargetParams{
		URL: "about:blank", BrowserContextID: d.id, NewWindow: new(true),
	}))
	if err != nil {
		return nil, nav, shown(err, browserhost.NotStarted)
	}
	v, sent, err := root.conn.await(ctx, c[0])
	if err != nil {
		return nil, nav, shown(err, unlessRefused(err, sent))
	}
	r, err := decode[target.CreateTargetResult](target.CommandCreateTarget, v)
	if err != nil {
		return nil, nav, shown(err, browserhost.OutcomeUnknown)
	}
	p, err := d.browser.page(ctx, r.TargetID)
	if err != nil {
		return nil, nav, shown(err, browserhost.OutcomeUnknown)
	}
	if err := p.usable(ctx); err != nil {
		return nil, nav, shown(err, browserhost.OutcomeUnknown)
	}
	if url == "" {
		return p, browserhost.Navigation{URL: p.Info().URL, Loaded: true}, nil
	}
	nav, err = p.Navigate(ctx, url, waitLoad)
	if browserhost.CodeOf(err) == browserhost.CodeTargetGone {
		return nil, nav, shown(err, browserhost.OutcomeUnknown)
	}
	if err != nil { // the page is open all the same (contract F)
		nav = browserhost.Navigation{URL: url}
	}
	return p, nav, nil
}

// unlessRefused is how far an effect got that is one command: an answer that
// refuses means that nothing happened.
func unlessRefused(err error, sent bool) browserhost.Execution {
	if _, refused := errors.AsType[*protocolError](err); refused || !sent {
		return browserhost.NotStarted
	}
	return browserhost.OutcomeUnknown
}

// open fails when the context is closed or its browser gone.
func (d *driver) open() error {
	select {
	case <-d.browser.conn.Lost():
		return shown(d.browser.conn.Err(), browserhost.NotStarted)
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return goneError(goneContext).State(browserhost.NotStarted)
	}
	return nil
}

// Close closes every page and disposes of the context, and reads back that the
// browser no longer has it. Closing again does nothing.
func (d *driver) Close(ctx context.Context) error {
	d.mu.Lock()
	was := d.closed
	d.closed = true
	pages := slices.Clone(d.pages)
	d.mu.Unlock()
	if was {
		return nil
	}
	for _, p := range pages {
		p.finish(goneContext)
	}
	defer d.browser.release(d)
	err := d.dispose(ctx, pages)
	if errors.Is(err, errLost) {
		return nil // with its browser
	}
	return shown(err, browserhost.OutcomeUnknown)
}

func (d *driver) dispose(ctx context.Context, pages []*page) error {
	root := d.browser.root
	if d.own {
		var errs error
		for _, p := range pages {
			_, err := run(ctx, root, target.CloseTarget, target.CloseTargetParams{TargetID: p.target})
			errs = errors.Join(errs, err)
		}
		return errs
	}
	if _, err := run(ctx, root, target.DisposeBrowserContext, target.DisposeBrowserContextParams{BrowserContextID: d.id}); err != nil {
		return err
	}
	left, err := d.browser.exists(ctx, d.id)
	if err == nil && left {
		err = errors.New("cdp: the context is still there")
	}
	return err
}

// check accepts what an agent may open here: an absolute http or https URL
// (S3.28), in a signed-in context one of the granted sites.
func (d *driver) check(raw string) error {
	if err := browserhost.CheckURL(raw); err != nil {
		return err
	}
	if d.domains == nil {
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil || !slices.ContainsFunc(d.domains, func(domain string) bool { return covers(domain, u.Hostname()) }) {
		return browserhost.Errorf(browserhost.CodeBlockedByPolicy, "the address is outside the sites granted to this session").
			With("field", "url").State(browserhost.NotStarted)
	}
	return nil
}

// covers reports whether host is domain or lies below it, on a label boundary.
func covers(domain, host string) bool {
	domain = strings.ToLower(strings.Trim(domain, "."))
	host = strings.ToLower(strings.Trim(host, "."))
	return domain != "" && (host == domain || strings.HasSuffix(host, "."+domain))
}
