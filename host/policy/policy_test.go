package policy

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"browserhost"
)

const device browserhost.DeviceID = "0123456789abcdef0123456789abcdef"

func agent(scopes ...browserhost.Scope) browserhost.Actor {
	return browserhost.Actor{Kind: browserhost.Agent, Device: device, Via: "mcp", Scopes: scopes}
}

// S3.8: every action × every set of scopes. An action is dispatched exactly
// when its own scope is held; no other scope stands in for it. S3.11 is the
// row of a device with browser:read alone.
func TestEveryActionWithEveryScopeSet(t *testing.T) {
	all := browserhost.AllScopes()
	want := map[browserhost.Operation]browserhost.Scope{
		browserhost.OpTargets: browserhost.ScopeRead, browserhost.OpBrowsers: browserhost.ScopeRead, browserhost.OpPages: browserhost.ScopeRead,
		browserhost.OpSnapshot: browserhost.ScopeRead, browserhost.OpScreenshot: browserhost.ScopeRead,
		browserhost.OpLaunch:  browserhost.ScopeLaunch,
		browserhost.OpNewPage: browserhost.ScopeControl, browserhost.OpNavigate: browserhost.ScopeControl, browserhost.OpClick: browserhost.ScopeControl,
		browserhost.OpInputText: browserhost.ScopeControl, browserhost.OpClosePage: browserhost.ScopeControl, browserhost.OpCloseBrowser: browserhost.ScopeControl,
		browserhost.OpRequestAccess: browserhost.ScopeProfile, browserhost.OpProfileList: browserhost.ScopeProfile, browserhost.OpProfileRevoke: browserhost.ScopeProfile,
	}
	dispatched := 0
	line := Link(browserhost.HandlerFunc(func(context.Context, *browserhost.Call) (*browserhost.Result, error) {
		dispatched++
		return &browserhost.Result{}, nil
	}))
	rows := 0
	for _, tool := range browserhost.Tools {
		for _, action := range tool.Actions {
			scope, ok := want[action.Operation]
			if !ok {
				t.Fatalf("%s has no row in this table", action.Operation)
			}
			rows++
			for set := range 1 << len(all) {
				var scopes []browserhost.Scope
				for i, s := range all {
					if set&(1<<i) != 0 {
						scopes = append(scopes, s)
					}
				}
				before := dispatched
				_, err := line.ServeTool(t.Context(), &browserhost.Call{Tool: tool.Name, Operation: action.Operation, Actor: agent(scopes...)})
				if allowed := slices.Contains(scopes, scope); allowed != (err == nil) || allowed != (dispatched > before) {
					t.Fatalf("%s with %v: error %v, dispatched %v", action.Operation, scopes, err, dispatched > before)
				}
				if err != nil {
					e := browserhost.AsError(err)
					if e.Code != browserhost.CodeUnauthorised || e.Cause["scope"] != scope || (e.Execution == browserhost.NotStarted) != action.Effect {
						t.Fatalf("%s with %v: %+v", action.Operation, scopes, e)
					}
				}
			}
		}
	}
	if rows != len(want) {
		t.Fatalf("%d operations, %d expected", rows, len(want))
	}
}

