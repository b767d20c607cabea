package cdp

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"slices"
	"sync"
	"time"

	"browserhost"

	"github.com/chromedp/cdproto/browser"
	cdproto "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
)

// attachTime bounds the making of one context; sixteen at once take five
// seconds on a slow machine.
const attachTime = 30 * time.Second

// onlyPages is the filter for targets: workers, frames and extensions are not ours.
var onlyPages = target.Filter{{Type: "page"}}

// Browser is one running browser and what the host opened in it: contexts and
// their pages. It is safe for concurrent use.
type Browser struct {
	conn  *Conn
	root  session
	tasks sync.WaitGroup

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when a page comes
	contexts map[cdproto.BrowserContextID]*driver
	pages    map[target.ID]*page
}

// NewBrowser takes over the browser at the other end of conn, which it owns
// from now on. Every page that opens from here on starts held back, until it
// is set up; a page that is in none of the contexts made here is closed, the
// one the browser started with included. On an error conn is closed.
func NewBrowser(ctx context.Context, conn *Conn) (*Browser, error) {
	b := &Browser{
		conn:     conn,
		root:     session{conn: conn},
		changed:  make(chan struct{}),
		contexts: map[cdproto.BrowserContextID]*driver{},
		pages:    map[target.ID]*page{},
	}
	conn.route("", b.event)
	b.tasks.Go(b.mourn)
	// Discovery tells of crashes and titles, attaching of everything else.
	_, discover := run(ctx, b.root, target.SetDiscoverTargets, target.SetDiscoverTargetsParams{Discover: true, Filter: onlyPages})
	_, attach := run(ctx, b.root, target.SetAutoAttach, target.SetAutoAttachParams{
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: new(true), Filter: onlyPages,
	})
	if err := errors.Join(discover, attach); err != nil {
		b.Close()
		return nil, shown(err, "")
	}
	return b, nil
}

// Version is what the browser calls itself, e.g. "Chrome/156.0.8078.114". It
// opens nothing and changes nothing (AIP-63 L4).
func (b *Browser) Version(ctx context.Context) (string, error) {
	r, err := run(ctx, b.root, browser.GetVersion, none)
	return r.Product, shown(err, "")
}

// Lost is closed when the browser is gone, wanted or not.
func (b *Browser) Lost() <-chan struct{} { return b.conn.Lost() }

// Shutdown asks the browser to end in order, so that it writes what it keeps,
// and waits until it is gone or ctx ends (AIP-63 L5).
func (b *Browser) Shutdown(ctx context.Context) error {
	if _, err := run(ctx, b.root, browser.Close, none); err != nil && !errors.Is(err, errLost) {
		return shown(err, "")
	}
	select {
	case <-b.Lost():
		return nil
	case <-ctx.Done():
		return shown(ctx.Err(), "")
	}
}

// Close ends the connection and waits until nothing of it runs. The browser
// itself is the business of whoever started it; on a pipe it ends too.
func (b *Browser) Close() error {
	err := b.conn.Close()
	b.tasks.Wait()
	return err
}

// mourn ends every page when the browser is gone.
func (b *Browser) mourn() {
	<-b.conn.Lost()
	b.mu.Lock()
	var left []*page
	for _, p := range b.pages {
		left = append(left, p)
	}
	b.mu.Unlock()
	for _, p := range left {
		p.finish(goneLost)
	}
}

// Attach opens one isolated context whose pages reach the world through
// opts.Proxy alone. It is the only function that makes contexts: without the
// bypass list a context would go to loopback directly, whatever the browser was
// started with (S2.30, K10).
//
// The answer is also a browserhost.CookieJar.
func (b *Browser) Attach(ctx context.Context, opts browserhost.AttachOptions) (browserhost.Driver, error) {
	if opts.Proxy == "" {
		return nil, browserhost.Errorf(browserhost.CodeInternal, "a context needs its own way out").State(browserhost.NotStarted)
	}
	// Made to the end even if the caller leaves: an unknown context cannot be disposed of.
	making, cancel := context.WithTimeout(context.WithoutCancel(ctx), attachTime)
	defer cancel()
	r, err := run(making, b.root, target.CreateBrowserContext, target.CreateBrowserContextParams{
		DisposeOnDetach: new(true),
		ProxyServer:     opts.Proxy,
		ProxyBypassList: "<-loopback>",
	})
	if err != nil {
		return nil, shown(err, browserhost.NotStarted)
	}
	d := newDriver(b, r.BrowserContextID, opts.Domains)
	b.mu.Lock()
	b.contexts[d.id] = d
	b.mu.Unlock()
	// Files are another scope's business; nothing lands in the owner's downloads.
	_, err = run(making, b.root, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorDeny, BrowserContextID: d.id,
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(shown(err, browserhost.NotStarted), d.Close(making))
	}
	return d, nil
}

