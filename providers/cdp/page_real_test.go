//go:build real && linux

package cdp

import (
	"context"
	"encoding/json/jsontext"
	"strings"
	"testing"
	"time"

	"browserhost"

	pagecmd "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
)

const shop = `<title>Shop</title><h1>Shop</h1><p><a href="/next">Next</a> <button onclick="fetch('/press/buy', {method: 'POST'})">Buy</button>`

// A page opens in each program, and says how far its document got.
func TestNavigate(t *testing.T) {
	for _, program := range []string{full, shell} {
		t.Run(program, func(t *testing.T) {
			s := serveWeb(t, map[string]string{"/": shop, "/next": "<title>Next</title>"})
			d := attach(t, launch(t, program), s)
			p, nav, err := d.NewPage(t.Context(), "http://shop.test/")
			if err != nil || !nav.Loaded || nav.Status != 200 || nav.URL != "http://shop.test/" {
				t.Fatalf("%+v, %v", nav, err)
			}
			nav, err = p.Navigate(t.Context(), "http://shop.test/next#part", "dom")
			if err != nil || !nav.Loaded || nav.Status != 200 || nav.URL != "http://shop.test/next#part" {
				t.Errorf("%+v, %v", nav, err)
			}
			nav, err = p.Navigate(t.Context(), "http://shop.test/nothing", "")
			if err != nil || !nav.Loaded || nav.Status != 404 || nav.Failed != "" {
				t.Errorf("%+v, %v", nav, err)
			}
			if p.Info() != (browserhost.PageInfo{URL: "http://shop.test/nothing"}) && p.Info().Title == "" {
				t.Errorf("%+v", p.Info())
			}
			if err := p.Close(t.Context()); err != nil {
				t.Error(err)
			}
			<-p.Gone()
			if p.GoneReason() != "closed" || len(d.Pages()) != 0 {
				t.Errorf("%q, %d pages", p.GoneReason(), len(d.Pages()))
			}
			if err := p.Close(t.Context()); browserhost.CodeOf(err) != browserhost.CodeTargetGone {
				t.Errorf("%v", err)
			}
		})
	}
}

// A page that cannot be reached is a completed navigation that says why
// (contract F), and the page is there.
func TestNavigateFails(t *testing.T) {
	s := serveWeb(t, nil)
	d := attach(t, launch(t, full), s)
	s.Close() // a context whose way out is closed goes nowhere, and never directly
	p, nav, err := d.NewPage(t.Context(), "http://shop.test/")
	if err != nil || nav.Loaded || nav.Failed != "net::ERR_PROXY_CONNECTION_FAILED" || nav.URL != "http://shop.test/" {
		t.Fatalf("%+v, %v", nav, err)
	}
	if nav, err := p.Navigate(t.Context(), s.URL, ""); err != nil || nav.Failed != "net::ERR_PROXY_CONNECTION_FAILED" {
		t.Errorf("loopback went around the proxy: %+v, %v", nav, err) // S2.30, K10
	}
}

// A server that says nothing costs the caller's patience and no more; what
// became of the call is then unknown and says so (S3.29, S3.30).
func TestNavigateHangs(t *testing.T) {
	s := serveWeb(t, map[string]string{"/": shop})
	d := attach(t, launch(t, full), s)
	p := openAt(t, d, "http://shop.test/")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := p.Navigate(ctx, "http://shop.test/hang", "")
	e := browserhost.AsError(err)
	if e == nil || e.Code != browserhost.CodeTimeout || e.Execution != browserhost.OutcomeUnknown || e.Retryable {
		t.Fatalf("%+v", err)
	}
	if nav, err := p.Navigate(t.Context(), "http://shop.test/", ""); err != nil || !nav.Loaded {
		t.Errorf("%+v, %v", nav, err)
	}
}

