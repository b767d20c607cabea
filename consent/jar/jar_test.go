package jar

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"browserhost"
	"browserhost/consent/keychain"
)

const canary = "canary-51c0-jar"

var device = browserhost.DeviceID(strings.Repeat("a1", 16))

func grant(id string, domains ...string) browserhost.Grant {
	if len(domains) == 0 {
		domains = []string{"shop.test"}
	}
	return browserhost.Grant{
		ID:         browserhost.GrantID(id),
		SessionID:  "main",
		DeviceID:   device,
		Source:     browserhost.GrantSource{Kind: "chrome", Profile: "Default"},
		Domains:    domains,
		Sinks:      []browserhost.Sink{{Kind: "local"}},
		GrantedAt:  "2026-11-30T10:00:00.000Z",
		GrantedVia: "interactive",
	}
}

func revokedGrant(id string) browserhost.Grant {
	g := grant(id)
	g.RevokedAt = "2026-11-30T11:00:00.000Z"
	return g
}

func cookies(values ...string) []browserhost.Cookie {
	var all []browserhost.Cookie
	for _, v := range values {
		all = append(all, browserhost.Cookie{
			Name: "sid", Value: browserhost.Secret(v), Domain: ".shop.test", Path: "/",
			Expires: time.Date(2027, 1, 2, 3, 4, 5, 678_000, time.UTC), Secure: true, HTTPOnly: true,
			SameSite: "None", Priority: "High", SourceScheme: "Secure", SourcePort: 443,
			PartitionKey: "https://top.test", CrossSite: true,
		})
	}
	return all
}

// keys is a keychain that can be made to fail before or after a call has had
// its effect.
type keys struct {
	*keychain.Vault
	mu    sync.Mutex
	calls int
	stop  int  // number of the call that fails, 0 = none; every later one fails too
	late  bool // the failing call has its effect all the same
}

var errStopped = browserhost.Errorf(browserhost.CodeKeyring, "the keychain is locked")

func newKeys() *keys { return &keys{Vault: keychain.Open(keychain.Options{Store: keychain.Memory})} }

func (k *keys) step(effect func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	if k.stop == 0 || k.calls < k.stop {
		return effect()
	}
	if k.late && k.calls == k.stop {
		effect()
	}
	return errStopped
}

func (k *keys) Get(ctx context.Context, name string) (value browserhost.Secret, err error) {
	err = k.step(func() error { value, err = k.Vault.Get(ctx, name); return err })
	return value, err
}

func (k *keys) Set(ctx context.Context, name string, value browserhost.Secret) error {
	return k.step(func() error { return k.Vault.Set(ctx, name, value) })
}

func (k *keys) Delete(ctx context.Context, name string) error {
	return k.step(func() error { return k.Vault.Delete(ctx, name) })
}

