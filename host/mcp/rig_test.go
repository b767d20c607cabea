package mcp

import (
	"context"
	"encoding/json/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"browserhost"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ada  browserhost.DeviceID = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	otto browserhost.DeviceID = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// rig is a handler behind a stand-in for the guard, on a real socket: the
// bearer is the device's id.
type rig struct {
	t   testing.TB
	h   *Handler
	srv *httptest.Server

	deaf    bool // clients do not listen between calls
	mu      sync.Mutex
	scopes  []browserhost.Scope
	serve   func(context.Context, *browserhost.Call) (*browserhost.Result, error)
	calls   []*browserhost.Call
	refused []*browserhost.Call
	notes   []Note
	paths   []string // "POST session", as the server saw them
}

func newRig(t testing.TB, opts Options) *rig {
	r := &rig{t: t, scopes: browserhost.AllScopes()}
	opts.Line = browserhost.HandlerFunc(func(ctx context.Context, c *browserhost.Call) (*browserhost.Result, error) {
		r.mu.Lock()
		r.calls = append(r.calls, c)
		serve := r.serve
		r.mu.Unlock()
		if serve == nil {
			return &browserhost.Result{Value: map[string]any{"for": c.Actor.Device}}, nil
		}
		return serve(ctx, c)
	})
	opts.Refused = func(_ context.Context, c *browserhost.Call, err error) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused = append(r.refused, c)
		return err
	}
	opts.Note = func(_ context.Context, n Note) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notes = append(r.notes, n)
	}
	opts.Version = "1"
	r.h = New(opts)
	r.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.paths = append(r.paths, req.Method+" "+req.Header.Get("Mcp-Session-Id"))
		scopes := slices.Clone(r.scopes)
		r.mu.Unlock()
		device := browserhost.DeviceID(strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "))
		if !device.Valid() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		actor := browserhost.Actor{Kind: browserhost.Agent, Device: device, Via: "mcp", Scopes: scopes}
		r.h.ServeHTTP(w, req.WithContext(browserhost.WithActor(req.Context(), actor)))
	}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := r.h.Close(ctx); err != nil {
			t.Error(err)
		}
		r.srv.Close()
	})
	return r
}

func (r *rig) grant(scopes ...browserhost.Scope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scopes = scopes
}

func (r *rig) answer(f func(context.Context, *browserhost.Call) (*browserhost.Result, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serve = f
}

type bearing struct {
	device browserhost.DeviceID
	next   *http.Transport
}

func (b bearing) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+string(b.device))
	return b.next.RoundTrip(req)
}

// connect opens a session with the SDK's own client; version "" is the newest.
func (r *rig) connect(device browserhost.DeviceID, version string, opts *sdk.ClientOptions) *sdk.ClientSession {
	r.t.Helper()
	transport := &http.Transport{}
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts)
	s, err := client.Connect(r.t.Context(), &sdk.StreamableClientTransport{
		Endpoint: r.srv.URL, HTTPClient: &http.Client{Transport: bearing{device, transport}}, MaxRetries: -1, DisableStandaloneSSE: r.deaf,
	}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { s.Close(); transport.CloseIdleConnections() })
	return s
}

// revisions are a client of each kind: one that needs no session, and older ones.
var revisions = []string{"", "2025-11-25", "2025-06-18"}

func call(t testing.TB, s *sdk.ClientSession, tool string, args any) *sdk.CallToolResult {
	t.Helper()
	res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// text is a value as JSON with its members in order.
func text(v any) string {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err.Error()
	}
	return string(b)
}
