package narrow

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"browserhost"
	"browserhost/consent/ledger"
)

// S1.45, D6: the host may end before or after any call that a revoke makes. The
// grant is whole or it is refused; after the next start it is gone, once, or as
// it was.
func TestRevokeKilledAnywhere(t *testing.T) {
	for _, late := range []bool{false, true} {
		for n := 1; ; n++ {
			r := newRig(t)
			id, kept := r.give("grant_shop", ada), r.give("grant_bank", otto, sites("bank.test"))
			if _, err := r.lend(ada); err != nil {
				t.Fatal(err)
			}
			r.world.arm(n, late, true)
			over := make(chan struct{})
			go func() { defer close(over); r.Revoke(t.Context(), theOwner, id) }()
			<-over
			struck, names := r.world.struck(), r.world.names
			if !struck && n < 6 {
				t.Fatalf("a revoke makes only %d calls", n-1)
			}
			r.reopen()
			if err := r.Resume(t.Context()); err != nil {
				t.Fatalf("killed at %v (late %v): %v", names, late, err)
			}
			r.gone(id)
			if r.opts.Jar.Pending() {
				t.Error("the key waits for nothing")
			}
			if _, err := r.lend(otto); err != nil || len(r.revokes(kept)) != 0 {
				t.Errorf("the other grant suffered: %v", err)
			}
			if t.Failed() {
				t.Fatalf("killed at %v, late %v", names, late)
			}
			if !struck {
				break
			}
		}
	}
}

// The same with an error in place of the end: the grant is refused at once, and
// the next look finishes what can be finished.
func TestRevokeFailsAnywhere(t *testing.T) {
	for n := 1; ; n++ {
		r := newRig(t)
		id := r.give("grant_shop", ada)
		if _, err := r.lend(ada); err != nil {
			t.Fatal(err)
		}
		r.world.arm(n, false, false)
		_, err := r.Revoke(t.Context(), theOwner, id)
		struck, names := r.world.struck(), r.world.names
		r.world.arm(0, false, false)
		if err != nil {
			wants(t, err, browserhost.CodeInternal)
			if len(r.revokes(id)) != 0 && names[len(names)-1] != "fsync" {
				t.Errorf("a row says that all is done, after %v", names)
			}
		}
		_, lendErr := r.lend(ada)
		wants(t, lendErr, browserhost.CodeConsentRequired)
		if err != nil && names[len(names)-1] != "fsync" {
			if got, err := r.Revoke(t.Context(), theOwner, id); err != nil || got.Local != Deleted {
				t.Errorf("once more: %+v, %v", got, err)
			}
		}
		r.reopen()
		if err := r.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.gone(id)
		if t.Failed() {
			t.Fatalf("failed at %v", names)
		}
		if !struck {
			return
		}
	}
}

