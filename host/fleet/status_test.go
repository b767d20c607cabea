package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"browserhost"
)

// S3.40: a machine without a browser is described, and only launch errs.
func TestNoBrowser(t *testing.T) {
	r := newRig(t)
	defer r.close()
	r.provider.found = browserhost.Discovery{Why: "Chromium is not installed"}
	res, err := r.do(ada, browserhost.OpTargets, browserhost.Args{})
	if err != nil {
		t.Fatal(err)
	}
	got := res.Value.(Targets).Targets[0]
	if got.Runnable || got.Launch || got.Observe || got.Control || got.Why == "" || got.State != browserhost.Absent {
		t.Errorf("%+v", got)
	}
	_, err = r.do(ada, browserhost.OpLaunch, browserhost.Args{})
	e := wants(t, err, browserhost.CodeNotReady)
	if e.Cause["state"] != "absent" || e.Cause["why"] != "Chromium is not installed" || e.Execution != browserhost.NotStarted {
		t.Errorf("%+v", e)
	}
}

// S3.13, S3.15: the bits follow discovery and scope; the path stays private.
func TestTargetsTellNoPath(t *testing.T) {
	r := newRig(t)
	defer r.close()
	res, err := r.ServeTool(context.Background(), &browserhost.Call{Operation: browserhost.OpTargets,
		Actor: browserhost.Actor{Kind: browserhost.Agent, Device: ada, Scopes: []browserhost.Scope{browserhost.ScopeRead}}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(res.Value)
	if err != nil || bytes.Contains(b, []byte("private")) {
		t.Errorf("%s %v", b, err)
	}
	if got := res.Value.(Targets).Targets[0]; !got.Observe || got.Control || got.Launch {
		t.Errorf("%+v", got)
	}
}

// AIP-63 T3: a missing capability is named and nothing is tried.
func TestUnsupportedNamesTheCapability(t *testing.T) {
	r := newRig(t)
	defer r.close()
	p := r.newPage(ada, r.launch(ada), "")
	r.provider.caps = browserhost.Capabilities{}
	_, err := r.do(ada, browserhost.OpScreenshot, browserhost.Args{PageID: p, FullPage: true})
	if e := wants(t, err, browserhost.CodeUnsupported); e.Cause["capability"] != "fullPageScreenshot" {
		t.Errorf("cause %v", e.Cause)
	}
	_, err = r.ServeTool(context.Background(), &browserhost.Call{Operation: browserhost.OpLaunch, Actor: agent(ada), Args: browserhost.Args{SignedIn: true}, Material: lent(ada, "shop.test")})
	if e := wants(t, err, browserhost.CodeUnsupported); e.Cause["capability"] != "cookies" || e.Execution != browserhost.NotStarted {
		t.Errorf("%+v", e)
	}
}

// K38: joining a browser that runs starts nothing; an unknown provider neither.
func TestStarts(t *testing.T) {
	r := newRig(t)
	defer r.close()
	call := &browserhost.Call{Operation: browserhost.OpLaunch}
	if !r.Starts(call) {
		t.Error("the first launch starts nothing")
	}
	r.launch(ada)
	if r.Starts(call) {
		t.Error("a launch that joins is taken for a start")
	}
	if call.Args.Provider = "none"; r.Starts(call) {
		t.Error("an unknown provider is taken for a start")
	}
}

// Contract F: how a navigation came to rest is told, a dialog in its way too.
func TestArrived(t *testing.T) {
	r := newRig(t)
	defer r.close()
	alert := &browserhost.Dialog{Type: "alert", Message: "hello"}
	for _, c := range []struct {
		nav  browserhost.Navigation
		want string
	}{
		{browserhost.Navigation{Loaded: true}, "navigated"},
		{browserhost.Navigation{Failed: "net::ERR_NAME_NOT_RESOLVED"}, "navigated"},
		{browserhost.Navigation{Dialog: alert}, "dialog"},
		{browserhost.Navigation{}, "time"},
	} {
		var out Acted
		r.arrived(&out, c.nav, r.opts.Now())
		if out.Stability.Reason != c.want || out.Dialog != c.nav.Dialog {
			t.Errorf("%+v: %+v", c.nav, out)
		}
	}
}
