package cdp

import (
	"context"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"browserhost"

	"github.com/chromedp/cdproto/target"
)

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// Every context has a proxy of its own that loopback does not go around; one
// without is not made (S2.30, K10). The fake browser looks.
func TestAttach(t *testing.T) {
	b, f := newFake(t)
	if _, err := b.Attach(t.Context(), browserhost.AttachOptions{}); browserhost.AsError(err).Execution != browserhost.NotStarted {
		t.Errorf("%v", err)
	}
	attachFake(t, b)
	if got := f.methods(); !slices.Equal(got[2:], []string{"Target.createBrowserContext", "Browser.setDownloadBehavior"}) {
		t.Errorf("%v", got)
	}
}

// A caller that leaves while its context is made leaves no context behind.
func TestAttachLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b, f := newFake(t)
		f.put("Target.createBrowserContext", func(o order) string { cancel(); return f.take(o) })
		if _, err := b.Attach(ctx, browserhost.AttachOptions{Proxy: "http://127.0.0.1:1"}); err == nil {
			t.Fatal("attached for nobody")
		}
		if got := f.methods(); !slices.Contains(got, "Target.disposeBrowserContext") || len(b.contexts) != 0 {
			t.Errorf("%v", got)
		}
	})
}

// A page is used only when it is set up, and in one go: nothing of it runs
// before.
func TestNewPage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, f := newFake(t)
		d := attachFake(t, b)
		p, nav, err := d.NewPage(t.Context(), "")
		if err != nil || !nav.Loaded {
			t.Fatal(nav, err)
		}
		methods := f.methods()
		if last := methods[len(methods)-1]; last != "Runtime.runIfWaitingForDebugger" {
			t.Errorf("after the page was let go: %s", last)
		}
		if p.(*page).document() != "L0" {
			t.Errorf("document %q", p.(*page).document())
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-p.Gone()
		if p.GoneReason() != goneClosed || len(d.Pages()) != 0 {
			t.Errorf("%q, %d pages", p.GoneReason(), len(d.Pages()))
		}
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What became of a page that nobody told us of is unknown; one that was not
// asked for, or was refused, is not there (contract F, S3.30).
func TestNewPageCertainty(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(f *fakeBrowser, o order) string
		code   browserhost.Code
		state  browserhost.Execution
	}{
		"silence": {func(*fakeBrowser, order) string { return "" }, browserhost.CodeTimeout, browserhost.OutcomeUnknown},
		"refusal": {func(*fakeBrowser, order) string { return refusalAnswer }, browserhost.CodeUpstream, browserhost.NotStarted},
		"loss":    {func(f *fakeBrowser, _ order) string { f.conn.Close(); return "" }, browserhost.CodeTargetGone, browserhost.OutcomeUnknown},
		"no page": {func(*fakeBrowser, order) string { return `{"targetId":"T99"}` }, browserhost.CodeTimeout, browserhost.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b, f := newFake(t)
				d := attachFake(t, b)
				f.put("Target.createTarget", func(o order) string { return c.answer(f, o) })
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, _, err := d.NewPage(ctx, "")
				if e := browserhost.AsError(err); e == nil || e.Code != c.code || e.Execution != c.state || e.Retryable {
					t.Errorf("%v %v", e, e.Execution)
				}
			})
		})
	}
}

// A page that none of our pages may have opened is closed, and so is what is
// over the bound; what our pages opened is taken in, with its opener told.
func TestAdoption(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, f := newFake(t)
		d := attachFake(t, b)
		p, _, err := d.NewPage(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		f.appear("own", "")
		child := f.appear(d.id, p.(*page).target)
		synctest.Wait()
		if pages := d.Pages(); len(pages) != 2 || pages[1].(*page).target != child || len(p.(*page).children) != 1 {
			t.Fatalf("%d pages", len(pages))
		}
		for range browserhost.MaxPagesPerDevice {
			f.appear(d.id, child)
		}
		synctest.Wait()
		if n := len(d.Pages()); n != browserhost.MaxPagesPerDevice {
			t.Errorf("%d pages", n)
		}
		closed := 0
		for _, m := range f.methods() {
			if m == "Target.closeTarget" {
				closed++
			}
		}
		if closed != 3 { // the foreign one and the two over the bound
			t.Errorf("%d were closed", closed)
		}
	})
}

