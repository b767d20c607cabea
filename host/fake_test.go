package host_test

import (
	"context"
	"encoding/json/v2"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"browserhost"
	"browserhost/host"
	"browserhost/host/activity"
	"browserhost/host/fleet"
	"browserhost/host/guard"
	"browserhost/host/policy"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ada    = browserhost.DeviceID("0123456789abcdef0123456789abcdef")
	bearer = "apd1.0123456789abcdef0123456789abcdef.mac"
)

// browser plays a provider, its one instance, its one context and its one
// page. It counts what is asked of it and lets a test look from inside.
type browser struct {
	gone  chan struct{}
	once  sync.Once
	mu    sync.Mutex
	asked []string
	click func(ctx context.Context) error // while a click is under way
}

func (b *browser) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, what)
}

// effects are the things that changed something, in order.
func (b *browser) effects() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.asked, " ")
}

func (b *browser) Manifest() browserhost.Manifest {
	return browserhost.Manifest{ID: "chrome", Name: "Fake", Location: "local", Display: []string{"headless"}}
}
func (b *browser) Discover(context.Context) browserhost.Discovery {
	return browserhost.Discovery{Runnable: true, Version: "Fake 1", Path: "/private/path"}
}
func (b *browser) Launch(context.Context, browserhost.LaunchOptions) (browserhost.Instance, error) {
	b.note("launch")
	return b, nil
}
func (b *browser) BootID() string { return "boot" }
func (b *browser) Health(context.Context) browserhost.Health {
	return browserhost.Health{State: browserhost.Healthy}
}
func (b *browser) Attach(context.Context, browserhost.AttachOptions) (browserhost.Driver, error) {
	b.note("attach")
	return driver{b}, nil
}
func (b *browser) Stop(context.Context, bool) (int, error) {
	b.once.Do(func() { close(b.gone) })
	return 0, nil
}
func (b *browser) Lost() <-chan struct{} { return b.gone }
func (b *browser) LostReason() error     { return nil }

type driver struct{ b *browser }

func (d driver) NewPage(_ context.Context, url string) (browserhost.Page, browserhost.Navigation, error) {
	d.b.note("new_page")
	return page(d), browserhost.Navigation{URL: url}, nil
}
func (d driver) Pages() []browserhost.Page   { return nil }
func (d driver) Close(context.Context) error { return nil }

type page struct{ b *browser }

func (p page) Info() browserhost.PageInfo { return browserhost.PageInfo{URL: "https://shop.test/"} }
func (p page) Navigate(context.Context, string, string) (browserhost.Navigation, error) {
	p.b.note("navigate")
	return browserhost.Navigation{Loaded: true}, nil
}
func (p page) Snapshot(context.Context, browserhost.SnapshotOptions) (browserhost.Snapshot, error) {
	return browserhost.Snapshot{Generation: "s1", Text: "button s1e1"}, nil
}
func (p page) Click(ctx context.Context, _ string, _ browserhost.ClickOptions) (browserhost.Effect, error) {
	p.b.note("click")
	p.b.mu.Lock()
	click := p.b.click
	p.b.mu.Unlock()
	if click != nil {
		return browserhost.Effect{}, click(ctx)
	}
	return browserhost.Effect{}, nil
}
func (p page) InputText(context.Context, string, browserhost.InputOptions) (browserhost.Effect, error) {
	p.b.note("input_text")
	return browserhost.Effect{}, nil
}
func (p page) Screenshot(context.Context, browserhost.ScreenshotOptions) (browserhost.Image, error) {
	return browserhost.Image{MIME: "image/png", Width: 1, Height: 1, Data: []byte("png")}, nil
}
func (p page) Close(context.Context) error { return nil }
func (p page) Gone() <-chan struct{}       { return p.b.gone }
func (p page) GoneReason() string          { return "closed" }

// egress gives each context a way out that leads nowhere.
type egress struct{}

