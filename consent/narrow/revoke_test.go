package narrow

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"

	"browserhost"
	"browserhost/consent/ledger"
)

// AIP-63 C8, S7: when a revoke returns, the pages are closed, the sealed file is
// gone, a copy of it cannot be opened any more, and one row says so.
func TestRevoke(t *testing.T) {
	r := newRig(t)
	id, other := r.give("grant_shop", ada), r.give("grant_bank", otto, sites("bank.test"))
	for _, d := range []browserhost.DeviceID{ada, otto} {
		if _, err := r.lend(d); err != nil {
			t.Fatal(err)
		}
	}
	sealed := filepath.Join(r.dir, "jar", "grant_shop.age")
	copied, err := os.ReadFile(sealed)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Revoke(t.Context(), theOwner, id)
	if err != nil || got != (Revoked{id, Deleted, NotApplicable, 1, false}) {
		t.Fatalf("%+v, %v", got, err)
	}
	r.gone(id)
	row := r.revokes(id)[0]
	if row.Actor != ledger.ActorOf(theOwner) || *row.Derived != (ledger.Derived{Local: "deleted", Remote: "not-applicable"}) || !slices.Equal(row.Domains, []string{"shop.test"}) {
		t.Errorf("%+v", row)
	}
	_, err = r.lend(ada)
	wants(t, err, browserhost.CodeConsentRequired)
	if !r.warm.holds(other) {
		t.Error("another device's session was ended")
	}
	if _, err := r.lend(otto); err != nil {
		t.Errorf("the surviving grant cannot be opened after the rotation: %v", err)
	}
	text, err := r.keys.Vault.Get(t.Context(), "jar-identity")
	if err != nil {
		t.Fatal(err)
	}
	key, err := age.ParseHybridIdentity(string(text))
	if err != nil {
		t.Fatal("the key has an unknown form")
	}
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(copied, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := age.Decrypt(f, key); err == nil {
		t.Error("a copy of the revoked file can still be opened (S1.45)")
	}
}

// S1.41: ending what has ended is no error and no row; an unknown grant is one.
// AIP-63 C12: to an agent another device's grant is an unknown one.
func TestRevokeTwice(t *testing.T) {
	r := newRig(t)
	id, foreign := r.give("grant_shop", ada), r.give("grant_bank", otto)
	if _, err := r.Revoke(t.Context(), agent(ada), id); err != nil {
		t.Fatal(err)
	}
	if row := r.revokes(id)[0]; row.Actor.Kind != browserhost.Agent || row.Actor.DeviceID != ada || row.Actor.Via != "mcp" {
		t.Errorf("%+v", row.Actor)
	}
	rows := len(r.records())
	for _, by := range []browserhost.Actor{theOwner, agent(ada)} {
		if got, err := r.Revoke(t.Context(), by, id); err != nil || got != (Revoked{id, None, NotApplicable, 0, false}) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	_, unknown := r.Revoke(t.Context(), agent(ada), "grant_never")
	_, others := r.Revoke(t.Context(), agent(ada), foreign)
	if a, b := wants(t, unknown, browserhost.CodeConsentRequired), wants(t, others, browserhost.CodeConsentRequired); fmt.Sprint(a, a.Cause) != fmt.Sprint(b, b.Cause) {
		t.Errorf("an unknown grant answers %v, another device's %v", a, b)
	}
	_, err := r.Revoke(t.Context(), theOwner, "grant_never")
	wants(t, err, browserhost.CodeNotFound)
	_, err = r.Revoke(t.Context(), browserhost.Actor{}, foreign)
	wants(t, err, browserhost.CodeConsentRequired)
	if len(r.records()) != rows || len(r.For(otto)) != 1 {
		t.Error("a refused revoke did something")
	}
}

// S1.45: a locked keychain stops no revoke; the new key waits, and comes with
// the next start.
func TestRevokeLocked(t *testing.T) {
	r := newRig(t)
	id := r.give("grant_shop", ada)
	r.keys.locked = true
	got, err := r.Revoke(t.Context(), theOwner, id)
	if err != nil || got.Local != Deleted || !got.Rotation {
		t.Fatalf("%+v, %v", got, err)
	}
	r.gone(id)
	r.reopen()
	if err := r.Resume(t.Context()); err != nil || !r.opts.Jar.Pending() {
		t.Errorf("with the keychain still locked: %v, pending %v", err, r.opts.Jar.Pending())
	}
	r.keys.locked = false
	r.reopen()
	if err := r.Resume(t.Context()); err != nil || r.opts.Jar.Pending() {
		t.Errorf("%v, pending %v", err, r.opts.Jar.Pending())
	}
	r.gone(id)
}

// AIP-63 C13, S1.51: with a device its grants end, and it is lent nothing that
// comes to be granted to it afterwards.
func TestRevokeDevice(t *testing.T) {
	r := newRig(t)
	a, b, c := r.give("grant_a", ada), r.give("grant_b", ada, sites("bank.test")), r.give("grant_c", otto)
	if _, err := r.lend(ada); err != nil {
		t.Fatal(err)
	}
	_, err := r.RevokeDevice(t.Context(), agent(ada), otto)
	wants(t, err, browserhost.CodeUnauthorised)
	_, err = r.RevokeDevice(t.Context(), theOwner, "")
	wants(t, err, browserhost.CodeInputInvalid)
	got, err := r.RevokeDevice(t.Context(), system("unpaired"), ada)
	if err != nil || len(got) != 2 || got[0].Pages+got[1].Pages != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	r.gone(a)
	r.gone(b)
	if row := r.revokes(b)[0]; row.Actor.Kind != browserhost.System || row.Reason == "" {
		t.Errorf("%+v", row)
	}
	if again, err := r.RevokeDevice(t.Context(), theOwner, ada); err != nil || len(again) != 0 {
		t.Errorf("%+v, %v", again, err)
	}
	late := r.give("grant_late", ada)
	_, err = r.lend(ada)
	wants(t, err, browserhost.CodeConsentRequired)
	if len(r.For(ada)) != 0 {
		t.Errorf("a removed device has %v", r.For(ada))
	}
	_, err = r.Seed(t.Context(), browserhost.Material{Device: ada, Grants: []browserhost.GrantID{late}})
	wants(t, err, browserhost.CodeConsentRequired)
	if len(r.For(otto)) != 1 || r.opts.Jar.Sealed(c) != true {
		t.Error("another device's grant was touched")
	}
}

// A revoke does not depend on the patience of whoever asked for it.
func TestRevokeOutlivesCaller(t *testing.T) {
	r := newRig(t)
	id := r.give("grant_shop", ada)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := r.Revoke(ctx, theOwner, id); err != nil || got.Local != Deleted {
		t.Errorf("%+v, %v", got, err)
	}
	r.gone(id)
}

// A grant without a device ends in every browser that was lent it.
func TestRevokeUnscoped(t *testing.T) {
	r := newRig(t)
	id := r.give("grant_any", "")
	for _, d := range []browserhost.DeviceID{ada, otto} {
		if _, err := r.lend(d); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.Revoke(t.Context(), theOwner, id)
	if err != nil || got.Pages != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	r.gone(id)
}

// AIP-63 C8: a lending that meets a revoke loses, and the revoke does not
// return before the lending is over and what it opened is gone.
func TestRevokeMeetsLending(t *testing.T) {
	r := newRig(t)
	id := r.give("grant_shop", ada)
	inside := make(chan struct{})
	lending := make(chan error, 1)
	go func() {
		lending <- r.Lend(t.Context(), ada, nil, func(ctx context.Context, m browserhost.Material) error {
			close(inside)
			<-ctx.Done() // the revoke asks it to stop
			r.warm.put(m)
			return nil // and the browser was opened all the same
		})
	}()
	<-inside
	if _, err := r.Revoke(t.Context(), theOwner, id); err != nil {
		t.Fatal(err)
	}
	r.gone(id)
	if e := wants(t, <-lending, browserhost.CodeConsentRequired); e.Cause["reason"] != "grant_revoked" {
		t.Errorf("cause %v", e.Cause)
	}
}

// A browser that does not let go in time fails the revoke, which has deleted
// what it could and is finished by the next look.
func TestRevokeStuckLending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.give("grant_shop", ada)
		inside, hold := make(chan struct{}), make(chan struct{})
		lending := make(chan error, 1)
		go func() {
			lending <- r.Lend(context.Background(), ada, nil, func(context.Context, browserhost.Material) error {
				close(inside)
				<-hold
				return nil
			})
		}()
		<-inside
		began := time.Now()
		_, err := r.Revoke(context.Background(), theOwner, id)
		wants(t, err, browserhost.CodeTimeout)
		if took := time.Since(began); took != letGo {
			t.Errorf("took %v", took)
		}
		if r.opts.Jar.Sealed(id) || len(r.revokes(id)) != 0 {
			t.Error("the file is left, or a row says that all is done")
		}
		close(hold)
		wants(t, <-lending, browserhost.CodeConsentRequired)
		if _, err := r.Expire(context.Background()); err != nil {
			t.Fatal(err)
		}
		r.gone(id)
	})
}

// Many at once: whatever the order, after a revoke nothing of the grant is in a
// browser, and it is written down once.
func TestRevokeRace(t *testing.T) {
	r := newRig(t)
	for n := range 8 {
		id := r.give(fmt.Sprintf("grant_%d", n), ada)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for range 4 {
					_, err := r.lend(ada)
					if c := browserhost.CodeOf(err); c != "" && c != browserhost.CodeConsentRequired {
						t.Error(err)
					}
				}
			})
			all.Go(func() {
				if _, err := r.Revoke(t.Context(), theOwner, id); err != nil {
					t.Error(err)
				}
				if r.warm.holds(id) {
					t.Error("a browser holds what was revoked")
				}
			})
		}
		all.Wait()
		r.gone(id)
	}
}
