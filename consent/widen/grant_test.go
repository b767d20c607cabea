package widen

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"browserhost"
	"browserhost/consent/chain"
	"browserhost/consent/ledger"
)

func shop(t testing.TB) []row {
	return []row{
		{host: ".shop.test", name: "sid", value: canary + "-alpha"},
		{host: "app.shop.test", name: "cart", value: canary + "-beta", scheme: "v11"},
		{host: ".shop.test", name: "lock", value: canary + "-gone", scheme: "v20"},
		{host: "notshop.test", name: "other", value: canary + "-not"},
		{host: "shop.test.evil.test", name: "evil", value: canary + "-evil"},
	}
}

// values opens what is sealed for a grant.
func (r *rig) values(id browserhost.GrantID) (all []string) {
	r.t.Helper()
	cookies, err := r.jar.Unseal(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range cookies {
		all = append(all, strings.TrimPrefix(string(c.Value), canary))
	}
	slices.Sort(all)
	return all
}

// AIP-63 C1, C10, S1.47, S3: the row is first and on the disk, the named sites
// are read and no other, then they are sealed, then the grant is there; the
// counts add up.
func TestGrant(t *testing.T) {
	r := newRig(t, profile(t, "chromium", "Default", shop(t)...))
	got, err := r.Grant(t.Context(), theOwner, Spec{Device: ada, Domains: []string{"SHOP.test."}, ExpiresAt: "2026-11-30T14:00:00+01:00"})
	if err != nil {
		t.Fatal(err)
	}
	g := got.Grant
	want := browserhost.Grant{
		ID: g.ID, SessionID: "main", DeviceID: ada, Source: browserhost.GrantSource{Kind: "chrome", Profile: "Default"},
		Domains: []string{"shop.test"}, Sinks: []browserhost.Sink{{Kind: "local"}},
		GrantedAt: "2026-11-30T12:00:00.000Z", GrantedVia: "interactive", ExpiresAt: "2026-11-30T13:00:00.000Z", CookieCount: 2,
	}
	if !reflect.DeepEqual(g, want) || got.Imported != 2 || !reflect.DeepEqual(got.NotRead, map[string]int{"app_bound": 1}) || got.Seeded != 0 {
		t.Errorf("%+v", got)
	}
	if len(g.ID) != len("grant_")+36 || g.ID[20] != '4' {
		t.Errorf("id %q is not grant_ and a UUIDv4", g.ID)
	}
	if kept, _ := r.jar.Grant(g.ID); !reflect.DeepEqual(kept, want) {
		t.Errorf("kept %+v", kept)
	}
	if v := r.values(g.ID); !slices.Equal(v, []string{"-alpha", "-beta"}) {
		t.Errorf("sealed %v", v)
	}
	order := slices.Compact(r.world.order()[:slices.Index(r.world.order(), "seed")])
	if s := strings.Join(order, ", "); !strings.HasPrefix(s, "mac, append, fsync, keyring, keychain") {
		t.Errorf("in the order %s", s)
	}
	rec := r.records()[0]
	if rec.Event != ledger.Grant || rec.Actor != ledger.ActorOf(theOwner) || rec.GrantID != g.ID || *rec.CookieCount != 3 || !slices.Equal(rec.Domains, g.Domains) {
		t.Errorf("%+v", rec)
	}
	hashes, err := ledger.NameHashes(t.Context(), r.keys.Vault, g.ID, []string{"lock", "sid", "cart"})
	if err != nil || !slices.Equal(slices.Sorted(slices.Values(hashes)), slices.Sorted(slices.Values(rec.NameHashes))) {
		t.Errorf("the names are hashed as %v, %v", rec.NameHashes, err)
	}
	if r.events() != "grant" {
		t.Errorf("the ledger has %s", r.events())
	}
	r.noCanary()
}

// AIP-63 C7, D22: who is not a person grants nothing, whatever is asked; the
// attempt is a row with the device's id, and that is all that it leaves.
func TestGrantByAgent(t *testing.T) {
	r := newRig(t, profile(t, "chromium", "Default", shop(t)...))
	for i, by := range []browserhost.Actor{agent(ada), {Kind: browserhost.System, Via: "expiry"}, {}, {Kind: "owner", Device: ada}} {
		_, err := r.Grant(t.Context(), by, Spec{Device: ada, Domains: []string{"shop.test", strings.Repeat("x", 600)}})
		wants(t, err, browserhost.CodeUnauthorised)
		if r.events() != strings.TrimSpace(strings.Repeat("deny ", i+1)) {
			t.Fatalf("the ledger has %q", r.events())
		}
		if rec := r.records()[i]; rec.Actor.DeviceID != by.Device || rec.Actor.Kind == browserhost.Human || !strings.Contains(rec.Reason, "shop.test") {
			t.Errorf("%+v", rec)
		}
	}
	r.nothing()
	if s := r.world.order(); slices.Contains(s, "keyring") || slices.Contains(s, "mac") {
		t.Errorf("called %v", s)
	}
}

// AIP-63 C2, S3, S1.36: one name that cannot be granted, and nothing happens.
// The same for a bad device, time or source.
func TestGrantRefused(t *testing.T) {
	r := newRig(t, profile(t, "chromium", "Default", shop(t)...), profile(t, "chromium", "Profile 1"))
	good := Spec{Device: ada, Domains: []string{"shop.test"}, Source: "chromium/Default"}
	bad := map[string]func(*Spec){
		"no site":         func(s *Spec) { s.Domains = nil },
		"too many":        func(s *Spec) { s.Domains = many(17) },
		"no device":       func(s *Spec) { s.Device = "" },
		"a device's name": func(s *Spec) { s.Device = "ada" },
		"no such source":  func(s *Spec) { s.Source = "chrome/Default" },
		"a path":          func(s *Spec) { s.Source = "../Default" },
		"which source":    func(s *Spec) { s.Source = "" },
		"no time":         func(s *Spec) { s.ExpiresAt = "tomorrow" },
		"now":             func(s *Spec) { s.ExpiresAt = browserhost.FormatTime(now) },
		"hardly later":    func(s *Spec) { s.ExpiresAt = "2026-11-30T12:00:00.0001Z" },
		"past":            func(s *Spec) { s.ExpiresAt = "2026-11-30T11:59:59Z" },
	}
	for _, name := range []string{"*", "*.shop.test", ".shop.test", "test", "co.uk", "github.io", "127.0.0.1", "", "shop test", "all", "https://shop.test"} {
		bad["site "+name] = func(s *Spec) { s.Domains = []string{"shop.test", name} }
	}
	for what, change := range bad {
		spec := good
		change(&spec)
		_, err := r.Grant(t.Context(), theOwner, spec)
		if browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
			t.Errorf("%s: %v", what, err)
			continue
		}
		e := browserhost.AsError(err)
		if what == "which source" && !reflect.DeepEqual(e.Cause["sources"], []string{"chromium/Default", "chromium/Profile 1"}) {
			t.Errorf("cause %v", e.Cause)
		}
	}
	r.nothing()
	if n := len(r.world.order()); n != 0 || r.events() != "" {
		t.Errorf("%d calls, ledger %q", n, r.events())
	}
	if _, err := r.Grant(t.Context(), theOwner, good); err != nil {
		t.Error(err)
	}
}

