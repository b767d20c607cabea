//go:build real

package real

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"browserhost"
	"browserhost/consent/jar"
	"browserhost/consent/keychain"
)

const canary = "canary-c5a2-real"

func newGrant(id string) browserhost.Grant {
	return browserhost.Grant{
		ID: browserhost.GrantID(id), SessionID: "main", DeviceID: browserhost.DeviceID(strings.Repeat("a1", 16)),
		Source:  browserhost.GrantSource{Kind: "chrome", Profile: "Default"},
		Domains: []string{"shop.test"}, Sinks: []browserhost.Sink{{Kind: "local"}},
		GrantedAt: "2026-11-30T10:00:00.000Z", GrantedVia: "interactive",
	}
}

func lent(value string) []browserhost.Cookie {
	return []browserhost.Cookie{{Name: "sid", Value: browserhost.Secret(value), Domain: ".shop.test", Path: "/"}}
}

func wantUnavailable(t *testing.T, what string, call func() error) {
	t.Helper()
	start := time.Now()
	err := call()
	took := time.Since(start)
	if browserhost.CodeOf(err) != browserhost.CodeKeyring || took > 5*time.Second+500*time.Millisecond {
		t.Errorf("%s: %v after %v", what, err, took)
	}
	t.Logf("%s: refused after %v", what, took)
}

func holds(t *testing.T, dir, secret string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		if bytes.Contains(b, []byte(secret)) {
			found = append(found, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The whole life of lent material on a real keyring: sealed, opened after a
// restart, and after the rotation of a revoke no older copy opens (S1.45, SC.7).
func TestKeyringJar(t *testing.T) {
	if !session(t) {
		return
	}
	startKeyring(t)
	ctx, dir := t.Context(), t.TempDir()
	open := func() (*keychain.Vault, *jar.Jar) {
		v := keychain.Open(keychain.Options{Account: "test"})
		j, err := jar.Open(dir, v)
		if err != nil {
			t.Fatal(err)
		}
		return v, j
	}
	v, j := open()
	if ok, why := v.State(ctx); !ok {
		t.Fatal(why)
	}
	for _, id := range []string{"grant_1", "grant_2"} {
		if err := j.Seal(ctx, newGrant(id), lent(canary+id)); err != nil {
			t.Fatal(err)
		}
		if err := j.Put(ctx, newGrant(id)); err != nil {
			t.Fatal(err)
		}
	}
	mac, err := v.MAC(ctx, "names", []byte("sid"))
	if err != nil {
		t.Fatal(err)
	}

	v, j = open() // a restart
	if got, err := j.Unseal(ctx, "grant_1"); err != nil || !reflect.DeepEqual(got, lent(canary+"grant_1")) {
		t.Fatalf("after a restart: %v", err)
	}
	if again, err := v.MAC(ctx, "names", []byte("sid")); err != nil || !bytes.Equal(mac, again) {
		t.Errorf("another MAC after a restart: %v", err)
	}

	sealed := filepath.Join(dir, "jar", "grant_1.age")
	old, err := os.ReadFile(sealed)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Rotate(ctx); err != nil || j.Pending() {
		t.Fatalf("rotate: %v", err)
	}
	for _, id := range []string{"grant_1", "grant_2"} {
		if got, err := j.Unseal(ctx, browserhost.GrantID(id)); err != nil || !reflect.DeepEqual(got, lent(canary+id)) {
			t.Fatalf("%s after the rotation: %v", id, err)
		}
	}
	if err := os.WriteFile(sealed, old, 0o600); err != nil {
		t.Fatal(err)
	}
	_, j = open()
	if _, err := j.Unseal(ctx, "grant_1"); browserhost.AsError(err).Cause["reason"] != "altered" {
		t.Errorf("a file from before the rotation: %v", err)
	}
	if found := holds(t, dir, canary); found != nil {
		t.Errorf("in clear: %v", found)
	}
}

// S2: a locked collection refuses at once, nothing is written, and when it is
// unlocked the same vault and the same jar work.
func TestS2LockedCollection(t *testing.T) {
	if !session(t) {
		return
	}
	k := startKeyring(t)
	ctx, dir := t.Context(), t.TempDir()
	v := keychain.Open(keychain.Options{Account: "test"})
	j, err := jar.Open(dir, v)
	if err != nil {
		t.Fatal(err)
	}
	k.lock(login)
	wantUnavailable(t, "seal", func() error { return j.Seal(ctx, newGrant("grant_1"), lent(canary)) })
	wantUnavailable(t, "mac", func() error { _, err := v.MAC(ctx, "l", nil); return err })
	if ok, why := v.State(ctx); ok || why == "" {
		t.Errorf("state %v %q", ok, why)
	}
	for _, place := range []string{dir, os.Getenv(sessionVariable)} {
		if found := holds(t, place, canary); found != nil {
			t.Errorf("written: %v", found)
		}
	}
	if j.Sealed("grant_1") {
		t.Error("a sealed file was written")
	}
	k.unlock(login)
	if err := j.Seal(ctx, newGrant("grant_1"), lent(canary)); err != nil {
		t.Errorf("unlocked: %v", err)
	}
	if _, err := v.MAC(ctx, "l", nil); err != nil {
		t.Errorf("unlocked: %v", err)
	}
	k.lock(login) // a revoke with a locked keyring completes and stays pending
	if err := j.Delete(ctx, "grant_1"); err != nil || j.Sealed("grant_1") {
		t.Errorf("delete: %v", err)
	}
	wantUnavailable(t, "rotate", func() error { return j.Rotate(ctx) })
	if !j.Pending() {
		t.Error("the rotation is not pending")
	}
	k.unlock(login)
	if err := j.Rotate(ctx); err != nil || j.Pending() {
		t.Errorf("rotate, unlocked: %v", err)
	}
}

// S2, the other way: a bus on which nobody has unlocked anything. What the bus
// starts by itself ends with it.
func TestS2NothingUnlocked(t *testing.T) {
	if !session(t) {
		return
	}
	v := keychain.Open(keychain.Options{Account: "test"})
	wantUnavailable(t, "set", func() error { return v.Set(t.Context(), "x", canary) })
	wantUnavailable(t, "get", func() error { _, err := v.Get(t.Context(), "x"); return err })
}
