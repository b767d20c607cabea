package widen

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"browserhost"
	"browserhost/consent/chain"
	"browserhost/consent/extract"
	"browserhost/consent/jar"
	"browserhost/consent/keychain"
	"browserhost/consent/ledger"
	"browserhost/consent/narrow"
)

func TestMain(m *testing.M) {
	flag.Set("rapid.checks", "20") // each makes grants on a disk; the command line may ask for more
	goleak.VerifyTestMain(m)
}

const (
	canary   = "canary-3f60-widen"
	password = browserhost.Secret("BBBBBBBBBBBBBBBBBBBBBB==")
)

var (
	ada  = browserhost.DeviceID(strings.Repeat("a1", 16))
	otto = browserhost.DeviceID(strings.Repeat("07", 16))

	theOwner = browserhost.Actor{Kind: browserhost.Human, Via: "desk"}
	now      = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
)

func agent(d browserhost.DeviceID) browserhost.Actor {
	return browserhost.Actor{Kind: browserhost.Agent, Device: d, Via: "mcp"}
}

// row is one cookie in the owner's browser.
type row struct {
	host, name, value string
	scheme            string // "v10" when empty
}

// profile writes a cookie database as Chromium does (schema 24).
func profile(t testing.TB, browser, name string, rows ...row) extract.Profile {
	t.Helper()
	script, err := os.ReadFile("../browserdb/testdata/cookies24.sql")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "Cookies")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), string(script)); err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		if _, err := db.ExecContext(t.Context(), "INSERT INTO cookies VALUES(?,?,'',?,'',?,'/',0,1,1,0,0,0,1,-1,2,443,0,0,0)", i, r.host, r.name, encrypt(t, r)); err != nil {
			t.Fatal(err)
		}
	}
	return extract.Profile{Browser: browser, Name: name, Dir: dir, Cookies: path}
}

func encrypt(t testing.TB, r row) []byte {
	t.Helper()
	secret := "peanuts"
	switch r.scheme {
	case "":
		r.scheme = "v10"
	case "v11":
		secret = string(password)
	case "v20":
		return []byte("v20" + r.value)
	}
	key, err := pbkdf2.Key(sha1.New, secret, []byte("saltysalt"), 1, 16)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(r.host))
	plain := append(sum[:], r.value...)
	n := aes.BlockSize - len(plain)%aes.BlockSize
	plain = append(plain, bytes.Repeat([]byte{byte(n)}, n)...)
	cipher.NewCBCEncrypter(block, bytes.Repeat([]byte{' '}, aes.BlockSize)).CryptBlocks(plain, plain)
	return append([]byte(r.scheme), plain...)
}

// world counts every call that leaves the package, and can make one of them
// fail, or be the last thing that the host did.
type world struct {
	mu    sync.Mutex
	calls int
	at    int
	late  bool
	die   bool
	seen  []string
}

var errBroken = fmt.Errorf("broken: %s", canary)

func (w *world) step(name string, effect func() error) error {
	w.mu.Lock()
	w.calls++
	w.seen = append(w.seen, name)
	wrong, late, die := w.calls == w.at, w.late, w.die
	w.mu.Unlock()
	if !wrong {
		return effect()
	}
	if late {
		if err := effect(); err != nil {
			return err
		}
	}
	if die {
		runtime.Goexit()
	}
	return errBroken
}

func (w *world) arm(n int, late, die bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls, w.at, w.late, w.die, w.seen = 0, n, late, die, nil
}

func (w *world) struck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at > 0 && w.calls >= w.at
}

// order is what was called so far.
func (w *world) order() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

type keys struct {
	*keychain.Vault
	*world
	locked bool
}

var errLocked = browserhost.Errorf(browserhost.CodeKeyring, "the keychain is locked")

func (k *keys) Get(ctx context.Context, name string) (s browserhost.Secret, err error) {
	err = k.step("keychain get", func() (err error) {
		if k.locked {
			return errLocked
		}
		s, err = k.Vault.Get(ctx, name)
		return err
	})
	return s, err
}

func (k *keys) Set(ctx context.Context, name string, v browserhost.Secret) error {
	return k.step("keychain set", func() error { return k.Vault.Set(ctx, name, v) })
}

func (k *keys) MAC(ctx context.Context, label string, data []byte) (b []byte, err error) {
	err = k.step("mac", func() (err error) {
		if k.locked {
			return errLocked
		}
		b, err = k.Vault.MAC(ctx, label, data)
		return err
	})
	return b, err
}

type rows struct {
	*chain.File
	*world
}

func (r *rows) Append(ctx context.Context, v any) (seq int64, hash string, err error) {
	err = r.step("append", func() (err error) { seq, hash, err = r.File.Append(ctx, v); return err })
	return seq, hash, err
}

