package devices

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"browserhost"
)

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path, Options{Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mint(t *testing.T, s *Store, name string) (browserhost.Device, string) {
	t.Helper()
	d, bearer, err := s.Mint(context.Background(), name, browserhost.DefaultScopes())
	if err != nil {
		t.Fatal(err)
	}
	return d, string(bearer)
}

// The MAC is that of AIP-59, byte for byte.
func TestMACVector(t *testing.T) {
	const id = "00112233445566778899aabbccddeeff"
	got := string(bearer(id, MAC(bytes.Repeat([]byte{7}, 32), id)))
	if want := "apd1.00112233445566778899aabbccddeeff.s6PtANeq_jNjPKX-LpjmS5lg7pDkDzN2a8mSpV7W9Pc"; got != want {
		t.Fatalf("bearer %s, want %s", got, want)
	}
}

// S1.56: a bearer is recognised exactly as it was given, and in no other spelling.
func TestVerifyIsExact(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "pairings.json"))
	d, b := mint(t, s, "Ada's agent")
	if got, ok := s.Verify(b); !ok || got.ID != d.ID || got.LastSeen == "" {
		t.Fatalf("Verify = %+v, %v", got, ok)
	}
	other := byte('A')
	if b[len(b)-1] == 'A' {
		other = 'B'
	}
	for name, bad := range map[string]string{
		"empty":              "",
		"spare bits":         b[:len(b)-1] + string(other),
		"upper case id":      strings.ToUpper(b),
		"padding":            b + "=",
		"four parts":         b + ".x",
		"other scheme":       "apd2" + b[4:],
		"unknown device":     "apd1." + strings.Repeat("0", 32) + b[37:],
		"empty mac":          b[:38],
		"space":              b + " ",
		"over 256":           b + strings.Repeat("A", 256),
		"the store's own":    "apd1." + string(d.ID) + "." + s.records[0].Verifier,
		"unicode in the mac": b + "é",
	} {
		if _, ok := s.Verify(bad); ok {
			t.Errorf("%s: %q is recognised", name, bad)
		}
	}
}

// C11: the file is 0600 and holds nothing that would let a thief in.
func TestFileHoldsNoSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pairings.json")
	s := open(t, path)
	_, b := mint(t, s, "Ada's agent")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte(b[38:])) {
		t.Fatal("the file holds the MAC")
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	again := open(t, path)
	if _, ok := again.Verify(b); !ok {
		t.Fatal("the bearer is not recognised after a restart")
	}
}

// S1.56, C13: a removal, by this store or by another process, bites on the very next
// request, and is told once.
func TestRevokeBitesAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pairings.json")
	s, other := open(t, path), open(t, path)
	var told []browserhost.DeviceID
	s.OnRevoke(func(id browserhost.DeviceID) { told = append(told, id) })
	a, bearerA := mint(t, s, "A")
	b, bearerB := mint(t, s, "B")
	if err := other.Revoke(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Verify(bearerA); ok {
		t.Fatal("a device that another process removed is recognised")
	}
	if err := s.Revoke(t.Context(), b.ID); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Verify(bearerB); ok {
		t.Fatal("a revoked device is recognised")
	}
	if err := s.Revoke(t.Context(), b.ID); browserhost.CodeOf(err) != browserhost.CodeNotFound {
		t.Fatalf("second revoke: %v", err)
	}
	if !slices.Equal(told, []browserhost.DeviceID{a.ID, b.ID}) {
		t.Fatalf("told %v", told)
	}
}

// A write starts from the file as it is: it neither loses a device that
// another process minted nor brings back one that it removed.
func TestWritesMerge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pairings.json")
	s, other := open(t, path), open(t, path)
	a, _ := mint(t, s, "A")
	mint(t, other, "B")
	if err := other.Revoke(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	mint(t, s, "C")
	var names []string
	for _, d := range other.List() {
		names = append(names, d.Name)
	}
	if !slices.Equal(names, []string{"B", "C"}) {
		t.Fatalf("devices %v", names)
	}
}

// A store that cannot be understood stops the start, and, when it breaks
// later, recognises nobody and is not written over.
func TestBrokenStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pairings.json")
	s := open(t, path)
	d, b := mint(t, s, "Ada's agent")
	s.OnRevoke(func(id browserhost.DeviceID) { t.Errorf("a broken store revoked %s", id) })
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"torn":            string(good[:len(good)/2]),
		"empty":           "",
		"unknown member":  strings.Replace(string(good), `"v"`, `"extra":1,"v"`, 1),
		"other version":   strings.Replace(string(good), `"v": 2`, `"v": 3`, 1),
		"unknown role":    strings.Replace(string(good), `"agent"`, `"king"`, 1),
		"unknown scope":   strings.Replace(string(good), `"browser:read"`, `"browser:all"`, 1),
		"bad fingerprint": strings.Replace(string(good), string(d.ID), "xyz", 1),
		"a list":          "[]",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, Options{}); err == nil {
			t.Errorf("%s: the store opens", name)
		}
		if _, ok := s.Verify(b); ok {
			t.Errorf("%s: a device is recognised", name)
		}
		if _, _, err := s.Mint(t.Context(), "B", browserhost.DefaultScopes()); err == nil {
			t.Errorf("%s: the store is written over", name)
		}
		if now, _ := os.ReadFile(path); string(now) != content {
			t.Errorf("%s: the file changed", name)
		}
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Verify(b); !ok {
		t.Error("a repaired store recognises nobody")
	}
}

