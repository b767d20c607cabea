package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"browserhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// AIP-63 L2, K9: twenty launches of two devices make one process, and each
// device one context with a way out of its own.
func TestTwentyLaunchesOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		r.provider.launch = func(context.Context) error { time.Sleep(time.Second); return nil }
		var wg sync.WaitGroup
		for n := range 20 {
			wg.Go(func() { r.launch([]browserhost.DeviceID{ada, otto}[n%2]) })
		}
		wg.Wait()
		if n := r.provider.launches.Load(); n != 1 {
			t.Errorf("%d processes", n)
		}
		if n := len(r.provider.browser(t).drivers); n != 2 {
			t.Errorf("%d contexts, want one per device", n)
		}
		if n := r.egress.count(); n != 3 {
			t.Errorf("%d egress listeners, want the process's and one per context", n)
		}
	})
}

// AIP-63 L8: leftovers are swept before the first launch, once; a sweep that
// failed is tried again and nothing is launched before it succeeded.
func TestSweepComesFirst(t *testing.T) {
	sweeps, fail := 0, true
	p := newProvider(t, "chrome")
	e := &strictEgress{}
	f := New(Options{Providers: []browserhost.Provider{p}, Egress: e, Sweep: func(context.Context) (int, error) {
		sweeps++
		if p.launches.Load() != 0 {
			t.Error("swept after a launch")
		}
		if fail {
			return 0, errors.New("no process list")
		}
		return 3, nil
	}})
	r := &rig{f, t, p, e}
	defer r.close()
	_, err := r.do(ada, browserhost.OpLaunch, browserhost.Args{})
	if wants(t, err, browserhost.CodeNotReady).Execution != browserhost.NotStarted || p.launches.Load() != 0 {
		t.Fatalf("launched after a failed sweep: %v", err)
	}
	fail = false
	if n, err := f.Sweep(context.Background()); n != 3 || err != nil {
		t.Fatalf("Sweep = %d, %v", n, err)
	}
	r.launch(ada)
	if sweeps != 2 {
		t.Errorf("%d sweeps", sweeps)
	}
}

// AIP-63 L10, contract B: a call during starting waits for its own patience
// and then gets retryable browser:starting; the start goes on and serves the next.
func TestStartingIsRetryable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		r.provider.launch = func(context.Context) error { time.Sleep(140 * time.Second); return nil }
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		began := time.Now()
		_, err := r.ServeTool(ctx, &browserhost.Call{Operation: browserhost.OpLaunch, Actor: agent(ada)})
		e := wants(t, err, browserhost.CodeStarting)
		if !e.Retryable || e.Execution != browserhost.NotStarted || time.Since(began) != 30*time.Second {
			t.Errorf("%+v after %v", e, time.Since(began))
		}
		_, err = r.do(otto, browserhost.OpLaunch, browserhost.Args{})
		wants(t, err, browserhost.CodeStarting)
		if waited := time.Since(began); waited != browserhost.LaunchBudget {
			t.Errorf("the second caller waited until %v, want the rest of the budget", waited)
		}
		synctest.Wait()
		time.Sleep(21 * time.Second)
		r.launch(ada)
		if n := r.provider.launches.Load(); n != 1 {
			t.Errorf("%d launches of a slow browser, want 1 (AIP-63 L9)", n)
		}
	})
}

// AIP-63 L6: three failures in 300 s, and no fourth spawn.
func TestCrashLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		r.provider.launch = func(context.Context) error { return errors.New("/private/path exited 1") }
		for range 2 {
			_, err := r.do(ada, browserhost.OpLaunch, browserhost.Args{})
			wants(t, err, browserhost.CodeNotReady)
		}
		time.Sleep(301 * time.Second) // the two are forgotten
		for n := range 3 {
			_, err := r.do(ada, browserhost.OpLaunch, browserhost.Args{})
			want := browserhost.CodeNotReady
			if n == 2 {
				want = browserhost.CodeCrashLooping
			}
			if e := wants(t, err, want); strings.Contains(e.Message, "private") || e.Execution != browserhost.NotStarted {
				t.Errorf("%v %s", e, e.Execution)
			}
		}
		time.Sleep(time.Hour) // AIP-63 L7: no timer leaves it
		_, err := r.do(otto, browserhost.OpLaunch, browserhost.Args{})
		wants(t, err, browserhost.CodeCrashLooping)
		if n := r.provider.launches.Load(); n != 5 {
			t.Errorf("%d launches, want 5", n)
		}
		if st := r.Status(t.Context()); st[0].State != browserhost.CrashLooping || st[0].Reason == "" {
			t.Errorf("status %+v", st)
		}
	})
}

