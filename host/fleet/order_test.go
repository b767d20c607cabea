package fleet

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"browserhost"
)

// Pop-ups get an id and their opener; closed ids are remembered, old ones
// without their reason, and are never unknown.
func TestPopupsAndTombstones(t *testing.T) {
	r := newRig(t)
	defer r.close()
	b := r.launch(ada)
	p := r.newPage(ada, b, "")
	d := r.driver(false)
	d.pages[0].click = func(ctx context.Context) (browserhost.Effect, error) {
		q, _, err := d.NewPage(ctx, "https://shop.test/pop")
		return browserhost.Effect{NewPages: []browserhost.Page{q}}, err
	}
	res, err := r.do(ada, browserhost.OpClick, browserhost.Args{PageID: p, ElementID: "s1e1"})
	if err != nil || len(res.Value.(Acted).NewPages) != 1 {
		t.Fatalf("%+v %v", res, err)
	}
	res, err = r.do(ada, browserhost.OpPages, browserhost.Args{Limit: 32})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Value.(Pages).Pages; len(got) != 2 || got[1].Opener != p || got[1].BrowserID != b {
		t.Errorf("%+v", got)
	}
	for range maxTombstones + 10 {
		q := r.newPage(ada, b, "")
		if _, err := r.do(ada, browserhost.OpClosePage, browserhost.Args{PageID: q}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.devices[ada].gone.why); n > maxTombstones {
		t.Errorf("%d tombstones", n)
	}
	for _, id := range []string{"p3", "p250"} {
		_, err := r.do(ada, browserhost.OpSnapshot, browserhost.Args{PageID: id})
		wants(t, err, browserhost.CodeTargetGone)
	}
	for _, id := range []string{"p9999", "p03", "p+3", "x3", "p"} {
		_, err := r.do(ada, browserhost.OpSnapshot, browserhost.Args{PageID: id})
		wants(t, err, browserhost.CodeStalePage)
	}
}

// AIP-63 L1, L2, L12, C12 under any order of events: one process, states along
// the table (become panics otherwise), no id used twice, nobody's page served
// to another, no listener or process left.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		var failing bool
		r.provider.launch = func(context.Context) error {
			if failing {
				return errors.New("no")
			}
			return nil
		}
		seen := map[string]bool{}
		pages := map[browserhost.DeviceID][]string{}
		device := rapid.SampledFrom([]browserhost.DeviceID{ada, otto})
		rt.Repeat(map[string]func(*rapid.T){
			"open": func(rt *rapid.T) {
				d := device.Draw(rt, "device")
				call := &browserhost.Call{Operation: browserhost.OpLaunch, Actor: agent(d)}
				if rapid.Bool().Draw(rt, "signed in") {
					call.Args.SignedIn, call.Material = true, lent(d, "shop.test")
				}
				res, err := r.ServeTool(context.Background(), call)
				if err != nil {
					if c := browserhost.CodeOf(err); c != browserhost.CodeNotReady && c != browserhost.CodeCrashLooping {
						rt.Fatal(err)
					}
					return
				}
				res, err = r.do(d, browserhost.OpNewPage, browserhost.Args{BrowserID: res.Value.(Launched).BrowserID})
				if err != nil {
					if c := browserhost.CodeOf(err); c != browserhost.CodeBusy {
						rt.Fatal(err)
					}
					return
				}
				id := res.Value.(Acted).PageID
				if seen[string(d)+id] {
					rt.Fatalf("id %s was given twice", id)
				}
				seen[string(d)+id] = true
				pages[d] = append(pages[d], id)
			},
			"look": func(rt *rapid.T) {
				d := device.Draw(rt, "device")
				for _, id := range pages[d] {
					if _, err := r.do(d, browserhost.OpSnapshot, browserhost.Args{PageID: id}); err != nil && browserhost.CodeOf(err) != browserhost.CodeTargetGone {
						rt.Fatal(err)
					}
				}
			},
			"evict": func(rt *rapid.T) {
				if _, err := r.Evict(context.Background(), device.Draw(rt, "device"), "grant_revoked"); err != nil {
					rt.Fatal(err)
				}
			},
			"close": func(rt *rapid.T) {
				d := device.Draw(rt, "device")
				for _, s := range r.sessions(d) {
					if _, err := r.do(d, browserhost.OpCloseBrowser, browserhost.Args{BrowserID: s.id}); err != nil {
						rt.Fatal(err)
					}
				}
			},
			"die": func(rt *rapid.T) {
				r.provider.alive.Range(func(_, b any) bool { b.(*strictBrowser).die(errors.New("killed")); return true })
				i := r.instancesOf("chrome")
				for _, i := range i {
					i.mu.Lock()
					run, a := i.run, i.attempt
					i.mu.Unlock()
					if run != nil {
						i.lost(run) // at once, as the watcher would
					} else if a != nil {
						<-a.done
					}
				}
			},
			"fail": func(rt *rapid.T) { failing = !failing },
			"": func(rt *rapid.T) {
				if n := r.provider.running(); n > 1 {
					rt.Fatalf("%d processes", n)
				}
				for _, st := range r.Status(context.Background()) {
					if st.State == browserhost.Healthy && st.BootID == "" {
						rt.Fatalf("%+v", st)
					}
				}
			},
		})
		r.close()
	})
}