// A context that the browser does not let go of is an error, not a success
// (AIP-63 C8).
func TestCloseVerifies(t *testing.T) {
	b, f := newFake(t)
	f.put("Target.disposeBrowserContext", func(order) string { return `{}` })
	d := attachFake(t, b)
	if err := d.Close(t.Context()); err == nil {
		t.Error("a context that is still there was called closed")
	}
}

// The browser's own context has no proxy of ours; its pages close with it, it
// does not.
func TestDefault(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, f := newFake(t)
		d, err := b.Default(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if again, err := b.Default(t.Context()); again != d || err != nil {
			t.Errorf("another one: %v", err)
		}
		p, _, err := d.NewPage(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-p.Gone()
		if p.GoneReason() != goneContext || slices.Contains(f.methods(), "Target.disposeBrowserContext") {
			t.Errorf("%q", p.GoneReason())
		}
	})
}

// Sites are compared label by label.
func TestCovers(t *testing.T) {
	for _, c := range []struct {
		domain, host string
		want         bool
	}{
		{"shop.test", "shop.test", true}, {"shop.test", "app.shop.test", true}, {"Shop.Test", "APP.shop.test.", true},
		{"shop.test", ".shop.test", true}, {"shop.test", "notshop.test", false}, {"shop.test", "shop.test.evil.test", false},
		{"shop.test", "test", false}, {"app.shop.test", "shop.test", false}, {"", "shop.test", false}, {"shop.test", "", false},
	} {
		if got := covers(c.domain, c.host); got != c.want {
			t.Errorf("covers(%q, %q) = %v", c.domain, c.host, got)
		}
	}
}

// The lending of cookies counts what is really held, and why the rest is not;
// each goes by itself.
func TestSetCookies(t *testing.T) {
	b, f := newFake(t)
	d := attachFake(t, b)
	later, earlier := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	cookies := []browserhost.Cookie{
		{Name: "__Host-session", Value: "v1", Domain: "shop.test", Path: "/", Secure: true, Expires: later},
		{Name: "wide", Value: "v2", Domain: ".shop.test", Path: "/a"},
		{Name: "part", Value: "v3", Domain: "shop.test", PartitionKey: "https://bank.test", CrossSite: true, Secure: true},
		{Name: "none", Value: "v4", Domain: "shop.test", SameSite: "None"},
		{Name: "old", Value: "v5", Domain: "shop.test", Expires: earlier},
		{Name: "bad", Value: "v6", Domain: "shop.test", PartitionKey: "opaque"},
		{Name: "suffix", Value: "v7", Domain: ".co.uk"},
		{Name: "", Value: "", Domain: "shop.test"},
		{Name: "nowhere", Value: "v8"},
	}
	for range 3 * cookieBatch { // more than are on their way at once
		cookies = append(cookies, browserhost.Cookie{Name: "filler", Value: "v", Domain: "bank.test"})
	}
	counts, err := d.SetCookies(t.Context(), cookies)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{refusedSilently: 1, refusedExpired: 1, refusedByBrowser: 1, refusedChanged: 1, refusedMalformed: 2}
	if counts.Set != 3+3*cookieBatch || len(counts.Refused) != len(want) {
		t.Errorf("%+v", counts)
	}
	for why, n := range want {
		if counts.Refused[why] != n {
			t.Errorf("%s: %d, want %d", why, counts.Refused[why], n)
		}
	}
	if n, err := d.CookiesLeft(t.Context(), []string{"shop.test"}); n != 3 || err != nil {
		t.Errorf("%d left, %v", n, err)
	}
	held := f.jar[d.id]
	if held[0].Domain != "shop.test" || held[0].Expires < float64(later.Unix()) {
		t.Errorf("a host-only cookie was widened or shortened")
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.CookiesLeft(t.Context(), []string{"shop.test"}); browserhost.CodeOf(err) != browserhost.CodeTargetGone {
		t.Errorf("%v", err)
	}
	if _, err := d.SetCookies(t.Context(), cookies); browserhost.CodeOf(err) != browserhost.CodeTargetGone {
		t.Errorf("%v", err)
	}
}

// A crash is told from a close, and the first reason stays.
func TestCrashed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, f := newFake(t)
		d := attachFake(t, b)
		p, _, err := d.NewPage(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		var id target.ID = p.(*page).target
		f.event("Target.targetCrashed", "", `{"targetId":"`+string(id)+`","status":"crashed","errorCode":11}`)
		<-p.Gone()
		synctest.Wait()
		if p.GoneReason() != goneCrashed || len(f.targets) != 0 {
			t.Errorf("%q, %d targets", p.GoneReason(), len(f.targets))
		}
	})
}
