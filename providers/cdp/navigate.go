package cdp

import (
	"context"
	"errors"
	"time"

	"browserhost"

	cdproto "github.com/chromedp/cdproto/cdp"
	pagecmd "github.com/chromedp/cdproto/page"
)

// What Navigate can wait for.
const (
	waitLoad = "load"
	waitDOM  = "dom"
	waitNone = "none" // the new document, and no part of it
)

// loadTime bounds the wait for a document that has begun to load; it leaves
// the call enough time to answer.
const loadTime = browserhost.CallTime * 5 / 6

// Navigate opens a URL in the page. wait is "load" (or ""), "dom" or "none".
// The effect is completed when the new document is there or the browser says
// why not (contract F); then there is no error. What was waited for may still
// be missing: see Navigation.Loaded.
func (p *page) Navigate(ctx context.Context, url, wait string) (browserhost.Navigation, error) {
	var nav browserhost.Navigation
	if err := p.driver.check(url); err != nil {
		return nav, err
	}
	switch wait {
	case "":
		wait = waitLoad
	case waitLoad, waitDOM, waitNone:
	default:
		return nav, browserhost.Errorf(browserhost.CodeInputInvalid, "wait: is not one of load, dom, none").
			With("field", "wait").State(browserhost.NotStarted)
	}
	ctx, cancel := context.WithTimeout(ctx, browserhost.CallTime)
	defer cancel()
	loading, stop := context.WithTimeout(ctx, loadTime)
	defer stop()
	done, err := p.turn(ctx)
	if err != nil {
		return nav, p.shown(err, browserhost.NotStarted)
	}
	defer done()
	calls, err := p.session.start(cmd(pagecmd.Navigate, pagecmd.NavigateParams{URL: url}))
	if err != nil {
		return nav, p.shown(err, browserhost.NotStarted)
	}
	v, sent, err := p.await(ctx, calls[0], false)
	if errors.Is(err, errDialog) { // the page asks whether it may be left, or speaks already
		return p.navigation(false, wait), nil
	}
	if err != nil {
		return nav, p.shown(err, unlessRefused(err, sent))
	}
	r, err := decode[pagecmd.NavigateResult](pagecmd.CommandNavigate, v)
	if err != nil {
		return nav, p.shown(err, browserhost.OutcomeUnknown)
	}
	if r.ErrorText != "" {
		nav.URL, nav.Failed = url, clipBytes(r.ErrorText, browserhost.MaxNodeText)
		return nav, nil
	}
	return p.arrive(loading, r.LoaderID, wait)
}

// arrive waits until a document is there and as far as wait says. A page may
// send its visitor on at once; then the document that comes last counts.
func (p *page) arrive(ctx context.Context, loader cdproto.LoaderID, wait string) (browserhost.Navigation, error) {
	committed := loader == "" // the same document
	for {
		p.mu.Lock()
		changed, held := p.changed, p.dialog != nil
		committed = committed || p.doc.loader == loader
		arrived := committed && p.heading == "" && p.doc.far(wait)
		p.mu.Unlock()
		if arrived || held {
			return p.navigation(arrived, wait), nil
		}
		select {
		case <-changed:
		case <-p.gone:
			return browserhost.Navigation{}, p.shown(errPageGone, browserhost.Completed)
		case <-ctx.Done():
			return p.navigation(false, wait), nil
		}
	}
}

// far reports whether the document is as far as wait says.
func (d document) far(wait string) bool {
	switch wait {
	case waitNone:
		return true
	case waitDOM:
		return d.dom
	}
	return d.load
}

// navigation is how far the page's document got.
func (p *page) navigation(loaded bool, wait string) browserhost.Navigation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return browserhost.Navigation{
		URL:    p.url,
		Status: p.statuses[p.doc.loader],
		Loaded: loaded && p.doc.far(wait),
		Dialog: p.dialog,
	}
}

// moment is what a page was before an act, so that the act's doing can be told.
type moment struct {
	loader   cdproto.LoaderID
	requests int
	births   int
	began    time.Time
}

func (p *page) moment() moment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return moment{p.doc.loader, p.requests, p.births, time.Now()}
}
