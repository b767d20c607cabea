package narrow

import (
	"context"
	"fmt"
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
	"browserhost/consent/jar"
	"browserhost/consent/keychain"
	"browserhost/consent/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "canary-9d03-narrow"

var (
	ada  = browserhost.DeviceID(strings.Repeat("a1", 16))
	otto = browserhost.DeviceID(strings.Repeat("07", 16))

	theOwner = browserhost.Actor{Kind: browserhost.Human, Via: "desk"}
	start    = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
)

func agent(d browserhost.DeviceID) browserhost.Actor {
	return browserhost.Actor{Kind: browserhost.Agent, Device: d, Via: "mcp"}
}

// world counts every call that leaves the package, and can make one of them
// fail, or be the last thing that the host did.
type world struct {
	mu    sync.Mutex
	calls int
	at    int  // the call that goes wrong, 0 = none
	late  bool // it has its effect all the same
	die   bool // the host ends there, instead of an error
	names []string
}

var errBroken = fmt.Errorf("broken: %s", canary)

func (w *world) step(name string, effect func() error) error {
	w.mu.Lock()
	w.calls++
	wrong, late, die := w.calls == w.at, w.late, w.die
	if w.at > 0 && w.calls <= w.at {
		w.names = append(w.names, name)
	}
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

// arm makes the nth call from now on go wrong; 0 makes none.
func (w *world) arm(n int, late, die bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls, w.at, w.late, w.die, w.names = 0, n, late, die, nil
}

func (w *world) struck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at > 0 && w.calls >= w.at
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

func (k *keys) Delete(ctx context.Context, name string) error {
	return k.step("keychain delete", func() error { return k.Vault.Delete(ctx, name) })
}

type rows struct {
	*chain.File
	*world
}

func (r *rows) Append(ctx context.Context, row any) (seq int64, hash string, err error) {
	err = r.step("append", func() (err error) { seq, hash, err = r.File.Append(ctx, row); return err })
	return seq, hash, err
}

func (r *rows) Durable(ctx context.Context) error {
	return r.step("fsync", func() error { return r.File.Durable(ctx) })
}

// browsers is what is warm: the material in each device's signed-in session.
type browsers struct {
	*world
	mu      sync.Mutex
	open    map[browserhost.DeviceID][]browserhost.Material
	evicted []browserhost.DeviceID
}

func (b *browsers) put(m browserhost.Material) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[m.Device] = append(b.open[m.Device], m)
}

func (b *browsers) Seed(_ context.Context, m browserhost.Material) (browserhost.Counts, error) {
	b.put(m)
	return browserhost.Counts{Set: len(m.Cookies)}, nil
}

func (b *browsers) Evict(_ context.Context, d browserhost.DeviceID, reason string) (pages int, err error) {
	err = b.step("evict", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if reason != "grant_revoked" {
			return fmt.Errorf("reason %q", reason)
		}
		b.evicted = append(b.evicted, d)
		pages = len(b.open[d])
		delete(b.open, d)
		return nil
	})
	return pages, err
}

// holds says whether a browser holds something of the grant.
func (b *browsers) holds(id browserhost.GrantID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, all := range b.open {
		for _, m := range all {
			if slices.Contains(m.Grants, id) {
				return true
			}
		}
	}
	return false
}

type rig struct {
	*Lender
	t     testing.TB
	dir   string
	world *world
	keys  *keys
	chain *chain.File
	warm  *browsers
	now   time.Time
	clock sync.Mutex
}

func newRig(t testing.TB) *rig {
	t.Helper()
	w := &world{}
	r := &rig{t: t, dir: t.TempDir(), world: w, now: start}
	r.keys = &keys{Vault: keychain.Open(keychain.Options{Store: keychain.Memory}), world: w}
	r.reopen()
	t.Cleanup(func() { r.chain.Close() })
	return r
}

