package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"browserhost"
)

// strictProvider plays a provider and fails the test on anything that a real
// one could not survive: a second process of a key, a context without a way
// out of its own, cookies after a page, use after close.
type strictProvider struct {
	t        testing.TB
	id       string
	found    browserhost.Discovery
	caps     browserhost.Capabilities
	bare     bool                        // drivers lack the CookieJar ability
	launch   func(context.Context) error // before the browser is there; nil = at once
	launches atomic.Int32
	alive    sync.Map    // key → *strictBrowser
	stuck    atomic.Bool // contexts refuse to close
}

func newProvider(t testing.TB, id string) *strictProvider {
	return &strictProvider{t: t, id: id, found: browserhost.Discovery{Runnable: true, Version: "Fake 1", Path: "/private/path"},
		caps: browserhost.Capabilities{CDP: true, Cookies: true, FullPageScreenshot: true, MultiTarget: true}}
}

func (p *strictProvider) Manifest() browserhost.Manifest {
	return browserhost.Manifest{ID: p.id, Name: p.id, Location: "local", Display: []string{"headless", "headed"}, Instances: "multi", Capabilities: p.caps}
}
func (p *strictProvider) Discover(context.Context) browserhost.Discovery { return p.found }

func (p *strictProvider) Launch(ctx context.Context, o browserhost.LaunchOptions) (browserhost.Instance, error) {
	n := p.launches.Add(1)
	if o.Proxy == "" || o.Key == "" {
		p.t.Errorf("launched without a proxy or a key: %+v", o)
	}
	b := &strictBrowser{p: p, key: o.Key, boot: fmt.Sprintf("boot-%d", n), lost: make(chan struct{}), proxies: map[string]bool{o.Proxy: true}}
	b.health.Store(new(browserhost.Healthy))
	if _, twice := p.alive.LoadOrStore(o.Key, b); twice {
		p.t.Errorf("a second process of key %s", o.Key)
	}
	if p.launch != nil {
		if err := p.launch(ctx); err != nil {
			p.alive.Delete(o.Key)
			return nil, err
		}
	}
	return b, nil
}

func (p *strictProvider) browser(t *testing.T) *strictBrowser {
	t.Helper()
	var got *strictBrowser
	p.alive.Range(func(_, b any) bool { got = b.(*strictBrowser); return true })
	if got == nil {
		t.Fatal("no browser runs")
	}
	return got
}

func (p *strictProvider) running() (n int) {
	p.alive.Range(func(any, any) bool { n++; return true })
	return n
}

type strictBrowser struct {
	p       *strictProvider
	key     string
	boot    string
	health  atomic.Pointer[browserhost.State]
	lost    chan struct{}
	once    sync.Once
	why     error
	stops   atomic.Int32
	mu      sync.Mutex
	proxies map[string]bool
	drivers []*strictDriver
}

func (b *strictBrowser) BootID() string { return b.boot }
func (b *strictBrowser) Health(context.Context) browserhost.Health {
	return browserhost.Health{State: *b.health.Load(), Reason: "probe"}
}
func (b *strictBrowser) Lost() <-chan struct{} { return b.lost }
func (b *strictBrowser) LostReason() error     { return b.why }

// die is the end of the process, wanted or not.
func (b *strictBrowser) die(why error) {
	b.once.Do(func() {
		b.why = why
		b.p.alive.Delete(b.key)
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, d := range b.drivers {
			d.end("browser_lost")
		}
		close(b.lost)
	})
}

func (b *strictBrowser) Stop(context.Context, bool) (int, error) {
	first := b.stops.Add(1) == 1
	b.die(errors.New("stopped"))
	if first {
		return 2, nil
	}
	return 0, nil
}

func (b *strictBrowser) Attach(_ context.Context, o browserhost.AttachOptions) (browserhost.Driver, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o.Proxy == "" || b.proxies[o.Proxy] {
		b.p.t.Errorf("a context without a proxy of its own: %q", o.Proxy)
	}
	b.proxies[o.Proxy] = true
	d := &strictDriver{b: b, domains: o.Domains, gone: make(chan struct{})}
	b.drivers = append(b.drivers, d)
	if b.p.bare {
		return struct{ browserhost.Driver }{d}, nil
	}
	return d, nil
}

