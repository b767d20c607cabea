package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"browserhost"
)

// S4.9, AIP-63 C12: what is lent is in the device's signed-in context, before
// any page, and nowhere else; the answer has counts and no value.
func TestSignedInContextIsApart(t *testing.T) {
	r := newRig(t)
	defer r.close()
	plain := r.launch(ada)
	got := r.signIn(ada, "shop.test")
	if got.BrowserID == plain || !got.SignedIn || got.Cookies == nil || got.Cookies.Set != 1 || !slices.Equal(got.Sites, []string{"shop.test"}) {
		t.Fatalf("%+v", got)
	}
	if strings.Contains(fmt.Sprintf("%+v", got), "canary") {
		t.Error("the answer holds a value (AIP-63 C9)")
	}
	if d := r.driver(false); d.cookies != 0 {
		t.Error("the anonymous context was seeded")
	}
	if again := r.signIn(ada, "shop.test"); again.BrowserID != got.BrowserID || !again.WasAlreadyRunning {
		t.Errorf("not idempotent (AIP-63 L2): %+v", again)
	}
	_, err := r.ServeTool(context.Background(), &browserhost.Call{Operation: browserhost.OpLaunch, Actor: agent(otto), Args: browserhost.Args{SignedIn: true}, Material: lent(ada, "shop.test")})
	wants(t, err, browserhost.CodeConsentRequired)
	_, err = r.do(otto, browserhost.OpLaunch, browserhost.Args{SignedIn: true})
	if e := wants(t, err, browserhost.CodeConsentRequired); e.Execution != browserhost.NotStarted {
		t.Errorf("%+v", e)
	}
}

// A driver that cannot be lent cookies is refused and closed again (T3).
func TestDriverWithoutJar(t *testing.T) {
	r := newRig(t)
	defer r.close()
	r.provider.bare = true
	_, err := r.ServeTool(context.Background(), &browserhost.Call{Operation: browserhost.OpLaunch, Actor: agent(ada), Args: browserhost.Args{SignedIn: true}, Material: lent(ada, "shop.test")})
	if e := wants(t, err, browserhost.CodeUnsupported); e.Cause["capability"] != "cookies" {
		t.Errorf("cause %v", e.Cause)
	}
	if d := r.provider.browser(t).drivers[0]; !d.ended {
		t.Error("the context was left open")
	}
	if n := r.egress.count(); n != 1 {
		t.Errorf("%d listeners, want the process's own", n)
	}
}

// K15: outside of the granted sites an agent-given URL is refused before
// anything is sent, and the refusal says how to ask.
func TestFence(t *testing.T) {
	r := newRig(t)
	defer r.close()
	b := r.signIn(ada, "shop.test").BrowserID
	p := r.newPage(ada, b, "https://www.shop.test/")
	for _, url := range []string{"https://bank.test/", "https://notshop.test/", "https://shop.test.evil.test/"} {
		for op, a := range map[browserhost.Operation]browserhost.Args{
			browserhost.OpNavigate: {PageID: p, URL: url}, browserhost.OpNewPage: {BrowserID: b, URL: url},
		} {
			_, err := r.do(ada, op, a)
			e := wants(t, err, browserhost.CodeConsentRequired)
			if e.Execution != browserhost.NotStarted || !strings.Contains(url, e.Cause["domain"].(string)) || e.Cause["next"] == nil {
				t.Errorf("%s %s: %+v", op, url, e)
			}
		}
	}
	if n := len(r.driver(true).pages); n != 1 {
		t.Errorf("%d pages", n)
	}
	anon := r.launch(ada)
	r.newPage(ada, anon, "https://bank.test/")
}