// AIP-63 L6: a browser that answers and dies at once counts as a failed launch;
// one that lived is forgiven.
func TestDyingAtOnceIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		die := func(after time.Duration) {
			r.launch(ada)
			time.Sleep(after)
			r.provider.browser(t).die(errors.New("exit status 1"))
			synctest.Wait()
		}
		die(time.Second)
		die(time.Second)
		die(11 * time.Second)
		die(time.Second)
		die(time.Second)
		die(time.Second)
		_, err := r.do(ada, browserhost.OpLaunch, browserhost.Args{})
		wants(t, err, browserhost.CodeCrashLooping)
	})
}

// AIP-63 L12, D27: after the browser was lost its pages answer target_gone with
// the reason, nothing is rebound, and the next launch is a new boot.
func TestLostBrowser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		b := r.launch(ada)
		p := r.newPage(ada, b, "https://shop.test/")
		old := r.provider.browser(t)
		old.die(errors.New("signal: killed: /private/stderr"))
		synctest.Wait()
		if st := r.Status(t.Context())[0]; st.State != browserhost.Stopped {
			t.Fatalf("state %s", st.State)
		}
		if old.stops.Load() != 1 {
			t.Error("what the lost browser left was not swept")
		}
		_, err := r.do(ada, browserhost.OpSnapshot, browserhost.Args{PageID: p})
		if e := wants(t, err, browserhost.CodeTargetGone); e.Cause["reason"] != "browser_lost" {
			t.Errorf("cause %v", e.Cause)
		}
		_, err = r.do(ada, browserhost.OpNewPage, browserhost.Args{BrowserID: b})
		if e := wants(t, err, browserhost.CodeStaleBrowser); e.Cause["reason"] != "browser_lost" || e.Execution != browserhost.NotStarted {
			t.Errorf("%+v", e)
		}
		if r.egress.count() != 0 {
			t.Error("listeners of the lost browser are open")
		}
		b2 := r.launch(ada)
		if b2 == b || r.provider.browser(t).BootID() == old.boot {
			t.Errorf("rebound: %s after %s", b2, b)
		}
		if p2 := r.newPage(ada, b2, ""); p2 == p {
			t.Error("a page id was used again")
		}
	})
}

// AIP-63 C12, S3.22: another device's ids answer byte for byte as ids that never were.
func TestForeignIdsAreUnknownIds(t *testing.T) {
	r := newRig(t)
	defer r.close()
	b := r.launch(ada)
	r.newPage(ada, b, "")
	r.newPage(ada, b, "")
	r.launch(otto) // otto has b1 and no page
	for _, op := range []browserhost.Operation{browserhost.OpSnapshot, browserhost.OpNavigate, browserhost.OpClick, browserhost.OpClosePage} {
		if a, b := failure(t, r, op, "p2"), failure(t, r, op, "p9"); !bytes.Equal(a, b) {
			t.Errorf("%s: %s differs from %s", op, a, b)
		}
	}
	r.signIn(ada, "shop.test") // ada's b2
	for _, op := range []browserhost.Operation{browserhost.OpNewPage, browserhost.OpCloseBrowser, browserhost.OpPages} {
		if a, b := failure(t, r, op, "b2"), failure(t, r, op, "b9"); !bytes.Equal(a, b) {
			t.Errorf("%s: %s differs from %s", op, a, b)
		}
	}
}