// A list of grants that cannot be written fails the revoke before anything is
// done; a file that cannot be deleted fails it afterwards.
func TestRevokeDiskFails(t *testing.T) {
	r := newRig(t)
	id := r.give("grant_shop", ada)
	list := filepath.Join(r.dir, "grants.json")
	kept, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	block := func(path string) {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	unblock := func(path string) {
		t.Helper()
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	block(list)
	_, err = r.Revoke(t.Context(), theOwner, id)
	wants(t, err, browserhost.CodeInternal)
	if len(r.warm.evicted) != 0 || !r.opts.Jar.Sealed(id) || len(r.For(ada)) != 1 {
		t.Error("a revoke that could not be marked did something")
	}
	unblock(list)
	write(t, list, kept)
	block(filepath.Join(r.dir, "jar", "grant_shop.age"))
	_, err = r.Revoke(t.Context(), theOwner, id)
	wants(t, err, browserhost.CodeInternal)
	if len(r.For(ada)) != 0 || len(r.revokes(id)) != 0 {
		t.Error("the grant is lent, or a row says that all is done")
	}
	unblock(filepath.Join(r.dir, "jar", "grant_shop.age"))
	if _, err := r.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.gone(id)
}

// AIP-63 C10, S1.47: what the ledger says holds. A grant that was written down
// and never given is closed; a revoked one stays revoked when an older list is
// put back; both once.
func TestResumeFollowsTheLedger(t *testing.T) {
	r := newRig(t)
	id := r.give("grant_shop", ada)
	list := filepath.Join(r.dir, "grants.json")
	older, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Revoke(t.Context(), theOwner, id); err != nil {
		t.Fatal(err)
	}
	_, err = r.opts.Ledger.Append(t.Context(), ledger.Record{
		Event: ledger.Grant, Actor: ledger.ActorOf(theOwner), GrantID: "grant_never", SessionID: "main", Domains: []string{"bank.test"}, CookieCount: new(2),
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, list, older)
	for range 2 {
		r.reopen()
		if err := r.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.gone(id)
		if _, err := r.lend(ada); err == nil {
			t.Error("a revoked grant came back with its list")
		}
		if n := len(r.revokes("grant_never")); n != 1 {
			t.Errorf("the grant that never was is closed %d times", n)
		}
	}
}

// K36: a row that a crash cut short is passed over; a ledger that cannot be
// read at all stops the resuming, not the refusing.
func TestResumeTornLedger(t *testing.T) {
	r := newRig(t)
	id := r.give("grant_shop", ada)
	r.keys.locked = true // so that the revoke leaves something to do
	if _, err := r.Revoke(t.Context(), theOwner, id); err != nil {
		t.Fatal(err)
	}
	r.keys.locked = false
	r.chain.Close()
	f, err := os.OpenFile(r.book(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"event":"rev`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	r.reopen()
	if err := r.Resume(t.Context()); err != nil || len(revokesIn(r, id)) != 1 || r.opts.Jar.Pending() {
		t.Errorf("%v, %d revoke rows", err, len(revokesIn(r, id)))
	}
	r.opts.LedgerPath = filepath.Join(r.dir, "nowhere")
	wants(t, r.Resume(t.Context()), browserhost.CodeInternal)
}

// revokesIn is rig.revokes for a ledger with a line that is none.
func revokesIn(r *rig, id browserhost.GrantID) (all []ledger.Record) {
	for rec, err := range ledger.Read(r.t.Context(), r.book()) {
		if err == nil && rec.Event == ledger.Revoke && rec.GrantID == id {
			all = append(all, rec)
		}
	}
	return all
}

// D31: Expire ends what is over, as the system, and says when to look again.
func TestExpire(t *testing.T) {
	r := newRig(t)
	r.give("grant_ever", ada)
	soon := r.give("grant_soon", ada, ends(start.Add(time.Minute)))
	later := r.give("grant_later", otto, ends(start.Add(time.Hour)))
	if next, err := r.Expire(t.Context()); err != nil || !next.Equal(start.Add(time.Minute)) {
		t.Errorf("%v, %v", next, err)
	}
	if _, err := r.lend(ada); err != nil {
		t.Fatal(err)
	}
	r.pass(time.Minute)
	if next, err := r.Expire(t.Context()); err != nil || !next.Equal(start.Add(time.Hour)) {
		t.Errorf("%v, %v", next, err)
	}
	r.gone(soon)
	if row := r.revokes(soon)[0]; row.Actor != (ledger.Actor{Kind: browserhost.System, Via: "expiry"}) {
		t.Errorf("%+v", row.Actor)
	}
	r.pass(time.Hour)
	r.reopen() // it expired while no host ran
	if err := r.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.gone(later)
	if next, err := r.Expire(t.Context()); err != nil || !next.IsZero() || fmt.Sprint(len(r.For(ada)), len(r.For(otto))) != "1 0" {
		t.Errorf("%v, %v, %v, %v", next, err, r.For(ada), r.For(otto))
	}
}