func many(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("shop%d.test", i))
	}
	return all
}

// K14: where there is nothing to lend there is no grant: before the row when
// the profile has no cookie of the sites, after it when none can be read.
func TestGrantOfNothing(t *testing.T) {
	r := newRig(t, profile(t, "chromium", "Default", row{host: "bank.test", name: "sid", value: canary, scheme: "v20"}))
	_, err := r.Grant(t.Context(), theOwner, Spec{Device: ada, Domains: []string{"shop.test"}})
	wants(t, err, browserhost.CodeNotFound)
	if r.events() != "" {
		t.Errorf("the ledger has %q", r.events())
	}
	_, err = r.Grant(t.Context(), theOwner, Spec{Device: ada, Domains: []string{"bank.test"}})
	if e := wants(t, err, browserhost.CodeNotFound); !reflect.DeepEqual(e.Cause["not_read"], map[string]int{"app_bound": 1}) || !strings.Contains(e.Message, "sign in again") {
		t.Errorf("%v, %v", e, e.Cause)
	}
	if r.events() != "grant revoke" {
		t.Errorf("the ledger has %q", r.events())
	}
	r.nothing()
}

// S2, K7: a locked keychain, the host's or the browser's, refuses the grant and
// leaves nothing; unlocked, the same grant works.
func TestS2GrantLocked(t *testing.T) {
	r := newRig(t, profile(t, "chromium", "Default", shop(t)...))
	spec := Spec{Device: ada, Domains: []string{"shop.test"}}
	r.keys.locked = true
	_, err := r.Grant(t.Context(), theOwner, spec)
	wants(t, err, browserhost.CodeKeyring)
	r.nothing()
	if r.events() != "" {
		t.Errorf("the ledger has %q", r.events())
	}
	r.keys.locked, r.ring.locked = false, true
	_, err = r.Grant(t.Context(), theOwner, spec)
	wants(t, err, browserhost.CodeKeyring)
	r.nothing()
	if r.events() != "grant revoke" {
		t.Errorf("the ledger has %q", r.events())
	}
	r.ring.locked = false
	if _, err := r.Grant(t.Context(), theOwner, spec); err != nil {
		t.Error(err)
	}
}