type strictDriver struct {
	b       *strictBrowser
	domains []string
	mu      sync.Mutex
	ended   bool
	gone    chan struct{}
	pages   []*strictPage
	cookies int
	slow    func(context.Context) error // before a page opens
}

func (d *strictDriver) end(why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	d.ended = true
	for _, p := range d.pages {
		p.end(why)
	}
}

func (d *strictDriver) check() error {
	if d.ended {
		return browserhost.Errorf(browserhost.CodeTargetGone, "gone").State(browserhost.NotStarted)
	}
	return nil
}

func (d *strictDriver) NewPage(ctx context.Context, url string) (browserhost.Page, browserhost.Navigation, error) {
	if d.slow != nil {
		if err := d.slow(ctx); err != nil {
			return nil, browserhost.Navigation{}, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(); err != nil {
		return nil, browserhost.Navigation{}, err
	}
	p := &strictPage{d: d, url: url, gone: make(chan struct{})}
	d.pages = append(d.pages, p)
	return p, browserhost.Navigation{URL: url, Status: 200, Loaded: true}, nil
}

func (d *strictDriver) Pages() []browserhost.Page {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []browserhost.Page
	for _, p := range d.pages {
		out = append(out, p)
	}
	return out
}

func (d *strictDriver) Close(context.Context) error {
	if d.b.p.stuck.Load() {
		return errors.New("the context does not close")
	}
	d.mu.Lock()
	err := d.check()
	d.mu.Unlock()
	d.end("context_closed")
	return err
}

func (d *strictDriver) SetCookies(_ context.Context, c []browserhost.Cookie) (browserhost.Counts, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.domains == nil {
		d.b.p.t.Error("cookies for an anonymous context")
	}
	d.cookies += len(c)
	return browserhost.Counts{Set: len(c)}, d.check()
}

func (d *strictDriver) CookiesLeft(context.Context, []string) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cookies, d.check()
}

type strictPage struct {
	d     *strictDriver
	url   string
	once  sync.Once
	gone  chan struct{}
	why   string
	click func(context.Context) (browserhost.Effect, error)
}

func (p *strictPage) end(why string)             { p.once.Do(func() { p.why = why; close(p.gone) }) }
func (p *strictPage) Info() browserhost.PageInfo { return browserhost.PageInfo{URL: p.url, Title: "T"} }
func (p *strictPage) Gone() <-chan struct{}      { return p.gone }
func (p *strictPage) GoneReason() string         { return p.why }
func (p *strictPage) Navigate(_ context.Context, url, _ string) (browserhost.Navigation, error) {
	p.url = url
	return browserhost.Navigation{URL: url, Status: 404, Loaded: true}, nil
}
func (p *strictPage) Snapshot(_ context.Context, o browserhost.SnapshotOptions) (browserhost.Snapshot, error) {
	return browserhost.Snapshot{Generation: "s1", Text: "button s1e1", Elements: 1, NextOffset: o.Offset + 11}, nil
}
func (p *strictPage) Click(ctx context.Context, _ string, _ browserhost.ClickOptions) (browserhost.Effect, error) {
	if p.click != nil {
		return p.click(ctx)
	}
	return browserhost.Effect{Settle: browserhost.Settle{Stable: true, Reason: "quiet"}}, nil
}
func (p *strictPage) InputText(_ context.Context, _ string, o browserhost.InputOptions) (browserhost.Effect, error) {
	return browserhost.Effect{Value: o.Text}, nil
}
func (p *strictPage) Screenshot(context.Context, browserhost.ScreenshotOptions) (browserhost.Image, error) {
	return browserhost.Image{MIME: "image/png", Width: 1, Height: 1, Data: []byte("png")}, nil
}
func (p *strictPage) Close(context.Context) error {
	p.end("closed")
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.d.pages = slices.DeleteFunc(p.d.pages, func(q *strictPage) bool { return q == p })
	return nil
}

// strictEgress counts listeners; each URL is used once.
type strictEgress struct {
	mu   sync.Mutex
	next int
	open map[string]browserhost.EgressRules
}

func (e *strictEgress) Open(r browserhost.EgressRules) (browserhost.EgressPort, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		e.open = map[string]browserhost.EgressRules{}
	}
	e.next++
	url := fmt.Sprintf("http://127.0.0.1:%d", 20000+e.next)
	e.open[url] = r
	return &strictPort{e, url}, nil
}