func (egress) Open(browserhost.EgressRules) (browserhost.EgressPort, error) { return egress{}, nil }
func (egress) URL() string                                                  { return "http://127.0.0.1:9" }
func (egress) Close() error                                                 { return nil }

// tape is the chained file in memory.
type tape struct {
	mu   sync.Mutex
	rows []activity.Row
}

func (f *tape) Append(_ context.Context, row any) (int64, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows = append(f.rows, row.(activity.Row))
	return int64(len(f.rows)), "", nil
}
func (f *tape) Durable(context.Context) error { return nil }

// take returns the rows since the last time.
func (f *tape) take() []activity.Row {
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := f.rows
	f.rows = nil
	return rows
}

// gate stands in for consent's link: it passes everything on.
func gate(next browserhost.Handler) browserhost.Handler {
	return browserhost.HandlerFunc(func(ctx context.Context, call *browserhost.Call) (*browserhost.Result, error) {
		return next.ServeTool(ctx, call)
	})
}

// house is a whole host on a real socket, with a fake browser at its end.
type house struct {
	t       *testing.T
	url     string
	browser *browser
	tape    *tape
	door    *host.Host
	client  *http.Client
	stop    func() error // ends Serve, once
}

func build(t *testing.T) *house {
	h := &house{t: t, browser: &browser{gone: make(chan struct{})}, tape: &tape{}, client: &http.Client{Transport: &http.Transport{}}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.url = "http://" + l.Addr().String()
	recorder := activity.New(activity.Options{Rows: h.tape})
	end := fleet.New(fleet.Options{Providers: []browserhost.Provider{h.browser}, Egress: egress{}, HostID: "test"})
	door := host.New(host.Options{
		Guard: guard.Options{Hosts: []string{l.Addr().String()}, Verify: func(b string) (browserhost.Device, bool) {
			return browserhost.Device{ID: ada, Name: "Ada's agent", Role: "agent", Scopes: browserhost.DefaultScopes()}, b == bearer
		}},
		Recorder: recorder, Limiter: policy.NewLimiter(policy.LimiterOptions{Scale: 1}), Gate: gate, Fleet: end,
		Providers: func(ctx context.Context, a browserhost.Actor) any { return end.Providers(ctx, a) },
		Version:   "1",
	})
	h.door = door
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- door.Serve(ctx, l) }()
	h.stop = sync.OnceValue(func() error { cancel(); return <-served })
	t.Cleanup(func() {
		h.client.CloseIdleConnections()
		if err := h.stop(); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := end.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := recorder.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// ask sends a request with the bearer; edit may change it.
func (h *house) ask(method, path, body string, edit func(*http.Request)) (*http.Response, string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	if edit != nil {
		edit(req)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp, string(text)
}

// answer is what the tests read of an envelope.
type answer struct {
	OK    bool `json:"ok"`
	Value struct {
		BrowserID string `json:"browser_id"`
		PageID    string `json:"page_id"`
		Execution string `json:"execution_state"`
	} `json:"value"`
	Error struct {
		Code  browserhost.Code `json:"code"`
		Cause struct {
			Field     string                `json:"field"`
			Execution browserhost.Execution `json:"execution_state"`
		} `json:"cause"`
	} `json:"error"`
}

func (h *house) act(body string) answer {
	h.t.Helper()
	_, text := h.ask("POST", "/v1/tools/browser_act", body, nil)
	return parse(h.t, text)
}

func parse(t *testing.T, text string) answer {
	t.Helper()
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return a
}

// open launches and opens a page.
func (h *house) open() (pageID string) {
	h.t.Helper()
	b := h.act(`{"action":"launch"}`)
	p := h.act(`{"action":"new_page","browser_id":"` + b.Value.BrowserID + `"}`)
	if p.Value.PageID == "" {
		h.t.Fatalf("no page: %+v, %+v", b, p)
	}
	h.tape.take()
	return p.Value.PageID
}