// AIP-63 C1, C10: whatever call of a grant fails, there is a whole grant or
// none, and the ledger says which.
func TestGrantFailsAnywhere(t *testing.T) {
	for n := 1; ; n++ {
		r := newRig(t, profile(t, "chromium", "Default", shop(t)...))
		r.world.arm(n, false, false)
		_, err := r.Grant(t.Context(), theOwner, Spec{Device: ada, Domains: []string{"shop.test"}})
		struck, order := r.world.struck(), r.world.order()
		seed := struck && order[n-1] == "seed"
		switch {
		case struck && !seed && err == nil:
			t.Errorf("failed at %v, and was granted", order[:n])
		case (!struck || seed) && err != nil:
			t.Error(err)
		case err != nil:
			wants(t, err, browserhost.CodeInternal)
			r.nothing()
			last := order[n-1]
			if want := map[string]string{"mac": "", "append": "", "fsync": "grant"}; r.events() != "grant revoke" && r.events() != want[last] {
				t.Errorf("the ledger has %q", r.events())
			}
		}
		r.reopen()
		if err := r.lender.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.consistent()
		if t.Failed() {
			t.Fatalf("failed at %v", order)
		}
		if !struck {
			return
		}
	}
}

// The host may end before or after any call that a grant makes: after the next
// start the grant is whole, or it is not there and its row is closed.
func TestGrantKilledAnywhere(t *testing.T) {
	for _, late := range []bool{false, true} {
		for n := 1; ; n++ {
			r := newRig(t, profile(t, "chromium", "Default", shop(t)...))
			r.world.arm(n, late, true)
			over := make(chan struct{})
			go func() {
				defer close(over)
				r.Grant(t.Context(), theOwner, Spec{Device: ada, Domains: []string{"shop.test"}})
			}()
			<-over
			struck, order := r.world.struck(), r.world.order()
			r.reopen()
			if err := r.lender.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.consistent()
			if t.Failed() {
				t.Fatalf("killed at %v, late %v", order, late)
			}
			if !struck {
				break
			}
		}
	}
}

