package jar

import (
	"fmt"
	"os"
	"testing"

	"filippo.io/age"

	"browserhost"
)

// After a rotation nothing that was on the disk before can be opened, and what
// survives can (S1.45, AIP-63 C8).
func TestRotate(t *testing.T) {
	ctx := t.Context()
	dir, k := t.TempDir(), newKeys()
	j := mustOpen(t, dir, k)
	if err := j.Rotate(ctx); err != nil || j.Pending() {
		t.Fatalf("an empty jar: %v, pending %v", err, j.Pending())
	}
	mustPut(t, j, grant("grant_1"), "kept")
	mustPut(t, j, grant("grant_2"), canary)
	stolen, err := os.ReadFile(j.path("grant_2"))
	if err != nil {
		t.Fatal(err)
	}
	older, err := os.ReadFile(j.path("grant_1"))
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, j, revokedGrant("grant_2"))
	if err := j.Rotate(ctx); err != nil || j.Pending() {
		t.Fatalf("%v, pending %v", err, j.Pending())
	}
	if j.Sealed("grant_2") {
		t.Error("the revoked file survived")
	}
	wantCookies(t, j, "grant_1", "kept")
	wantSingleIdentity(t, k)
	id := mustIdentity(t, j)
	for _, old := range [][]byte{stolen, older} {
		if _, _, err := open(old, []age.Identity{id}); err == nil {
			t.Error("a file from before the rotation opens")
		}
	}
	wantCookies(t, mustOpen(t, dir, k), "grant_1", "kept")
}

func mustIdentity(t *testing.T, j *Jar) *age.HybridIdentity {
	t.Helper()
	id, err := j.identity(t.Context(), current)
	if err != nil || id == nil {
		t.Fatalf("identity: %v", err)
	}
	return id
}

func wantSingleIdentity(t *testing.T, k *keys) {
	t.Helper()
	if _, err := k.Vault.Get(t.Context(), current); err != nil {
		t.Errorf("current: %v", err)
	}
	if _, err := k.Vault.Get(t.Context(), next); browserhost.CodeOf(err) != browserhost.CodeNotFound {
		t.Errorf("a second identity is left: %v", err)
	}
}

// A rotation may stop at any call to the keychain, with or without the call's
// effect, the process killed or not: the survivors always open, and going on
// ends it with one identity that opens nothing old.
func TestRotateCutShort(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, killed := range []bool{false, true} {
			for stop := 1; ; stop++ {
				ctx := t.Context()
				name := fmt.Sprintf("call %d, late %v, killed %v", stop, late, killed)
				dir, k := t.TempDir(), newKeys()
				j := mustOpen(t, dir, k)
				mustPut(t, j, grant("grant_1"), "one")
				mustPut(t, j, grant("grant_2"), "two")
				mustPut(t, j, grant("grant_3"), canary)
				stolen, err := os.ReadFile(j.path("grant_3"))
				if err != nil {
					t.Fatal(err)
				}
				mustPut(t, j, revokedGrant("grant_3"))
				k.calls, k.stop, k.late = 0, stop, late
				err = j.Rotate(ctx)
				if err == nil {
					if stop < 5 {
						t.Fatalf("a rotation makes only %d calls", stop-1)
					}
					break // the rotation needs fewer calls
				}
				if browserhost.CodeOf(err) != browserhost.CodeKeyring || !j.Pending() {
					t.Fatalf("%s: %v, pending %v", name, err, j.Pending())
				}
				if killed {
					j = mustOpen(t, dir, k)
					if !j.Pending() {
						t.Fatalf("%s: forgotten by the restart", name)
					}
				}
				k.stop = 0
				wantCookies(t, j, "grant_1", "one")
				if j.Pending() {
					t.Fatalf("%s: the next use did not end it", name)
				}
				wantCookies(t, j, "grant_2", "two")
				wantSingleIdentity(t, k)
				if _, _, err := open(stolen, []age.Identity{mustIdentity(t, j)}); err == nil {
					t.Fatalf("%s: the revoked file still opens", name)
				}
			}
		}
	}
}