// AIP-63 C8, contract G, S7: a revoke takes the signed-in session and its
// pages, says why ever after, and leaves the anonymous session alone.
func TestEvict(t *testing.T) {
	r := newRig(t)
	defer r.close()
	anon := r.newPage(ada, r.launch(ada), "")
	b := r.signIn(ada, "shop.test").BrowserID
	p := r.newPage(ada, b, "https://shop.test/")
	other := r.newPage(otto, r.signIn(otto, "shop.test").BrowserID, "https://shop.test/")
	d := r.driver(true)
	n, err := r.Evict(context.Background(), ada, "grant_revoked")
	if n != 1 || err != nil {
		t.Fatalf("Evict = %d, %v", n, err)
	}
	_ = d
	_, err = r.do(ada, browserhost.OpClick, browserhost.Args{PageID: p, ElementID: "s1e1"})
	if e := wants(t, err, browserhost.CodeTargetGone); e.Cause["reason"] != "grant_revoked" || e.Execution != browserhost.NotStarted {
		t.Errorf("%+v", e)
	}
	_, err = r.do(ada, browserhost.OpNewPage, browserhost.Args{BrowserID: b, URL: "https://shop.test/"})
	if e := wants(t, err, browserhost.CodeConsentRequired); e.Cause["reason"] != "grant_revoked" {
		t.Errorf("%+v", e)
	}
	for d, p := range map[browserhost.DeviceID]string{ada: anon, otto: other} {
		if _, err := r.do(d, browserhost.OpSnapshot, browserhost.Args{PageID: p}); err != nil {
			t.Errorf("a page that the revoke does not concern: %v", err)
		}
	}
	if n, err := r.Evict(context.Background(), ada, "grant_revoked"); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	if n, err := r.EvictDevice(context.Background(), otto, "device_revoked"); n != 1 || err != nil {
		t.Errorf("EvictDevice = %d, %v (AIP-63 C13)", n, err)
	}
}

// AIP-63 C8: a context that refuses to close takes its browser with it.
func TestEvictByForce(t *testing.T) {
	r := newRig(t)
	defer r.close()
	r.newPage(ada, r.signIn(ada, "shop.test").BrowserID, "")
	r.provider.stuck.Store(true)
	if n, err := r.Evict(context.Background(), ada, "grant_revoked"); n != 1 || err != nil {
		t.Fatalf("Evict = %d, %v", n, err)
	}
	if r.provider.running() != 0 {
		t.Error("the context lives on")
	}
}

// An eviction waits for a session that is being opened, and then takes it.
func TestEvictMeetsLaunch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		r.provider.launch = func(context.Context) error { time.Sleep(time.Second); return nil }
		opened := make(chan struct{})
		go func() { defer close(opened); r.signIn(ada, "shop.test") }()
		synctest.Wait()
		if _, err := r.Evict(t.Context(), ada, "grant_revoked"); err != nil {
			t.Fatal(err)
		}
		<-opened
		if got := r.sessions(ada); len(got) != 0 {
			t.Errorf("%d sessions outlived the eviction", len(got))
		}
	})
}

// A new grant reaches a warm session; one for a site that the session's fence
// does not know replaces the session at the next launch.
func TestSeed(t *testing.T) {
	r := newRig(t)
	defer r.close()
	if c, err := r.Seed(context.Background(), *lent(ada, "shop.test")); c.Set != 0 || err != nil {
		t.Fatalf("seeded a device without sessions: %+v %v", c, err)
	}
	b := r.signIn(ada, "shop.test").BrowserID
	p := r.newPage(ada, b, "")
	if c, err := r.Seed(context.Background(), *lent(ada, "www.shop.test")); c.Set != 1 || err != nil {
		t.Fatalf("%+v %v", c, err)
	}
	if _, err := r.Seed(context.Background(), *lent(ada, "bank.test")); err != nil {
		t.Fatal(err)
	}
	_, err := r.do(ada, browserhost.OpSnapshot, browserhost.Args{PageID: p})
	if e := wants(t, err, browserhost.CodeTargetGone); e.Cause["reason"] != "grant_changed" {
		t.Errorf("cause %v", e.Cause)
	}
	got := r.signIn(ada, "shop.test", "bank.test")
	if got.BrowserID == b || got.WasAlreadyRunning || !slices.Equal(r.driver(true).domains, []string{"shop.test", "bank.test"}) {
		t.Errorf("%+v", got)
	}
}