func mustOpen(t testing.TB, dir string, k Keychain) *Jar {
	t.Helper()
	j, err := Open(dir, k)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func mustPut(t testing.TB, j *Jar, g browserhost.Grant, values ...string) {
	t.Helper()
	if len(values) > 0 {
		if err := j.Seal(t.Context(), g, cookies(values...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Put(t.Context(), g); err != nil {
		t.Fatal(err)
	}
}

func wantCookies(t *testing.T, j *Jar, id string, values ...string) {
	t.Helper()
	got, err := j.Unseal(t.Context(), browserhost.GrantID(id))
	if err != nil || !reflect.DeepEqual(got, cookies(values...)) {
		t.Fatalf("%s: got %d cookies, %v; want %d", id, len(got), err, len(values))
	}
}

func wantCode(t *testing.T, err error, want browserhost.Code, reason string) {
	t.Helper()
	if browserhost.CodeOf(err) != want {
		t.Fatalf("got %v, want code %s", err, want)
	}
	if reason != "" && browserhost.AsError(err).Cause["reason"] != reason {
		t.Fatalf("got cause %v, want reason %s", browserhost.AsError(err).Cause, reason)
	}
}

// What was lent comes back whole after a restart: every attribute, an empty
// value, and bytes that are no text.
func TestSealAndUnseal(t *testing.T) {
	dir, k := t.TempDir(), newKeys()
	j := mustOpen(t, dir, k)
	mustPut(t, j, grant("grant_1"), canary, "", "\x00\xff")
	if !j.Sealed("grant_1") || j.Sealed("grant_2") {
		t.Error("Sealed is wrong")
	}
	j = mustOpen(t, dir, k)
	wantCookies(t, j, "grant_1", canary, "", "\x00\xff")
	mustPut(t, j, grant("grant_1"), "newer")
	wantCookies(t, j, "grant_1", "newer")
	if err := j.Delete(t.Context(), "grant_1"); err != nil {
		t.Fatal(err)
	}
	if err := j.Delete(t.Context(), "grant_1"); err != nil {
		t.Fatalf("deleting what is gone: %v", err)
	}
	_, err := j.Unseal(t.Context(), "grant_1")
	wantCode(t, err, browserhost.CodeNotFound, "")
}

// No value, no identity and no recipient is on the disk in clear (SC.7, AIP-63
// C11): not even a part of one.
func TestNothingInClear(t *testing.T) {
	dir, k := t.TempDir(), newKeys()
	j := mustOpen(t, dir, k)
	mustPut(t, j, grant("grant_1"), canary)
	id, err := j.identity(t.Context(), current)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(id.String()); n > 80 {
		t.Errorf("the identity has %d characters (K8)", n)
	}
	recipient := id.Recipient().String()
	for _, secret := range []string{canary, "sid", id.String()[:20], recipient[:20], recipient[len(recipient)-20:]} {
		for name, text := range tree(t, dir) {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %q", name, secret)
			}
		}
	}
}

func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		all[p] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// S2, the sealing half: without a keychain an import is refused and not a byte
// is written; when it can be used again, the same call works.
func TestS2NothingWrittenWithoutKeychain(t *testing.T) {
	dir, k := t.TempDir(), newKeys()
	j := mustOpen(t, dir, k)
	before := tree(t, dir)
	for stop := 1; stop <= 2; stop++ { // the look-up fails, then the storing
		k.calls, k.stop = 0, stop
		wantCode(t, j.Seal(t.Context(), grant("grant_1"), cookies(canary)), browserhost.CodeKeyring, "")
		if !reflect.DeepEqual(before, tree(t, dir)) {
			t.Fatal("something was written")
		}
	}
	k.stop = 0
	mustPut(t, j, grant("grant_1"), canary)
	k.calls, k.stop = 0, 1
	_, err := j.Unseal(t.Context(), "grant_1")
	wantCode(t, err, browserhost.CodeKeyring, "")
	k.stop = 0
	wantCookies(t, j, "grant_1", canary)
}

// K8: a file opens only for the grant and the device that it was sealed for,
// only whole, and never after a newer one of the same grant.
func TestBoundFiles_K8(t *testing.T) {
	ctx := t.Context()
	dir, k := t.TempDir(), newKeys()
	j := mustOpen(t, dir, k)
	mustPut(t, j, grant("grant_1"), "one")
	mustPut(t, j, grant("grant_2"), "two")
	first, err := os.ReadFile(j.path("grant_1"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(j.path(browserhost.GrantID(name)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	put("grant_2", first) // swapped
	_, err = j.Unseal(ctx, "grant_2")
	wantCode(t, err, browserhost.CodeInternal, "altered")

	mustPut(t, j, grant("grant_1"), "newer")
	put("grant_1", first) // an older one put back
	_, err = j.Unseal(ctx, "grant_1")
	wantCode(t, err, browserhost.CodeInternal, "altered")

	for _, cut := range []int{0, 1, len(first) / 2, len(first) - 1} {
		put("grant_1", first[:cut])
		_, err = j.Unseal(ctx, "grant_1")
		wantCode(t, err, browserhost.CodeInternal, "altered")
	}
	for _, at := range []int{0, 40, len(first) / 2, len(first) - 1} {
		flipped := bytes.Clone(first)
		flipped[at] ^= 1
		put("grant_1", flipped)
		_, err = j.Unseal(ctx, "grant_1")
		wantCode(t, err, browserhost.CodeInternal, "altered")
	}

	// Sealed for another device: only a record that was edited on the disk can
	// ask for it, since Put refuses the move.
	mustPut(t, j, grant("grant_3"), "three")
	moved := grant("grant_3")
	moved.DeviceID = browserhost.DeviceID(strings.Repeat("b2", 16))
	wantCode(t, j.Put(ctx, moved), browserhost.CodeInputInvalid, "")
	wantCode(t, j.Seal(ctx, moved, nil), browserhost.CodeInputInvalid, "")
	path := filepath.Join(dir, grantsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte(device), []byte(moved.DeviceID)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = mustOpen(t, dir, k).Unseal(ctx, "grant_3")
	wantCode(t, err, browserhost.CodeInternal, "altered")
}

// AIP-63 C8: what was revoked stays revoked, whoever comes late.
func TestRevokedStaysRevoked(t *testing.T) {
	ctx := t.Context()
	j := mustOpen(t, t.TempDir(), newKeys())
	mustPut(t, j, grant("grant_1"), canary)
	mustPut(t, j, revokedGrant("grant_1"))
	wantCode(t, j.Put(ctx, grant("grant_1")), browserhost.CodeConsentRequired, "grant_revoked")
	wantCode(t, j.Seal(ctx, grant("grant_1"), cookies(canary)), browserhost.CodeConsentRequired, "grant_revoked")
	_, err := j.Unseal(ctx, "grant_1")
	wantCode(t, err, browserhost.CodeConsentRequired, "grant_revoked")
	_, err = j.Unseal(ctx, "grant_9")
	wantCode(t, err, browserhost.CodeConsentRequired, "")
}

// A host that was killed half-way finds only living material at its next start.
func TestOpenCleans(t *testing.T) {
	dir, k := t.TempDir(), newKeys()
	j := mustOpen(t, dir, k)
	mustPut(t, j, grant("grant_1"), "kept")
	mustPut(t, j, grant("grant_2"), "revoked, not deleted")
	mustPut(t, j, revokedGrant("grant_2"))
	if err := j.Seal(t.Context(), grant("grant_3"), cookies("never recorded")); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, filepath.Join(dir, sealedDir)} {
		if err := os.WriteFile(filepath.Join(d, halfWritten+"123"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j = mustOpen(t, dir, k)
	var names []string
	for name := range tree(t, dir) {
		names = append(names, filepath.Base(name))
	}
	if len(names) != 2 || !j.Sealed("grant_1") {
		t.Errorf("left: %v", names)
	}
	wantCookies(t, j, "grant_1", "kept")
}

// Many at once: the list stays whole and every grant keeps its own material.
func TestTogether(t *testing.T) {
	dir, k := t.TempDir(), newKeys()
	j := mustOpen(t, dir, k)
	names := []string{"grant_a", "grant_b", "grant_c", "grant_d", "grant_e", "grant_f"}
	var group sync.WaitGroup
	for _, name := range names {
		group.Go(func() {
			g := grant(name)
			err := errors.Join(j.Seal(t.Context(), g, cookies(name)), j.Put(t.Context(), g), j.Rotate(t.Context()))
			if _, uerr := j.Unseal(t.Context(), g.ID); err != nil || uerr != nil {
				t.Errorf("%s: %v %v", name, err, uerr)
			}
		})
	}
	group.Wait()
	j = mustOpen(t, dir, k)
	if got := len(j.Grants()); got != len(names) {
		t.Errorf("%d grants", got)
	}
	for _, name := range names {
		wantCookies(t, j, name, name)
	}
}

// A caller that cannot wait for the keychain's user does not.
func TestLockEndsWithContext(t *testing.T) {
	j := mustOpen(t, t.TempDir(), newKeys())
	if err := j.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantCode(t, j.Delete(ctx, "grant_1"), browserhost.CodeTimeout, "")
	wantCode(t, j.Rotate(ctx), browserhost.CodeTimeout, "")
	j.Grants() // does not wait
	j.unlock()
}