// Killed between two files: some are sealed for the new identity, some for the
// old one.
func TestRotateKilledBetweenFiles(t *testing.T) {
	ctx := t.Context()
	for moved := range 3 {
		dir, k := t.TempDir(), newKeys()
		j := mustOpen(t, dir, k)
		names := []string{"grant_1", "grant_2"}
		for _, n := range names {
			mustPut(t, j, grant(n), n)
		}
		old := mustIdentity(t, j)
		if err := write(j.marker(), nil); err != nil {
			t.Fatal(err)
		}
		fresh, err := j.newIdentity(ctx, next)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names[:moved] {
			if err := j.reseal(browserhost.GrantID(n), []age.Identity{fresh, old}, fresh); err != nil {
				t.Fatal(err)
			}
		}
		j = mustOpen(t, dir, k)
		// A sealing while the keychain can only be read: the rotation cannot
		// end, and the new file is for the identity that will stay.
		k.calls, k.stop = 0, 3 // current, next; then refused
		for _, n := range names {
			if _, err := j.Unseal(ctx, browserhost.GrantID(n)); browserhost.CodeOf(err) != browserhost.CodeKeyring {
				t.Fatalf("%d moved: %v", moved, err)
			}
		}
		k.stop = 0
		for _, n := range names {
			wantCookies(t, j, n, n)
		}
		wantSingleIdentity(t, k)
		if mustIdentity(t, j).String() != fresh.String() {
			t.Error("the rotation began anew")
		}
	}
}

// A file that nobody can open does not hold a revoke up, and a keychain that
// lost the key is said to have lost it.
func TestRotateUnreadable(t *testing.T) {
	ctx := t.Context()
	dir, k := t.TempDir(), newKeys()
	j := mustOpen(t, dir, k)
	mustPut(t, j, grant("grant_1"), "one")
	mustPut(t, j, grant("grant_2"), "two")
	if err := os.WriteFile(j.path("grant_2"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := j.Rotate(ctx); err != nil {
		t.Fatal(err)
	}
	if j.Sealed("grant_2") {
		t.Error("the unreadable file is left")
	}
	wantCookies(t, j, "grant_1", "one")

	j = mustOpen(t, dir, newKeys())
	wantCode(t, j.Rotate(ctx), browserhost.CodeKeyring, "key_missing")
	_, err := j.Unseal(ctx, "grant_1")
	wantCode(t, err, browserhost.CodeKeyring, "key_missing")
	if !j.Pending() || !j.Sealed("grant_1") {
		t.Error("a lost key must leave the files and the rotation as they are")
	}
}

// S1.45: with a locked keychain a revoke still deletes what it can; the
// rotation waits, visibly.
func TestRotateLocked(t *testing.T) {
	ctx := t.Context()
	dir, k := t.TempDir(), newKeys()
	j := mustOpen(t, dir, k)
	mustPut(t, j, grant("grant_1"), canary)
	k.calls, k.stop = 0, 1
	mustPut(t, j, revokedGrant("grant_1"))
	if err := j.Delete(ctx, "grant_1"); err != nil {
		t.Fatalf("a deletion needs no keychain: %v", err)
	}
	wantCode(t, j.Rotate(ctx), browserhost.CodeKeyring, "")
	if !mustOpen(t, dir, k).Pending() {
		t.Error("not shown as pending")
	}
	k.stop = 0
	if err := j.Rotate(ctx); err != nil || j.Pending() {
		t.Errorf("unlocked: %v, pending %v", err, j.Pending())
	}
}

// A damaged item is an unusable keychain; its text is in no error.
func TestDamagedIdentity(t *testing.T) {
	k := newKeys()
	j := mustOpen(t, t.TempDir(), k)
	if err := k.Set(t.Context(), current, canary); err != nil {
		t.Fatal(err)
	}
	err := j.Seal(t.Context(), grant("grant_1"), nil)
	wantCode(t, err, browserhost.CodeKeyring, "damaged")
	wantNoCanary(t, err)
}
