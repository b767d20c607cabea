package mcp

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"io"
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

// A call reaches the line as what it means, from a client of each revision,
// and its value comes back as structured content and as text.
func TestCall(t *testing.T) {
	for _, version := range revisions {
		r := newRig(t, Options{})
		s := r.connect(ada, version, nil)
		res := call(t, s, "browser_act", map[string]any{"action": "click", "page_id": "p1", "element_id": "s1e3"})
		want := `{"for":"` + string(ada) + `"}`
		if res.IsError || text(res.StructuredContent) != want || len(res.Content) != 1 || res.Content[0].(*sdk.TextContent).Text != want {
			t.Errorf("%s: %s", version, text(res))
		}
		if len(r.calls) != 1 {
			t.Fatalf("%s: %d calls", version, len(r.calls))
		}
		c := r.calls[0]
		if c.ID == "" || c.Tool != "browser_act" || c.Operation != browserhost.OpClick || c.Args.ElementID != "s1e3" || len(c.Raw) == 0 ||
			c.Actor.Device != ada || c.Door != "mcp" || c.Material != nil || (c.Run != "") != (version != "") {
			t.Errorf("%s: %+v", version, c)
		}
	}
}

// Every error of a tool is a result that the model reads: the envelope, with
// what is safe in it (AIP-63 T3, C9). Nothing refused reaches the line, and
// each refused call is told to whoever records.
func TestErrors(t *testing.T) {
	r := newRig(t, Options{})
	r.answer(func(_ context.Context, c *browserhost.Call) (*browserhost.Result, error) {
		switch c.Operation {
		case browserhost.OpLaunch:
			return nil, browserhost.Errorf(browserhost.CodeConsentRequired, "ask").With("domain", "shop.test").State(browserhost.NotStarted)
		case browserhost.OpPages:
			return nil, errors.New("canary /home/ada")
		case browserhost.OpBrowsers:
			return nil, nil
		}
		return nil, browserhost.Errorf(browserhost.CodeBusy, "x").With("f", func() {})
	})
	s := r.connect(ada, "", nil)
	for _, c := range []struct {
		tool    string
		args    any
		want    string
		refused bool
	}{
		{"browser_fly", map[string]any{}, `"code":"not_found"`, true},
		{"browser_act", map[string]any{"action": "launch", "wsUrl": "ws://x"}, `{"error":{"cause":{"execution_state":"not_started","field":"wsUrl"},"code":"input_invalid"`, true},
		{"browser_act", map[string]any{"action": "input_text", "text": strings.Repeat("a", browserhost.MaxArgs)}, `"code":"input_invalid"`, true},
		{"browser_act", map[string]any{"action": "launch"}, `{"error":{"cause":{"domain":"shop.test","execution_state":"not_started"},"code":"browser:consent_required","message":"ask","retryable":false},"ok":false}`, false},
		{"browser_observe", map[string]any{"action": "pages"}, `"code":"internal"`, false},
		{"browser_observe", map[string]any{"action": "browsers"}, `"code":"internal"`, false},
		{"browser_observe", map[string]any{"action": "targets"}, `"code":"internal"`, false},
	} {
		r.mu.Lock()
		r.calls, r.refused = nil, nil
		r.mu.Unlock()
		res := call(t, s, c.tool, c.args)
		got := text(res.StructuredContent)
		var inText any
		if err := json.Unmarshal([]byte(res.Content[0].(*sdk.TextContent).Text), &inText); err != nil || text(inText) != got {
			t.Errorf("%s: the text differs: %s", c.tool, text(res))
		}
		if !res.IsError || !strings.Contains(got, c.want) || strings.Contains(text(res), "canary") {
			t.Errorf("%s %.60v: %s", c.tool, c.args, got)
		}
		if len(r.calls)+len(r.refused) != 1 || (len(r.refused) == 1) != c.refused {
			t.Errorf("%s %.60v: %d calls, %d refused", c.tool, c.args, len(r.calls), len(r.refused))
		}
	}
}

// S3.35: a picture is an image block; its base64 is in no structured content.
func TestPicture(t *testing.T) {
	r := newRig(t, Options{})
	png := []byte("\x89PNG picture")
	r.answer(func(context.Context, *browserhost.Call) (*browserhost.Result, error) {
		return &browserhost.Result{Value: map[string]any{"mime": "image/png", "width": 2, "height": 1, "bytes": len(png)},
			Image: &browserhost.Image{MIME: "image/png", Width: 2, Height: 1, Data: png}}, nil
	})
	res := call(t, r.connect(ada, "", nil), "browser_observe", map[string]any{"action": "screenshot", "page_id": "p1"})
	if want := `{"bytes":12,"content_delivery":"mcp_image","height":1,"mime":"image/png","width":2}`; text(res.StructuredContent) != want {
		t.Errorf("%s", text(res.StructuredContent))
	}
	img, ok := res.Content[0].(*sdk.ImageContent)
	if !ok || img.MIMEType != "image/png" || !bytes.Equal(img.Data, png) || len(res.Content) != 2 {
		t.Errorf("%s", text(res))
	}
}

