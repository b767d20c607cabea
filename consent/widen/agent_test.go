package widen

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"browserhost"
	"browserhost/consent/gate"
	"browserhost/consent/ledger"
	"browserhost/consent/requests"
)

// desk is the real queue of requests behind the gate.
type desk struct{ *requests.Queue }

func (d desk) File(ctx context.Context, a browserhost.Actor, domains []string, reason string) (gate.Filed, error) {
	r, err := d.Queue.File(ctx, a, domains, reason)
	return gate.Filed{ID: r.ID, Code: r.Code, Status: string(r.Status), Domains: r.Domains, GrantID: r.GrantID}, err
}

func (d desk) Wait(_ context.Context, device browserhost.DeviceID, id string) (gate.Filed, error) {
	r, err := d.Queue.Get(device, id) // nobody waits in this test
	return gate.Filed{ID: r.ID, Code: r.Code, Status: string(r.Status), Domains: r.Domains, GrantID: r.GrantID}, err
}

// access is what a device can use: grant and site.
func (r *rig) access() map[string]bool {
	all := map[string]bool{}
	for _, device := range []browserhost.DeviceID{ada, otto, ""} {
		for _, g := range r.lender.For(device) {
			for _, d := range g.Domains {
				all[fmt.Sprint(device, g.ID, d, g.Source, g.Sinks, g.ExpiresAt)] = true
			}
		}
	}
	return all
}

// S6, AIP-63 C7, C12: whatever agents call, in whatever order and with whatever
// arguments, nobody's access ever grows, what is lent is what was granted, and
// every attempt to grant is a row with the agent's id.
func TestAgentsNeverWiden(t *testing.T) {
	p := profile(t, "chromium", "Default", shop(t)...)
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, p)
		queue := requests.New(requests.Options{})
		defer queue.Close()
		lent := map[browserhost.DeviceID][]browserhost.Material{}
		line := gate.New(gate.Options{Lender: r.lender, Requests: desk{queue}}).Link(
			browserhost.HandlerFunc(func(_ context.Context, call *browserhost.Call) (*browserhost.Result, error) {
				if call.Material != nil {
					lent[call.Actor.Device] = append(lent[call.Actor.Device], *call.Material)
				}
				return &browserhost.Result{}, nil
			}))
		var ids []string
		for _, d := range []browserhost.DeviceID{ada, ada, otto} {
			got, err := r.Grant(t.Context(), theOwner, Spec{Device: d, Domains: []string{"shop.test"}})
			if err != nil {
				rt.Fatal(err)
			}
			ids = append(ids, string(got.Grant.ID))
		}
		ids = append(ids, "grant_never", "")
		devices := rapid.SampledFrom([]browserhost.DeviceID{ada, otto, ""})
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"shop.test", "app.shop.test", "bank.test", "*", "co.uk", "test"}), 0, 3)
		id := rapid.SampledFrom(ids)
		denies := 0
		for range rapid.IntRange(1, 12).Draw(rt, "calls") {
			before := r.access()
			by := agent(devices.Draw(rt, "device"))
			sites := names.Draw(rt, "sites")
			op := rapid.SampledFrom([]string{"launch", "ask", "poll", "list", "revoke", "grant", "remove", "seed"}).Draw(rt, "op")
			call := &browserhost.Call{Actor: by}
			switch op {
			case "launch":
				call.Operation, call.Args = browserhost.OpLaunch, browserhost.Args{SignedIn: true, Sites: sites}
			case "ask":
				call.Operation, call.Args = browserhost.OpRequestAccess, browserhost.Args{Domains: sites, Reason: "please"}
			case "poll":
				call.Operation, call.Args = browserhost.OpRequestAccess, browserhost.Args{RequestID: "req_1"}
				if all := queue.List(); len(all) > 0 {
					call.Args.RequestID = all[0].ID
				}
			case "list":
				call.Operation = browserhost.OpProfileList
			case "revoke":
				call.Operation, call.Args = browserhost.OpProfileRevoke, browserhost.Args{GrantID: id.Draw(rt, "grant")}
			case "grant":
				_, err := r.Grant(t.Context(), by, Spec{Device: devices.Draw(rt, "for"), Domains: sites})
				if browserhost.CodeOf(err) != browserhost.CodeUnauthorised {
					rt.Fatalf("an agent's grant: %v", err)
				}
				denies++
			case "remove":
				if _, err := r.lender.RevokeDevice(t.Context(), by, otto); err == nil {
					rt.Fatal("an agent removed a device")
				}
			case "seed":
				g := browserhost.GrantID(id.Draw(rt, "grant"))
				_, err := r.lender.Seed(t.Context(), browserhost.Material{Device: by.Device, Grants: []browserhost.GrantID{g}})
				if have := slices.ContainsFunc(r.lender.For(by.Device), func(x browserhost.Grant) bool { return x.ID == g }); have != (err == nil) {
					rt.Fatalf("%s is granted: %v, and was seeded: %v", g, have, err)
				}
			}
			if call.Operation != "" {
				if _, err := line.ServeTool(t.Context(), call); browserhost.CodeOf(err) == browserhost.CodeInternal {
					rt.Fatal(err)
				}
			}
			for now := range r.access() {
				if !before[now] {
					rt.Fatalf("%s by %q made %s", op, by.Device, now)
				}
			}
		}
		for device, all := range lent {
			for _, m := range all {
				for _, g := range m.Grants {
					if kept, ok := r.jar.Grant(g); !ok || !kept.Serves(device) || m.Device != device {
						rt.Fatalf("%q was lent %s", device, g)
					}
				}
			}
		}
		for _, rec := range r.records() {
			if rec.Event == ledger.Deny {
				denies--
			}
			if rec.Event == ledger.Grant && rec.Actor.Kind != browserhost.Human {
				rt.Fatalf("%+v", rec)
			}
		}
		if denies != 0 {
			rt.Fatalf("%d refusals have no row", denies)
		}
		r.consistent()
	})
}