// S3.29, S3.30, S3.31, contract F: every error of an effect says how far it
// got; an unknown outcome is never retryable and names what to observe.
func TestEffectCertainty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		b := r.launch(ada)
		p := r.newPage(ada, b, "")
		tab := r.driver(false).pages[0]
		for name, c := range map[string]struct {
			err  error
			code browserhost.Code
			want browserhost.Execution
		}{
			"stale":    {browserhost.Errorf(browserhost.CodeStaleElement, "changed").State(browserhost.NotStarted), browserhost.CodeStaleElement, browserhost.NotStarted},
			"halfway":  {browserhost.Errorf(browserhost.CodeUpstream, "half").State(browserhost.OutcomeUnknown), browserhost.CodeUpstream, browserhost.OutcomeUnknown},
			"untyped":  {errors.New("ws://127.0.0.1:9/secret broke"), browserhost.CodeInternal, browserhost.OutcomeUnknown},
			"unstated": {browserhost.Errorf(browserhost.CodeBusy, "busy"), browserhost.CodeBusy, browserhost.OutcomeUnknown},
			"patience": {nil, browserhost.CodeTimeout, browserhost.OutcomeUnknown},
		} {
			tab.click = func(ctx context.Context) (browserhost.Effect, error) {
				if c.err == nil {
					<-ctx.Done()
					return browserhost.Effect{}, ctx.Err()
				}
				return browserhost.Effect{}, c.err
			}
			_, err := r.do(ada, browserhost.OpClick, browserhost.Args{PageID: p, ElementID: "s1e1"})
			e := wants(t, err, c.code)
			if e.Execution != c.want || strings.Contains(e.Message, "secret") || c.want == browserhost.OutcomeUnknown && e.Retryable {
				t.Errorf("%s: %+v", name, e)
			}
			rec, has := e.Cause["recovery"].(Recovery)
			if has != (c.want == browserhost.OutcomeUnknown) || has && rec.SuggestedCall.Arguments["page_id"] != p {
				t.Errorf("%s: recovery %+v", name, rec)
			}
		}
	})
}

// Contract F: a page that may have opened is counted until it was looked for.
func TestDoubtfulPageCounts(t *testing.T) {
	r := newRig(t)
	defer r.close()
	b := r.launch(ada)
	for range browserhost.MaxPagesPerDevice - 1 {
		r.newPage(ada, b, "")
	}
	d := r.driver(false)
	d.slow = func(context.Context) error { return errors.New("no answer") }
	_, err := r.do(ada, browserhost.OpNewPage, browserhost.Args{BrowserID: b})
	if e := wants(t, err, browserhost.CodeInternal); e.Execution != browserhost.OutcomeUnknown {
		t.Fatalf("%+v", e)
	}
	d.slow = nil
	_, err = r.do(ada, browserhost.OpNewPage, browserhost.Args{BrowserID: b})
	wants(t, err, browserhost.CodeBusy)
	if _, err := r.do(ada, browserhost.OpPages, browserhost.Args{}); err != nil {
		t.Fatal(err)
	}
	r.newPage(ada, b, "")
}

// A revoke during an act: the error gives the revoke as the reason.
func TestRevokeDuringAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		p := r.newPage(ada, r.signIn(ada, "shop.test").BrowserID, "")
		tab := r.driver(true).pages[0]
		tab.click = func(context.Context) (browserhost.Effect, error) {
			<-tab.gone
			return browserhost.Effect{}, browserhost.Errorf(browserhost.CodeTargetGone, "gone").State(browserhost.OutcomeUnknown)
		}
		done := make(chan error)
		go func() {
			_, err := r.do(ada, browserhost.OpClick, browserhost.Args{PageID: p})
			done <- err
		}()
		synctest.Wait()
		if _, err := r.Evict(t.Context(), ada, "grant_revoked"); err != nil {
			t.Fatal(err)
		}
		if e := wants(t, <-done, browserhost.CodeTargetGone); e.Cause["reason"] != "grant_revoked" || e.Execution != browserhost.OutcomeUnknown {
			t.Errorf("%+v", e)
		}
	})
}