// Contract B: the whole answer, both copies of the value counted, is at most
// MaxAnswer; of an effect it says that it happened.
func TestAnswerBound(t *testing.T) {
	const fixed = len(`{"t":""}`) + len(`"{\"t\":\"\"}"`)
	for extra, ok := range []bool{true, false} {
		n := (browserhost.MaxAnswer-fixed)/2 + extra
		res, err := frame(&browserhost.Result{Value: map[string]any{"t": strings.Repeat("a", n)}})
		if (err == nil) != ok || ok && res == nil {
			t.Errorf("%d: %v", n, err)
		}
	}
	r := newRig(t, Options{})
	r.answer(func(context.Context, *browserhost.Call) (*browserhost.Result, error) {
		return &browserhost.Result{Value: map[string]any{"t": strings.Repeat("a", browserhost.MaxAnswer/2)}}, nil
	})
	res := call(t, r.connect(ada, "", nil), "browser_act", map[string]any{"action": "close_page", "page_id": "p1"})
	if !strings.Contains(text(res.StructuredContent), `{"execution_state":"completed"},"code":"upstream_error"`) {
		t.Errorf("%.200s", text(res.StructuredContent))
	}
}

// K22, S3.9: a client sees the tools of its device's scopes, as they are at
// that moment, with hints; the whole listing stays small.
func TestTools(t *testing.T) {
	for _, version := range revisions {
		r := newRig(t, Options{})
		r.grant(browserhost.ScopeRead)
		s := r.connect(ada, version, nil)
		res, err := s.ListTools(t.Context(), nil)
		if err != nil || len(res.Tools) != 1 || res.Tools[0].Name != "browser_observe" {
			t.Fatalf("%s: %v %s", version, err, text(res))
		}
		r.grant(browserhost.DefaultScopes()...)
		if res, err = s.ListTools(t.Context(), nil); err != nil || len(res.Tools) != len(browserhost.Tools) {
			t.Fatalf("%s: %v %s", version, err, text(res))
		}
		hints := map[string]string{}
		for _, tool := range res.Tools {
			hints[tool.Name] = text(tool.Annotations)
			if tool.Description == "" || tool.InputSchema.(map[string]any)["additionalProperties"] != false {
				t.Errorf("%s: %s", version, text(tool))
			}
		}
		for name, want := range map[string]string{
			"browser_observe":        `{"idempotentHint":false,"openWorldHint":true,"readOnlyHint":true}`,
			"browser_act":            `{"destructiveHint":true,"idempotentHint":false,"openWorldHint":true,"readOnlyHint":false}`,
			"request_access":         `{"destructiveHint":false,"idempotentHint":false,"openWorldHint":false,"readOnlyHint":false}`,
			"browser_profile_revoke": `{"destructiveHint":true,"idempotentHint":false,"openWorldHint":false,"readOnlyHint":false}`,
		} {
			if hints[name] != want {
				t.Errorf("%s: hints of %s: %s", version, name, hints[name])
			}
		}
		if n := len(text(res.Tools)); n > 8<<10 {
			t.Errorf("the listing has %d bytes", n)
		}
		call(t, s, "browser_observe", map[string]any{"action": "targets"})
		r.grant()
		call(t, s, "browser_observe", map[string]any{"action": "targets"})
		if a, b := r.calls[0].Actor, r.calls[1].Actor; !a.Has(browserhost.ScopeRead) || b.Has(browserhost.ScopeRead) {
			t.Errorf("%s: a call has the scopes of another request: %v, %v", version, a.Scopes, b.Scopes)
		}
	}
}

// Only what is declared is served; each message that is no tool call is noted once.
func TestProtocol(t *testing.T) {
	for _, version := range revisions {
		r := newRig(t, Options{})
		s := r.connect(ada, version, nil)
		caps := text(s.InitializeResult().Capabilities)
		if caps != `{"tools":{"listChanged":false}}` {
			t.Errorf("%s: declares %s", version, caps)
		}
		if _, err := s.ListPrompts(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "method not found") {
			t.Errorf("%s: prompts: %v", version, err)
		}
		if _, err := s.ListTools(t.Context(), nil); err != nil {
			t.Error(err)
		}
		call(t, s, "browser_observe", map[string]any{"action": "targets"})
		var seen []string
		for _, n := range r.notes {
			if n.Actor.Device != ada || (n.Run != "") != (version != "") {
				t.Errorf("%s: %+v", version, n)
			}
			if n.Err != nil {
				n.Method += "!"
			}
			seen = append(seen, n.Method)
		}
		first := map[bool]string{true: "server/discover", false: "initialize"}[version == ""]
		if got, want := strings.Join(seen, " "), first+" prompts/list! tools/list"; got != want {
			t.Errorf("%s: noted %s, want %s", version, got, want)
		}
	}
}