// A file that vanishes takes every device with it.
func TestVanishedStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pairings.json")
	s := open(t, path)
	_, b := mint(t, s, "Ada's agent")
	told := 0
	s.OnRevoke(func(browserhost.DeviceID) { told++ })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Verify(b); ok || told != 1 {
		t.Fatalf("recognised %v, told %d", ok, told)
	}
}

// K7: without a keychain no device comes to be, and one can still be removed.
func TestCanMintDecides(t *testing.T) {
	refuse := false
	s, err := Open("", Options{CanMint: func(context.Context) error {
		if refuse {
			return browserhost.Errorf(browserhost.CodeKeyring, "no keychain")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	d, _ := mint(t, s, "A")
	refuse = true
	if _, _, err := s.Mint(t.Context(), "B", browserhost.DefaultScopes()); browserhost.CodeOf(err) != browserhost.CodeKeyring {
		t.Fatalf("Mint without a keychain: %v", err)
	}
	if err := s.Revoke(t.Context(), d.ID); err != nil || len(s.List()) != 0 {
		t.Fatalf("Revoke without a keychain: %v", err)
	}
}

// Names reach terminals and dialogs: they are short, printable and unique (S3.7: scopes are known).
func TestMintRefuses(t *testing.T) {
	s := open(t, "")
	mint(t, s, "Ada")
	for name, c := range map[string]struct {
		name   string
		scopes []browserhost.Scope
	}{
		"no name":       {"", browserhost.DefaultScopes()},
		"only controls": {"\x00\u202e\u200b", browserhost.DefaultScopes()},
		"too long":      {strings.Repeat("é", MaxName+1), browserhost.DefaultScopes()},
		"taken":         {"ada", browserhost.DefaultScopes()},
		"an id":         {strings.Repeat("a", 32), browserhost.DefaultScopes()},
		"no scope":      {"B", nil},
		"unknown scope": {"B", []browserhost.Scope{"browser:all"}},
	} {
		if _, _, err := s.Mint(t.Context(), c.name, c.scopes); browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	d, _ := mint(t, s, " "+strings.Repeat("é", MaxName-2)+"\n\u202e b\x1b ")
	if want := strings.Repeat("é", MaxName-2) + " b"; d.Name != want {
		t.Errorf("name %q, want %q", d.Name, want)
	}
	if got, ok := s.Find(string(d.ID)); !ok || got.Name != d.Name {
		t.Errorf("Find by id: %+v %v", got, ok)
	}
	if got, ok := s.Find("ADA"); !ok || got.Name != "Ada" {
		t.Errorf("Find by name: %+v %v", got, ok)
	}
}

// The store is bounded.
func TestMintStopsAtTheBound(t *testing.T) {
	s := open(t, "")
	for i := range MaxDevices {
		mint(t, s, "agent "+strings.Repeat("i", i%50)+string(rune('A'+i/50)))
	}
	if _, _, err := s.Mint(t.Context(), "one more", browserhost.DefaultScopes()); browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
		t.Fatalf("device %d: %v", MaxDevices+1, err)
	}
}

// A write that fails changes nothing.
func TestFailedWriteChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gone", "pairings.json")
	s := open(t, path)
	if _, _, err := s.Mint(t.Context(), "A", browserhost.DefaultScopes()); err == nil || len(s.List()) != 0 {
		t.Fatalf("Mint into no directory: %v, %d devices", err, len(s.List()))
	}
}

// Being seen costs no write; Flush keeps it.
func TestFlushKeepsLastSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pairings.json")
	s := open(t, path)
	_, b := mint(t, s, "A")
	before, _ := os.ReadFile(path)
	s.Verify(b)
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Fatal("Verify wrote the file")
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if d := open(t, path).List()[0]; d.LastSeen != "2026-01-02T03:04:05.000Z" {
		t.Fatalf("last seen %q", d.LastSeen)
	}
}

// Revoke obeys its context before it changes anything.
func TestRevokeCancelled(t *testing.T) {
	s := open(t, "")
	d, b := mint(t, s, "A")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Revoke(ctx, d.ID); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, ok := s.Verify(b); !ok {
		t.Fatal("a cancelled revoke revoked")
	}
}

func FuzzBearer(f *testing.F) {
	f.Add("apd1.00112233445566778899aabbccddeeff.s6PtANeq_jNjPKX-LpjmS5lg7pDkDzN2a8mSpV7W9Pc")
	f.Add("apd1..")
	f.Fuzz(func(t *testing.T, text string) {
		id, mac, ok := parseBearer(text)
		if ok && string(bearer(id, mac)) != text {
			t.Fatalf("%q has two spellings", text)
		}
		if ok && len(text) > maxBearer {
			t.Fatalf("%d characters are accepted", len(text))
		}
	})
}

func FuzzStore(f *testing.F) {
	f.Add([]byte(`{"v":2,"localDevices":[{"fingerprint":"00112233445566778899aabbccddeeff","name":"A","role":"agent","scopes":["browser:read"],"createdAt":"2026-01-02T03:04:05.000Z","verifier":"` + strings.Repeat("ab", 32) + `"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := parse(data)
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "pairings.json")
		if _, err := write(path, records); err != nil {
			t.Fatal(err)
		}
		again, _, err := read(path)
		if err != nil || len(again) != len(records) {
			t.Fatalf("what was accepted does not survive a write: %v", err)
		}
	})
}