func (r *rows) Durable(ctx context.Context) error {
	return r.step("fsync", func() error { return r.File.Durable(ctx) })
}

// ring is the keyring of the owner's browser.
type ring struct {
	*world
	locked bool
}

func (k *ring) Passwords(context.Context, string) (p extract.Passwords, err error) {
	err = k.step("keyring", func() error {
		p = extract.Passwords{Found: []browserhost.Secret{password}}
		if k.locked {
			p = extract.Passwords{Locked: true}
		}
		return nil
	})
	return p, err
}

// browsers is the fleet: what is set in the sessions that are open.
type browsers struct {
	*world
	mu   sync.Mutex
	open map[browserhost.DeviceID][]browserhost.Material
}

func (b *browsers) Seed(_ context.Context, m browserhost.Material) (c browserhost.Counts, err error) {
	err = b.step("seed", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, ok := b.open[m.Device]; ok {
			b.open[m.Device] = append(b.open[m.Device], m)
			c.Set = len(m.Cookies)
		}
		return nil
	})
	return c, err
}

func (b *browsers) Evict(_ context.Context, d browserhost.DeviceID, _ string) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.open[d])
	delete(b.open, d)
	return n, nil
}

// rig is the whole of consent over one state directory: the owner's half and
// the agents' half, real but for the keychain's failures and the browsers.
type rig struct {
	*Widener
	t        testing.TB
	dir      string
	world    *world
	keys     *keys
	ring     *ring
	chain    *chain.File
	jar      *jar.Jar
	warm     *browsers
	lender   *narrow.Lender
	profiles []extract.Profile
}

func newRig(t testing.TB, profiles ...extract.Profile) *rig {
	t.Helper()
	w := &world{}
	r := &rig{t: t, dir: t.TempDir(), world: w, ring: &ring{world: w}, profiles: profiles}
	r.keys = &keys{Vault: keychain.Open(keychain.Options{Store: keychain.Memory}), world: w}
	r.reopen()
	t.Cleanup(func() { r.chain.Close() })
	return r
}

func (r *rig) book() string { return filepath.Join(r.dir, "consent.jsonl") }

// reopen starts the host anew over what is on the disk.
func (r *rig) reopen() {
	r.t.Helper()
	r.world.arm(0, false, false)
	if r.chain != nil {
		r.chain.Close()
	}
	var err error
	if r.chain, _, err = chain.Open(r.t.Context(), r.book(), chain.Options{Keys: r.keys.Vault, Label: "consent"}); err != nil {
		r.t.Fatal(err)
	}
	if r.jar, err = jar.Open(r.dir, r.keys); err != nil {
		r.t.Fatal(err)
	}
	clock := func() time.Time { return now }
	l := ledger.New(&rows{r.chain, r.world})
	r.warm = &browsers{world: r.world, open: map[browserhost.DeviceID][]browserhost.Material{}}
	r.lender = narrow.New(narrow.Options{Ledger: l, LedgerPath: r.book(), Jar: r.jar, Warm: r.warm, Now: clock})
	r.Widener = New(Options{
		Ledger: l, Jar: r.jar, Keys: r.keys, Warm: r.lender, Secrets: r.ring, Now: clock,
		Profiles: func() []extract.Profile { return r.profiles },
	})
}

func (r *rig) records() []ledger.Record {
	r.t.Helper()
	var all []ledger.Record
	for rec, err := range ledger.Read(r.t.Context(), r.book()) {
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

// events is the ledger in short.
func (r *rig) events() string {
	var all []string
	for _, rec := range r.records() {
		all = append(all, string(rec.Event))
	}
	return strings.Join(all, " ")
}

// nothing checks that no grant came to be and nothing is sealed.
func (r *rig) nothing() {
	r.t.Helper()
	if g := r.jar.Grants(); len(g) != 0 {
		r.t.Errorf("grants %v", g)
	}
	if sealed, _ := filepath.Glob(filepath.Join(r.dir, "jar", "*.age")); len(sealed) != 0 {
		r.t.Errorf("sealed %v", sealed)
	}
	r.noCanary()
}

// noCanary searches the state directory for a cookie's value.
func (r *rig) noCanary() {
	r.t.Helper()
	err := filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the head of the chain is being replaced
		}
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if bytes.Contains(text, []byte(canary)) {
			r.t.Errorf("%s holds a value (AIP-63 C9)", filepath.Base(path))
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func wants(t testing.TB, err error, code browserhost.Code) *browserhost.Error {
	t.Helper()
	e := browserhost.AsError(err)
	if e == nil || e.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	if strings.Contains(fmt.Sprint(e, e.Cause), canary) {
		t.Errorf("the error holds what it must not: %v %v", e, e.Cause)
	}
	return e
}