// consistent checks that list, files and ledger tell the same story.
func (r *rig) consistent() {
	r.t.Helper()
	open := map[browserhost.GrantID]bool{}
	for _, rec := range r.records() {
		switch rec.Event {
		case ledger.Grant:
			open[rec.GrantID] = true
		case ledger.Revoke:
			if !open[rec.GrantID] {
				r.t.Error("a revoke row without a grant, or a second one")
			}
			delete(open, rec.GrantID)
		}
	}
	living := 0
	for _, g := range r.jar.Grants() {
		if g.RevokedAt != "" {
			continue
		}
		living++
		if !open[g.ID] {
			r.t.Errorf("grant %s is not in the ledger", g.ID)
		}
		if v := r.values(g.ID); len(v) != g.CookieCount {
			r.t.Errorf("grant %s holds %d cookies and says %d", g.ID, len(v), g.CookieCount)
		}
	}
	sealed, err := filepath.Glob(filepath.Join(r.dir, "jar", "*.age"))
	if err != nil || len(sealed) != living || len(open) != living {
		r.t.Errorf("%d grants, %d files, %d open rows, %v", living, len(sealed), len(open), err)
	}
	report, err := chain.Verify(r.t.Context(), r.book(), chain.Options{Keys: r.keys.Vault, Label: "consent"})
	if err != nil || !report.OK() {
		r.t.Errorf("the ledger does not verify: %+v, %v", report, err)
	}
	r.noCanary()
}

// A list of grants that cannot be written, and a caller who does not wait, leave
// no grant behind.
func TestGrantDiskFails(t *testing.T) {
	r := newRig(t, profile(t, "chromium", "Default", shop(t)...))
	list := filepath.Join(r.dir, "grants.json")
	if err := os.MkdirAll(filepath.Join(list, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := r.Grant(t.Context(), theOwner, Spec{Device: ada, Domains: []string{"shop.test"}})
	wants(t, err, browserhost.CodeInternal)
	r.nothing()
	if rec := r.records(); len(rec) != 2 || rec[1].Derived.Local != "deleted" {
		t.Errorf("the ledger has %q", r.events())
	}
	if err := os.RemoveAll(list); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Grant(ctx, theOwner, Spec{Device: ada, Domains: []string{"shop.test"}}); err == nil {
		t.Error("granted to nobody's order")
	}
	r.nothing()
}

// S4.9: a new grant goes to the sessions that its device has open, and to those
// of no other device (AIP-63 C12).
func TestGrantSeeds(t *testing.T) {
	r := newRig(t, profile(t, "chromium", "Default", shop(t)...))
	r.warm.open[ada], r.warm.open[otto] = nil, nil
	got, err := r.Grant(t.Context(), theOwner, Spec{Device: ada, Domains: []string{"shop.test"}})
	if err != nil || got.Seeded != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if len(r.warm.open[otto]) != 0 || len(r.warm.open[ada]) != 1 || !slices.Equal(r.warm.open[ada][0].Grants, []browserhost.GrantID{got.Grant.ID}) {
		t.Errorf("seeded %v", r.warm.open)
	}
}

// AIP-63 C8, C13: a device that is removed while it is granted something ends
// with nothing.
func TestGrantToRemoved(t *testing.T) {
	r := newRig(t, profile(t, "chromium", "Default", shop(t)...))
	r.warm.open[ada] = nil
	if _, err := r.lender.RevokeDevice(t.Context(), theOwner, ada); err != nil {
		t.Fatal(err)
	}
	got, err := r.Grant(t.Context(), theOwner, Spec{Device: ada, Domains: []string{"shop.test"}})
	if err != nil || got.Seeded != 0 || len(r.warm.open[ada]) != 0 || len(r.lender.For(ada)) != 0 {
		t.Errorf("%+v, %v, seeded %v", got, err, r.warm.open)
	}
	if ended, err := r.lender.RevokeDevice(t.Context(), theOwner, ada); err != nil || len(ended) != 1 {
		t.Errorf("%+v, %v", ended, err)
	}
	r.consistent()
}