// Only http and https are opened, in a signed-in context only the granted
// sites; nothing reaches the browser (S3.28).
func TestFence(t *testing.T) {
	s := serveWeb(t, map[string]string{"/": shop})
	d := attach(t, launch(t, full), s, "shop.test")
	p := openAt(t, d, "http://app.shop.test/")
	for url, want := range map[string]browserhost.Code{
		"http://notshop.test/":           browserhost.CodeBlockedByPolicy,
		"http://shop.test.evil.test/":    browserhost.CodeBlockedByPolicy,
		"https://test/":                  browserhost.CodeBlockedByPolicy,
		"file:///etc/passwd":             browserhost.CodeInputInvalid,
		"javascript:alert(1)":            browserhost.CodeInputInvalid,
		"view-source:http://shop.test/":  browserhost.CodeInputInvalid,
		"http://ada:secret@shop.test/":   browserhost.CodeInputInvalid,
		"chrome://version":               browserhost.CodeInputInvalid,
		"data:text/html,hi":              browserhost.CodeInputInvalid,
		"blob:http://shop.test/12345678": browserhost.CodeInputInvalid,
	} {
		for what, err := range map[string]error{
			"navigate": func() error { _, err := p.Navigate(t.Context(), url, ""); return err }(),
			"new page": func() error { _, _, err := d.NewPage(t.Context(), url); return err }(),
		} {
			e := browserhost.AsError(err)
			if e == nil || e.Code != want || e.Execution != browserhost.NotStarted {
				t.Errorf("%s %s: %v", what, url, err)
			}
		}
	}
	if got := p.Info().URL; got != "http://app.shop.test/" || len(d.Pages()) != 1 {
		t.Errorf("the page is at %s, %d pages", got, len(d.Pages()))
	}
	if s.hits("GET notshop.test/")+s.hits("GET shop.test.evil.test/") != 0 {
		t.Error("a refused address was asked for")
	}
}

// A page that leads itself to a document of a forbidden scheme is led away (S3.28).
func TestPageDrivenSchemes(t *testing.T) {
	s := serveWeb(t, map[string]string{"/": `<script>location = URL.createObjectURL(new Blob(["<h1>Hidden</h1>"], {type: "text/html"}))</script>`})
	d := attach(t, launch(t, full), s)
	p, _, err := d.NewPage(t.Context(), "http://shop.test/")
	if err != nil {
		t.Fatal(err)
	}
	until(t, p.(*page), func() bool { return p.Info().URL == "about:blank" })
}

// until waits for a change of the page after which ok holds.
func until(t *testing.T, p *page, ok func() bool) {
	t.Helper()
	end := time.After(10 * time.Second)
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("it never came to that; the page is at %s", p.Info().URL)
		}
	}
}

// Two contexts share nothing: not cookies, and not the way out (AIP-63 L3, K10).
func TestIsolation(t *testing.T) {
	pages := map[string]string{"/": shop, "/in": "<script>document.cookie='who=ada; path=/'</script>"}
	b := launch(t, full)
	s1, s2 := serveWeb(t, pages), serveWeb(t, pages)
	d1, d2 := attach(t, b, s1), attach(t, b, s2)
	openAt(t, d1, "http://shop.test/in")
	openAt(t, d2, "http://shop.test/")
	for d, want := range map[browserhost.Driver]int{d1: 1, d2: 0} {
		if n, err := d.(browserhost.CookieJar).CookiesLeft(t.Context(), []string{"shop.test"}); n != want || err != nil {
			t.Errorf("%d cookies, want %d: %v", n, want, err)
		}
	}
	if s1.hits("GET shop.test/in") != 1 || s2.hits("GET shop.test/in") != 0 || s1.hits("GET shop.test/") != 0 || s2.hits("GET shop.test/") != 1 {
		t.Errorf("%v %v", s1.count, s2.count)
	}
	if err := d1.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d1.(browserhost.CookieJar).CookiesLeft(t.Context(), []string{"shop.test"}); browserhost.CodeOf(err) != browserhost.CodeTargetGone {
		t.Errorf("after closing: %v", err) // AIP-63 C8: read back
	}
	if _, _, err := d1.NewPage(t.Context(), ""); browserhost.CodeOf(err) != browserhost.CodeTargetGone || len(d1.Pages()) != 0 {
		t.Errorf("after closing: %v", err)
	}
	if err := d1.Close(t.Context()); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if nav, err := d2.Pages()[0].Navigate(t.Context(), "http://shop.test/", ""); err != nil || !nav.Loaded {
		t.Errorf("the other context: %+v, %v", nav, err)
	}
}