// A session belongs to its device: with another's id nothing is reached, and
// the session goes on.
func TestSessionsAreBound(t *testing.T) {
	r := newRig(t, Options{})
	s := r.connect(ada, "2025-11-25", nil)
	for _, method := range []string{"POST", "GET", "DELETE"} {
		req, _ := http.NewRequestWithContext(t.Context(), method, r.srv.URL, strings.NewReader(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"browser_observe","arguments":{"action":"targets"}}}`))
		req.Header = http.Header{"Mcp-Session-Id": {s.ID()}, "Authorization": {"Bearer " + string(otto)}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		resp, err := r.srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s with another's session: %d", method, resp.StatusCode)
		}
	}
	if len(r.calls) != 0 {
		t.Error("another device's message was served")
	}
	call(t, s, "browser_observe", map[string]any{"action": "targets"})
}

// A device holds at most maxSessions; the one that rested longest makes room,
// and other devices do not feel it.
func TestSessionsAreBounded(t *testing.T) {
	r := newRig(t, Options{})
	other := r.connect(otto, "2025-11-25", nil)
	var all []*sdk.ClientSession
	for range maxSessions {
		all = append(all, r.connect(ada, "2025-11-25", nil))
	}
	call(t, all[0], "browser_observe", map[string]any{"action": "targets"}) // now all[1] rested longest
	newest := r.connect(ada, "2025-11-25", nil)
	all[1].Wait() // its stream ends
	if _, err := all[1].CallTool(t.Context(), &sdk.CallToolParams{Name: "browser_observe", Arguments: map[string]any{"action": "targets"}}); err == nil {
		t.Error("the oldest session still answers")
	}
	for _, s := range []*sdk.ClientSession{all[0], all[2], newest, other} {
		call(t, s, "browser_observe", map[string]any{"action": "targets"})
	}
}

func (r *rig) live() int { return len(slices.Collect(r.h.server.Sessions())) }

// S1.29e: a client that gave a token hears of a long call; one that did not
// hears nothing; nothing comes after the answer.
func TestProgress(t *testing.T) {
	for _, version := range revisions {
		r := newRig(t, Options{progress: time.Millisecond})
		heard := make(chan *sdk.ProgressNotificationParams, 1000)
		s := r.connect(ada, version, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
			heard <- req.Params
		}})
		r.answer(func(ctx context.Context, _ *browserhost.Call) (*browserhost.Result, error) {
			for range 2 { // the call is at work until the client heard twice
				select {
				case p := <-heard:
					if p.ProgressToken != "tok" || p.Progress <= 0 || p.Message == "" {
						t.Errorf("%+v", p)
					}
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return &browserhost.Result{Value: map[string]any{}}, nil
		})
		params := &sdk.CallToolParams{Name: "browser_act", Arguments: map[string]any{"action": "launch"}}
		params.SetProgressToken("tok")
		if res, err := s.CallTool(t.Context(), params); err != nil || res.IsError {
			t.Fatalf("%s: %v %s", version, err, text(res))
		}
	}
}

// A client that goes away, or says that it does not want the answer any more,
// ends the call's context.
func TestCancel(t *testing.T) {
	for _, version := range revisions {
		r := newRig(t, Options{})
		began, ended := make(chan struct{}), make(chan error, 1)
		r.answer(func(ctx context.Context, _ *browserhost.Call) (*browserhost.Result, error) {
			close(began)
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		})
		s := r.connect(ada, version, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-began; cancel() }()
		if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "browser_act", Arguments: map[string]any{"action": "launch"}}); err == nil {
			t.Errorf("%s: no error", version)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// Close lets calls at work finish while its context lasts and cuts them short
// after; no session is left, and none begins.
func TestClose(t *testing.T) {
	for _, patient := range []bool{true, false} {
		r := newRig(t, Options{})
		r.deaf = true // this client gives everything up when that stream ends
		began, finish := make(chan struct{}), make(chan struct{})
		r.answer(func(ctx context.Context, _ *browserhost.Call) (*browserhost.Result, error) {
			close(began)
			select {
			case <-finish:
				return &browserhost.Result{Value: map[string]any{}}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		s := r.connect(ada, "2025-11-25", nil)
		answered := make(chan error, 1)
		go func() {
			res, err := s.CallTool(context.Background(), &sdk.CallToolParams{Name: "browser_act", Arguments: map[string]any{"action": "launch"}})
			if err == nil && res.IsError {
				err = errors.New("cut short")
			}
			answered <- err
		}()
		<-began
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if patient {
			close(finish)
		} else {
			cancel()
		}
		if err := r.h.Close(ctx); (err == nil) != patient {
			t.Errorf("patient %v: Close: %v", patient, err)
		}
		if err := <-answered; (err == nil) != patient {
			t.Errorf("patient %v: the call: %v", patient, err)
		}
		if n := r.live(); n != 0 {
			t.Errorf("%d sessions live", n)
		}
		resp, err := http.Post(r.srv.URL, "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		if resp.StatusCode < 400 {
			t.Errorf("a request after Close: %d", resp.StatusCode)
		}
	}
}

// Without a guard in front nobody is anybody.
func TestNoGuardNoService(t *testing.T) {
	h := New(Options{})
	w := httptest.NewRecorder()
	req := httptest.NewRequest("POST", "/mcp", strings.NewReader(`{}`))
	req.Header.Set("Authorization", "Bearer x")
	h.ServeHTTP(w, req)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("%d", w.Code)
	}
	h.Close(t.Context())
}