// Default gives the browser's own, not isolated context, without a proxy: for
// a browser that is the owner's, such as the one in the demo. Pages that were
// open before are not part of it; closing it closes its pages.
func (b *Browser) Default(ctx context.Context) (browserhost.Driver, error) {
	r, err := run(ctx, b.root, target.GetBrowserContexts, none)
	if err != nil {
		return nil, shown(err, browserhost.NotStarted)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if d, ok := b.contexts[r.DefaultBrowserContextID]; ok {
		return d, nil
	}
	d := newDriver(b, r.DefaultBrowserContextID, nil)
	d.own = true
	b.contexts[d.id] = d
	return d, nil
}

// event hears what the browser says about its targets, on the reading goroutine.
func (b *Browser) event(method string, params jsontext.Value) {
	switch method {
	case target.AttachedToTarget.Method:
		on(target.AttachedToTarget, params, b.attached)
	case target.DetachedFromTarget.Method:
		on(target.DetachedFromTarget, params, func(e target.EventDetachedFromTarget) {
			b.each(func(p *page) bool { return p.session.id == string(e.SessionID) }, func(p *page) { p.finish(goneClosed) })
		})
	case target.TargetDestroyed.Method:
		on(target.TargetDestroyed, params, func(e target.EventTargetDestroyed) {
			b.each(func(p *page) bool { return p.target == e.TargetID }, func(p *page) { p.finish(goneClosed) })
		})
	case target.TargetCrashed.Method:
		on(target.TargetCrashed, params, func(e target.EventTargetCrashed) {
			b.each(func(p *page) bool { return p.target == e.TargetID }, func(p *page) {
				p.finish(goneCrashed)
				b.closeTarget(e.TargetID)
			})
		})
	case target.TargetInfoChanged.Method:
		on(target.TargetInfoChanged, params, func(e target.EventTargetInfoChanged) {
			if e.TargetInfo != nil {
				b.each(func(p *page) bool { return p.target == e.TargetInfo.TargetID }, func(p *page) { p.retitle(e.TargetInfo.Title) })
			}
		})
	}
}

// each calls f for the pages that match, without holding b.mu.
func (b *Browser) each(match func(*page) bool, f func(*page)) {
	b.mu.Lock()
	var found []*page
	for _, p := range b.pages {
		if match(p) {
			found = append(found, p)
		}
	}
	b.mu.Unlock()
	for _, p := range found {
		f(p)
	}
}

// attached takes in a new page, or closes it where it is none of ours: only
// what the host opened is touched, and only that stays open.
func (b *Browser) attached(e target.EventAttachedToTarget) {
	info := e.TargetInfo
	if info == nil {
		return
	}
	b.mu.Lock()
	d, ours := b.contexts[info.BrowserContextID]
	if ours {
		ours = d.room()
	}
	if !ours {
		b.mu.Unlock()
		b.closeTarget(info.TargetID)
		return
	}
	p := newPage(d, info, session{b.conn, string(e.SessionID)})
	b.pages[p.target] = p
	opener := b.pages[info.OpenerID]
	close(b.changed)
	b.changed = make(chan struct{})
	b.mu.Unlock()
	d.add(p)
	b.conn.route(p.session.id, p.event)
	p.setUp()
	if opener != nil {
		opener.opened(p)
	}
}

func (b *Browser) closeTarget(id target.ID) {
	b.root.post(cmd(target.CloseTarget, target.CloseTargetParams{TargetID: id}))
}

// page waits until the page of a target that was made is known.
func (b *Browser) page(ctx context.Context, id target.ID) (*page, error) {
	for {
		b.mu.Lock()
		p, changed := b.pages[id], b.changed
		b.mu.Unlock()
		if p != nil {
			return p, nil
		}
		select {
		case <-changed:
		case <-b.conn.Lost():
			return nil, b.conn.Err()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// forget takes a page out of the tables.
func (b *Browser) forget(p *page) {
	b.mu.Lock()
	if b.pages[p.target] == p {
		delete(b.pages, p.target)
	}
	b.mu.Unlock()
	b.conn.route(p.session.id, nil)
}

// release takes a context out of the tables.
func (b *Browser) release(d *driver) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.contexts, d.id)
}

// exists reports whether the browser still has a context.
func (b *Browser) exists(ctx context.Context, id cdproto.BrowserContextID) (bool, error) {
	r, err := run(ctx, b.root, target.GetBrowserContexts, none)
	return slices.Contains(r.BrowserContextIDs, id), err
}