func (e *strictEgress) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.open)
}

type strictPort struct {
	e   *strictEgress
	url string
}

func (p *strictPort) URL() string { return p.url }
func (p *strictPort) Close() error {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	if _, ok := p.e.open[p.url]; !ok {
		return errors.New("closed twice")
	}
	delete(p.e.open, p.url)
	return nil
}

const (
	ada  browserhost.DeviceID = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	otto browserhost.DeviceID = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// rig is a fleet on strict fakes. Close is called and checked at the end.
type rig struct {
	*Fleet
	t        testing.TB
	provider *strictProvider
	egress   *strictEgress
}

func newRig(t testing.TB, more ...browserhost.Provider) *rig {
	p, e := newProvider(t, "chrome"), &strictEgress{}
	r := &rig{New(Options{Providers: append([]browserhost.Provider{p}, more...), Egress: e, HostID: "host"}), t, p, e}
	return r
}

func (r *rig) close() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := r.Close(ctx); err != nil {
		r.t.Errorf("Close: %v", err)
	}
	if n := r.provider.running(); n != 0 {
		r.t.Errorf("%d browsers run after Close", n)
	}
	if n := r.egress.count(); n != 0 {
		r.t.Errorf("%d egress listeners are open after Close", n)
	}
}

func agent(d browserhost.DeviceID) browserhost.Actor {
	return browserhost.Actor{Kind: browserhost.Agent, Device: d, Scopes: browserhost.DefaultScopes()}
}

func (r *rig) do(d browserhost.DeviceID, op browserhost.Operation, a browserhost.Args) (*browserhost.Result, error) {
	return r.ServeTool(context.Background(), &browserhost.Call{Operation: op, Args: a, Actor: agent(d)})
}

func (r *rig) launch(d browserhost.DeviceID) string {
	r.t.Helper()
	res, err := r.do(d, browserhost.OpLaunch, browserhost.Args{})
	if err != nil {
		r.t.Fatalf("launch: %v", err)
	}
	return res.Value.(Launched).BrowserID
}

func lent(d browserhost.DeviceID, sites ...string) *browserhost.Material {
	return &browserhost.Material{Device: d, Grants: []browserhost.GrantID{"grant_1"}, Domains: sites, Cookies: []browserhost.Cookie{{Name: "sid", Value: "canary", Domain: sites[0]}}}
}

func (r *rig) signIn(d browserhost.DeviceID, sites ...string) Launched {
	r.t.Helper()
	res, err := r.ServeTool(context.Background(), &browserhost.Call{Operation: browserhost.OpLaunch, Args: browserhost.Args{SignedIn: true}, Actor: agent(d), Material: lent(d, sites...)})
	if err != nil {
		r.t.Fatalf("signed-in launch: %v", err)
	}
	return res.Value.(Launched)
}

func (r *rig) newPage(d browserhost.DeviceID, b, url string) string {
	r.t.Helper()
	res, err := r.do(d, browserhost.OpNewPage, browserhost.Args{BrowserID: b, URL: url})
	if err != nil {
		r.t.Fatalf("new_page: %v", err)
	}
	return res.Value.(Acted).PageID
}

func (r *rig) driver(signedIn bool) *strictDriver {
	r.t.Helper()
	var got *strictDriver
	r.provider.alive.Range(func(_, v any) bool {
		for _, d := range v.(*strictBrowser).drivers {
			if (d.domains != nil) == signedIn && !d.ended {
				got = d
			}
		}
		return true
	})
	if got == nil {
		r.t.Fatal("no such context")
	}
	return got
}

// wants fails the test unless err has the code, and returns it.
func wants(t testing.TB, err error, code browserhost.Code) *browserhost.Error {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", code)
	}
	e := browserhost.AsError(err)
	if e.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return e
}