func failure(t *testing.T, r *rig, op browserhost.Operation, id string) []byte {
	t.Helper()
	_, err := r.do(otto, op, browserhost.Args{PageID: id, BrowserID: id, URL: "https://shop.test/"})
	if err == nil {
		t.Fatalf("%s of %s worked", op, id)
	}
	b, err := json.Marshal(browserhost.Failure(err))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Contract B: pages per device, at the bound and one over it.
func TestPageLimit(t *testing.T) {
	r := newRig(t)
	defer r.close()
	b := r.launch(ada)
	for range browserhost.MaxPagesPerDevice {
		r.newPage(ada, b, "")
	}
	_, err := r.do(ada, browserhost.OpNewPage, browserhost.Args{BrowserID: b})
	if e := wants(t, err, browserhost.CodeBusy); !e.Retryable || e.Execution != browserhost.NotStarted {
		t.Errorf("%+v", e)
	}
	if _, err := r.do(ada, browserhost.OpClosePage, browserhost.Args{PageID: "p3"}); err != nil {
		t.Fatal(err)
	}
	r.newPage(ada, b, "")
}

// Contract B: pages per host, at the bound and one over it.
func TestHostPageLimit(t *testing.T) {
	r := newRig(t)
	defer r.close()
	for n := range browserhost.MaxPagesPerHost / browserhost.MaxPagesPerDevice {
		d := browserhost.DeviceID(strings.Repeat(string(rune('0'+n)), 32))
		b := r.launch(d)
		for range browserhost.MaxPagesPerDevice {
			r.newPage(d, b, "")
		}
	}
	_, err := r.do(ada, browserhost.OpNewPage, browserhost.Args{BrowserID: r.launch(ada)})
	wants(t, err, browserhost.CodeBusy)
}

// Contract B: browsers per host, at the bound and one over it.
func TestBrowserLimit(t *testing.T) {
	var more []browserhost.Provider
	for _, id := range []string{"p2", "p3", "p4", "p5"} {
		more = append(more, newProvider(t, id))
	}
	r := newRig(t, more...)
	defer r.close()
	r.launch(ada)
	for n, id := range []string{"p2", "p3", "p4", "p5"} {
		_, err := r.do(ada, browserhost.OpLaunch, browserhost.Args{Provider: id})
		if n < 3 && err != nil {
			t.Fatal(err)
		}
		if n == 3 {
			wants(t, err, browserhost.CodeBusy)
		}
	}
	if _, err := r.do(ada, browserhost.OpCloseBrowser, browserhost.Args{BrowserID: "b2"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.do(ada, browserhost.OpLaunch, browserhost.Args{Provider: "p5"}); err != nil {
		t.Error(err)
	}
}

// S3.20, contract B: idle and lifetime end a browser; work keeps it.
func TestReap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		p := r.newPage(ada, r.launch(ada), "")
		time.Sleep(browserhost.InstanceIdle - time.Minute)
		if _, err := r.do(ada, browserhost.OpSnapshot, browserhost.Args{PageID: p}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(browserhost.InstanceIdle - time.Minute)
		if r.provider.running() != 1 {
			t.Fatal("reaped while in use")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if r.provider.running() != 0 {
			t.Fatal("an idle browser runs")
		}
		_, err := r.do(ada, browserhost.OpSnapshot, browserhost.Args{PageID: p})
		if e := wants(t, err, browserhost.CodeTargetGone); e.Cause["reason"] != "idle" {
			t.Errorf("cause %v", e.Cause)
		}
		p = r.newPage(ada, r.launch(ada), "")
		for range int(browserhost.InstanceLife/(10*time.Minute)) - 1 {
			time.Sleep(10 * time.Minute)
			if _, err := r.do(ada, browserhost.OpSnapshot, browserhost.Args{PageID: p}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(11 * time.Minute)
		_, err = r.do(ada, browserhost.OpSnapshot, browserhost.Args{PageID: p})
		if e := wants(t, err, browserhost.CodeTargetGone); e.Cause["reason"] != "lifetime" {
			t.Errorf("cause %v", e.Cause)
		}
	})
}

// AIP-63 L1, L4: health moves an instance between healthy and degraded, and a
// degraded one still serves (L3).
func TestDegraded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		r.launch(ada)
		b := r.provider.browser(t)
		for _, s := range []browserhost.State{browserhost.Degraded, browserhost.Healthy} {
			b.health.Store(&s)
			time.Sleep(browserhost.ReapTick + time.Second)
			if got := r.Status(t.Context())[0].State; got != s {
				t.Errorf("state %s, want %s", got, s)
			}
			r.launch(otto)
		}
	})
}

// close_browser ends the process only with its last session and says what was swept.
func TestCloseBrowser(t *testing.T) {
	r := newRig(t)
	defer r.close()
	a, o := r.launch(ada), r.launch(otto)
	res, err := r.do(ada, browserhost.OpCloseBrowser, browserhost.Args{BrowserID: a})
	if err != nil || res.Value.(Closed).Swept != 0 || r.provider.running() != 1 {
		t.Fatalf("%+v %v: another device's browser was ended", res, err)
	}
	res, err = r.do(otto, browserhost.OpCloseBrowser, browserhost.Args{BrowserID: o})
	if err != nil || res.Value.(Closed).Swept != 2 || r.provider.running() != 0 {
		t.Fatalf("%+v %v", res, err)
	}
}