// reopen starts the host anew over what is on the disk; browsers and everything
// in memory are gone.
func (r *rig) reopen() {
	r.t.Helper()
	r.world.arm(0, false, false)
	if r.chain != nil {
		r.chain.Close()
	}
	f, _, err := chain.Open(r.t.Context(), r.book(), chain.Options{Keys: r.keys, Label: "consent"})
	if err != nil {
		r.t.Fatal(err)
	}
	j, err := jar.Open(r.dir, r.keys)
	if err != nil {
		r.t.Fatal(err)
	}
	r.chain, r.warm = f, &browsers{world: r.world, open: map[browserhost.DeviceID][]browserhost.Material{}}
	r.Lender = New(Options{
		Ledger: ledger.New(&rows{f, r.world}), LedgerPath: r.book(), Jar: j, Warm: r.warm,
		Now: func() time.Time { r.clock.Lock(); defer r.clock.Unlock(); return r.now },
	})
}

func (r *rig) book() string { return filepath.Join(r.dir, "consent.jsonl") }

func (r *rig) pass(d time.Duration) {
	r.clock.Lock()
	defer r.clock.Unlock()
	r.now = r.now.Add(d)
}

// give makes a grant as consent/widen does: its row, its file, its record.
func (r *rig) give(id string, device browserhost.DeviceID, change ...func(*browserhost.Grant)) browserhost.GrantID {
	r.t.Helper()
	g := browserhost.Grant{
		ID: browserhost.GrantID(id), SessionID: "main", DeviceID: device,
		Source: browserhost.GrantSource{Kind: "chrome", Profile: "Default"}, Domains: []string{"shop.test"},
		Sinks: []browserhost.Sink{{Kind: "local"}}, GrantedAt: browserhost.FormatTime(r.now), GrantedVia: "interactive", CookieCount: 1,
	}
	for _, c := range change {
		c(&g)
	}
	ctx := r.t.Context()
	var cookies []browserhost.Cookie
	for _, d := range g.Domains {
		cookies = append(cookies, browserhost.Cookie{Name: "sid", Value: browserhost.Secret(canary + id), Domain: "." + d, Path: "/"})
	}
	_, err := r.opts.Ledger.Append(ctx, ledger.Record{
		Event: ledger.Grant, Actor: ledger.ActorOf(theOwner), GrantID: g.ID, SessionID: "main", Domains: g.Domains, CookieCount: new(1),
	})
	if err == nil {
		err = r.opts.Jar.Seal(ctx, g, cookies)
	}
	if err == nil {
		err = r.opts.Jar.Put(ctx, g)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return g.ID
}

func sites(names ...string) func(*browserhost.Grant) {
	return func(g *browserhost.Grant) { g.Domains = names }
}

func ends(t time.Time) func(*browserhost.Grant) {
	return func(g *browserhost.Grant) { g.ExpiresAt = browserhost.FormatTime(t) }
}

// lend opens a signed-in session in the fake browser.
func (r *rig) lend(device browserhost.DeviceID, sites ...string) (m browserhost.Material, err error) {
	err = r.Lend(r.t.Context(), device, sites, func(_ context.Context, lent browserhost.Material) error {
		m = lent
		r.warm.put(lent)
		return nil
	})
	return m, err
}

// records reads the ledger.
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

func (r *rig) revokes(id browserhost.GrantID) (all []ledger.Record) {
	for _, rec := range r.records() {
		if rec.Event == ledger.Revoke && rec.GrantID == id {
			all = append(all, rec)
		}
	}
	return all
}

// gone checks that nothing of a grant is left anywhere, and that this is
// written down once.
func (r *rig) gone(id browserhost.GrantID) {
	r.t.Helper()
	if g, _ := r.opts.Jar.Grant(id); g.RevokedAt == "" {
		r.t.Error("the grant is active")
	}
	if r.opts.Jar.Sealed(id) {
		r.t.Error("its cookies are on the disk")
	}
	if r.warm.holds(id) {
		r.t.Error("its cookies are in a browser")
	}
	if n := len(r.revokes(id)); n != 1 {
		r.t.Errorf("%d revoke rows, want one", n)
	}
	report, err := chain.Verify(r.t.Context(), r.book(), chain.Options{Keys: r.keys, Label: "consent"})
	if err != nil || !report.OK() {
		r.t.Errorf("the ledger does not verify: %+v, %v", report, err)
	}
}

func wants(t testing.TB, err error, code browserhost.Code) *browserhost.Error {
	t.Helper()
	e := browserhost.AsError(err)
	if e == nil || e.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	if strings.Contains(e.Error(), canary) {
		t.Errorf("the error shows what failed inside: %v", e)
	}
	return e
}

func write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