// A crash ends the page, says so, and leaves the browser alone.
func TestCrash(t *testing.T) {
	s := serveWeb(t, map[string]string{"/": shop})
	b := launch(t, full)
	d := attach(t, b, s)
	p := openAt(t, d, "http://shop.test/").(*page)
	p.session.post(cmd(pagecmd.Crash, none))
	<-p.Gone()
	if p.GoneReason() != "crashed" || len(d.Pages()) != 0 {
		t.Errorf("%q, %d pages", p.GoneReason(), len(d.Pages()))
	}
	_, err := p.Snapshot(t.Context(), browserhost.SnapshotOptions{})
	if e := browserhost.AsError(err); e == nil || e.Code != browserhost.CodeTargetGone || e.Cause["reason"] != "crashed" {
		t.Errorf("%v", err)
	}
	openAt(t, d, "http://shop.test/")
}

// A lost browser fails what waits and all that comes (AIP-63 L12), and nothing
// of the connection stays behind.
func TestLost(t *testing.T) {
	s := serveWeb(t, map[string]string{"/": shop})
	chrome := startOn(t, full)
	b := takeOver(t, chrome)
	d := attach(t, b, s)
	p := openAt(t, d, "http://shop.test/")
	failed := make(chan error)
	go func() { _, err := p.Navigate(t.Context(), "http://shop.test/hang", ""); failed <- err }()
	s.reached(t, "GET shop.test/hang", 1)
	chrome.kill()
	e := browserhost.AsError(<-failed)
	if e == nil || e.Code != browserhost.CodeTargetGone || e.Execution != browserhost.OutcomeUnknown {
		t.Errorf("%v", e)
	}
	<-b.Lost()
	<-p.Gone()
	if why := p.GoneReason(); why != "browser_lost" {
		t.Errorf("%q", why)
	}
	_, _, err := d.NewPage(t.Context(), "")
	if e := browserhost.AsError(err); e == nil || e.Code != browserhost.CodeTargetGone || e.Execution != browserhost.NotStarted {
		t.Errorf("%v", err)
	}
	if _, err := b.Version(t.Context()); browserhost.CodeOf(err) != browserhost.CodeTargetGone {
		t.Errorf("%v", err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Errorf("its context went with it: %v", err)
	}
}

// A browser ends in order when it is asked to (AIP-63 L5).
func TestShutdown(t *testing.T) {
	b := launch(t, full)
	if err := b.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-b.Lost()
	if err := b.Shutdown(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
}

// What nobody asked for is closed: a page in none of our contexts, the one
// that the browser starts with included; the browser lives on.
func TestForeignPages(t *testing.T) {
	b := launch(t, full)
	destroyed := make(chan target.ID, 64)
	b.conn.route("", func(method string, params jsontext.Value) {
		b.event(method, params)
		if method == target.TargetDestroyed.Method {
			on(target.TargetDestroyed, params, func(e target.EventTargetDestroyed) { destroyed <- e.TargetID })
		}
	})
	r, err := run(t.Context(), b.root, target.CreateTarget, target.CreateTargetParams{URL: "about:blank", NewWindow: new(true)})
	if err != nil {
		t.Fatal(err)
	}
	for <-destroyed != r.TargetID {
	}
	list, err := run(t.Context(), b.root, target.GetTargets, target.GetTargetsParams{Filter: onlyPages})
	if err != nil || len(list.TargetInfos) != 0 {
		t.Errorf("%d pages are open, %v", len(list.TargetInfos), err)
	}
	if v, err := b.Version(t.Context()); err != nil || !strings.Contains(v, "/") {
		t.Errorf("%q, %v", v, err)
	}
	d, err := b.Default(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := d.NewPage(t.Context(), "")
	if err != nil || len(d.Pages()) != 1 {
		t.Fatalf("%d pages, %v", len(d.Pages()), err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	<-p.Gone()
}

// A page must not fill the machine with windows (contract B).
func TestPagesAreBounded(t *testing.T) {
	s := serveWeb(t, nil)
	d := attach(t, launch(t, shell), s)
	for range browserhost.MaxPagesPerDevice {
		if _, _, err := d.NewPage(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := d.NewPage(t.Context(), "")
	if e := browserhost.AsError(err); e == nil || e.Code != browserhost.CodeBusy || e.Execution != browserhost.NotStarted {
		t.Errorf("%d pages, %v", len(d.Pages()), err)
	}
}