// AIP-63 C7: who acts comes from the channel, and only a paired agent acts on the line.
func TestOnlyAPairedAgentActs(t *testing.T) {
	for name, actor := range map[string]browserhost.Actor{
		"nobody":           {},
		"scopes alone":     {Scopes: browserhost.AllScopes()},
		"human":            {Kind: browserhost.Human, Device: device, Scopes: browserhost.AllScopes()},
		"system":           {Kind: browserhost.System, Device: device, Scopes: browserhost.AllScopes()},
		"agent, no device": {Kind: browserhost.Agent, Scopes: browserhost.AllScopes()},
	} {
		if d := Decide(actor, browserhost.OpTargets); d.Allow || d.Reason == "" {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := Decide(agent(browserhost.AllScopes()...), "browser.evaluate"); d.Allow {
		t.Errorf("an unknown operation is allowed: %+v", d)
	}
}

// S1.20: no operation of the table lends or grows a grant.
func TestNoOperationWidens(t *testing.T) {
	for _, tool := range browserhost.Tools {
		for _, action := range tool.Actions {
			for _, word := range []string{"grant.create", "import", "allow", "widen", "ack", "lend", "pair"} {
				if strings.Contains(string(action.Operation), word) {
					t.Errorf("%s sounds like a widening", action.Operation)
				}
			}
		}
	}
}

type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func limiter(scale float64, starts func(*browserhost.Call) bool) (*Limiter, *clock) {
	c := &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return NewLimiter(LimiterOptions{Scale: scale, Now: c.now, Starts: starts}), c
}

// passed counts how many of n calls pass, and returns the last refusal.
func passed(t *testing.T, l *Limiter, n int, call browserhost.Call) (int, *browserhost.Error) {
	t.Helper()
	count := 0
	line := l.Link(browserhost.HandlerFunc(func(context.Context, *browserhost.Call) (*browserhost.Result, error) {
		count++
		return &browserhost.Result{}, nil
	}))
	var last *browserhost.Error
	for range n {
		if _, err := line.ServeTool(t.Context(), &call); err != nil {
			last = browserhost.AsError(err)
		}
	}
	return count, last
}

func observe(d browserhost.DeviceID) browserhost.Call {
	return browserhost.Call{Tool: "browser_observe", Operation: browserhost.OpPages, Actor: browserhost.Actor{Device: d}}
}

func act(op browserhost.Operation) browserhost.Call {
	return browserhost.Call{Tool: "browser_act", Operation: op, Actor: browserhost.Actor{Device: device}, Args: browserhost.Args{URL: "https://shop.test/"}}
}

// K38, contract B: each rate at its bound and one over it, and how it fills again.
func TestRates(t *testing.T) {
	for name, c := range map[string]struct {
		call       browserhost.Call
		burst      int
		wait       time.Duration
		again      int
		retryAfter int
	}{
		"any tool": {observe(device), 100, time.Second, 50, 1},
		"navigate": {act(browserhost.OpNavigate), 20, time.Second, 5, 1},
		"new page": {act(browserhost.OpNewPage), 20, time.Second, 5, 1},
		"launch":   {act(browserhost.OpLaunch), 5, 10 * time.Second, 1, 10},
	} {
		l, clock := limiter(1, nil)
		n, refusal := passed(t, l, c.burst+1, c.call)
		if n != c.burst || refusal == nil {
			t.Errorf("%s: %d of %d passed", name, n, c.burst+1)
			continue
		}
		if refusal.Code != browserhost.CodeRateLimited || !refusal.Retryable || refusal.Cause["retryAfter"] != c.retryAfter {
			t.Errorf("%s: refused with %+v", name, refusal)
		}
		if effect := browserhost.ActionOf(c.call.Operation).Effect; (refusal.Execution == browserhost.NotStarted) != effect {
			t.Errorf("%s: execution %q", name, refusal.Execution)
		}
		clock.t = clock.t.Add(c.wait)
		if n, _ := passed(t, l, c.burst, c.call); n != c.again {
			t.Errorf("%s: %d passed after %v, want %d", name, n, c.wait, c.again)
		}
	}
}

// A refused call draws nothing: a device that keeps trying to launch can still look.
func TestRefusalDrawsNothing(t *testing.T) {
	l, _ := limiter(1, nil)
	passed(t, l, 200, act(browserhost.OpLaunch))
	click := act(browserhost.OpClick)
	if n, _ := passed(t, l, 200, click); n != 95 {
		t.Fatalf("%d clicks passed after 5 launches, want 95", n)
	}
}

// One device does not use up another's rate, nor one tool another's.
func TestBucketsArePerDeviceAndTool(t *testing.T) {
	l, _ := limiter(1, nil)
	passed(t, l, 150, observe(device))
	other := browserhost.DeviceID(strings.Repeat("b", 32))
	if n, _ := passed(t, l, 150, observe(other)); n != 100 {
		t.Fatalf("the other device passed %d", n)
	}
	if n, _ := passed(t, l, 150, act(browserhost.OpClick)); n != 100 {
		t.Fatalf("the other tool passed %d", n)
	}
}

// Contract B: a launch counts as one only where it would start a process.
func TestLaunchThatReusesIsNotCounted(t *testing.T) {
	l, _ := limiter(1, func(*browserhost.Call) bool { return false })
	if n, _ := passed(t, l, 50, act(browserhost.OpLaunch)); n != 50 {
		t.Fatalf("%d passed", n)
	}
}

// K38: scale 0 is off, and a scale of 2 doubles.
func TestScale(t *testing.T) {
	l, _ := limiter(0, nil)
	if n, _ := passed(t, l, 1000, act(browserhost.OpLaunch)); n != 1000 {
		t.Fatalf("off: %d passed", n)
	}
	l, _ = limiter(2, nil)
	if n, _ := passed(t, l, 1000, act(browserhost.OpLaunch)); n != 10 {
		t.Fatalf("double: %d passed", n)
	}
}

// The limiter's memory is bounded, and filling it frees no device that is over its rate.
func TestBucketsAreBounded(t *testing.T) {
	l, _ := limiter(1, nil)
	passed(t, l, 101, observe(device))
	for i := range maxBuckets + 100 {
		c := observe(browserhost.DeviceID(strings.Repeat("c", 28) + string([]byte{hex(i >> 12), hex(i >> 8), hex(i >> 4), hex(i)})))
		passed(t, l, 1, c)
	}
	if len(l.buckets) > maxBuckets {
		t.Fatalf("%d buckets", len(l.buckets))
	}
	if n, _ := passed(t, l, 1, observe(device)); n != 0 {
		t.Fatal("a device over its rate was forgotten")
	}
}

func hex(i int) byte { return "0123456789abcdef"[i&15] }
