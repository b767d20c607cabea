package rest

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"browserhost"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ada browserhost.DeviceID = "0123456789abcdef0123456789abcdef"

// rig serves the routes over a line that a test writes; the actor is there as
// the guard leaves it.
type rig struct {
	http.Handler
	calls   []*browserhost.Call
	refused []*browserhost.Call
	notes   []Note
	answer  func(*browserhost.Call) (*browserhost.Result, error)
}

func newRig() *rig {
	r := &rig{answer: func(*browserhost.Call) (*browserhost.Result, error) {
		return &browserhost.Result{Value: map[string]any{}}, nil
	}}
	r.Handler = New(Options{
		Line: browserhost.HandlerFunc(func(_ context.Context, c *browserhost.Call) (*browserhost.Result, error) {
			r.calls = append(r.calls, c)
			return r.answer(c)
		}),
		Refused: func(_ context.Context, c *browserhost.Call, err error) error {
			r.refused = append(r.refused, c)
			return err
		},
		Providers: func(_ context.Context, a browserhost.Actor) any { return []string{"chrome for " + string(a.Device)} },
		Health: func(context.Context) Health {
			return Health{OK: true, Version: "1", Instances: []Instance{{"chrome", browserhost.Healthy}}}
		},
		Note: func(_ context.Context, n Note) { r.notes = append(r.notes, n) },
	})
	return r
}

// ask sends one request as Ada's agent with its scopes; none: as a stranger.
func (r *rig) ask(method, path, body string, scopes ...browserhost.Scope) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, "http://127.0.0.1:8863"+path, strings.NewReader(body))
	if scopes != nil {
		req = req.WithContext(browserhost.WithActor(req.Context(), browserhost.Actor{Kind: browserhost.Agent, Device: ada, Via: "http", Scopes: scopes}))
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w
}

// A call reaches the line as what it means, with everything that the codec knows.
func TestCallReachesTheLine(t *testing.T) {
	r := newRig()
	r.answer = func(*browserhost.Call) (*browserhost.Result, error) {
		return &browserhost.Result{Value: map[string]any{"execution_state": "completed"}}, nil
	}
	raw := `{"action":"click","page_id":"p1","element_id":"s1e3"}`
	w := r.ask("POST", "/v1/tools/browser_act", raw, browserhost.ScopeControl)
	if w.Code != 200 || w.Body.String() != `{"ok":true,"value":{"execution_state":"completed"}}`+"\n" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if len(r.calls) != 1 {
		t.Fatalf("%d calls", len(r.calls))
	}
	c := r.calls[0]
	if c.ID == "" || c.Tool != "browser_act" || c.Operation != browserhost.OpClick || c.Args.ElementID != "s1e3" || string(c.Raw) != raw ||
		c.Actor.Device != ada || c.Door != "http" || c.Material != nil {
		t.Errorf("%+v", c)
	}
	if len(r.notes) != 0 {
		t.Error("a tool call is recorded twice") // S2.54
	}
	r.ask("POST", "/v1/tools/browser_profile_list", "", browserhost.ScopeProfile) // no body: no arguments
	if len(r.calls) != 2 || r.calls[1].Operation != browserhost.OpProfileList || r.calls[1].ID == c.ID {
		t.Errorf("%+v", r.calls)
	}
}

// Contract G: what reached the line is 200 whatever it says; what named no
// tool or could not be read is not. No refused call reaches the line, and each
// one is told to whoever records.
func TestRefusals(t *testing.T) {
	large := `{"action":"` + strings.Repeat("a", browserhost.MaxArgs) + `"}`
	for name, c := range map[string]struct {
		tool, body string
		status     int
		want       string
	}{
		"unknown tool":   {"browser_fly", `{}`, 404, `"code":"not_found"`},
		"unknown field":  {"browser_act", `{"action":"launch","wsUrl":"ws://x"}`, 200, `"cause":{"execution_state":"not_started","field":"wsUrl"},"code":"input_invalid"`},
		"missing field":  {"browser_act", `{"action":"click","page_id":"p1"}`, 200, `"field":"element_id"`},
		"no object":      {"browser_observe", `[]`, 200, `"code":"input_invalid"`},
		"not JSON":       {"browser_act", `{"action":`, 400, `"code":"input_invalid"`},
		"a name twice":   {"browser_act", `{"action":"launch","action":"launch"}`, 400, `"code":"input_invalid"`},
		"two values":     {"browser_observe", `{} {}`, 400, `"code":"input_invalid"`},
		"many arguments": {"browser_act", large, 200, `"code":"input_invalid"`},
	} {
		r := newRig()
		w := r.ask("POST", "/v1/tools/"+c.tool, c.body, browserhost.AllScopes()...)
		if w.Code != c.status || !contains(w.Body.Bytes(), `"ok":false`) || !contains(w.Body.Bytes(), c.want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if len(r.calls) != 0 || len(r.refused) != 1 || len(r.notes) != 0 || r.refused[0].Actor.Device != ada {
			t.Errorf("%s: %d calls, %d refused, %d notes", name, len(r.calls), len(r.refused), len(r.notes))
		}
	}
}

// contains compares with the members of each object in one order.
func contains(body []byte, want string) bool {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return false
	}
	sorted, err := json.Marshal(v, json.Deterministic(true))
	return err == nil && bytes.Contains(sorted, []byte(want))
}

// The recorder's word is the one that counts: it may refuse otherwise.
func TestRefusedMaySayMore(t *testing.T) {
	h := New(Options{Refused: func(context.Context, *browserhost.Call, error) error {
		return browserhost.Errorf(browserhost.CodeRateLimited, "too many calls")
	}})
	for tool, status := range map[string]int{"browser_fly": 429, "browser_act": 200} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/tools/"+tool, strings.NewReader(`{}`)))
		if w.Code != status || !strings.Contains(w.Body.String(), `"rate_limited"`) {
			t.Errorf("%s: %d %s", tool, w.Code, w.Body)
		}
	}
}

// AIP-63 T3: the envelope of each error, with status 200; what is not ours
// shows nothing of itself (AIP-63 C9).
func TestErrorsOfTheLine(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"unsupported": {browserhost.Errorf(browserhost.CodeUnsupported, "no recording").With("capability", "recording"),
			`{"error":{"cause":{"capability":"recording"},"code":"browser:unsupported","message":"no recording","retryable":false},"ok":false}`},
		"unknown outcome": {browserhost.Errorf(browserhost.CodeTimeout, "late").State(browserhost.OutcomeUnknown),
			`{"error":{"cause":{"execution_state":"outcome_unknown"},"code":"timeout","message":"late","retryable":false},"ok":false}`},
		"rate limited": {browserhost.Errorf(browserhost.CodeRateLimited, "slow").With("retryAfter", 2), `"retryAfter":2`},
		"foreign":      {errors.New("canary /home/ada"), `"code":"internal"`},
		"unencodable":  {browserhost.Errorf(browserhost.CodeBusy, "x").With("f", func() {}), `"code":"internal"`},
	} {
		r := newRig()
		r.answer = func(*browserhost.Call) (*browserhost.Result, error) { return nil, c.err }
		w := r.ask("POST", "/v1/tools/browser_observe", `{"action":"targets"}`, browserhost.ScopeRead)
		if w.Code != 200 || !contains(w.Body.Bytes(), c.want) || strings.Contains(w.Body.String(), "canary") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// S3.35: a picture leaves in one field, beside its facts.
func TestPicture(t *testing.T) {
	r := newRig()
	r.answer = func(*browserhost.Call) (*browserhost.Result, error) {
		return &browserhost.Result{Value: map[string]any{"mime": "image/png", "width": 2}, Image: &browserhost.Image{MIME: "image/png", Width: 2, Height: 1, Data: []byte("PNG")}}, nil
	}
	w := r.ask("POST", "/v1/tools/browser_observe", `{"action":"screenshot","page_id":"p1"}`, browserhost.ScopeRead)
	if want := `{"ok":true,"value":{"content_delivery":"base64","data":"UE5H","mime":"image/png","width":2}}` + "\n"; w.Body.String() != want {
		t.Errorf("%s", w.Body)
	}
}

// Contract B: an answer of MaxAnswer bytes passes, a larger one is an error;
// of an effect it says that it happened.
func TestAnswerBound(t *testing.T) {
	text := func(n int) string { return strings.Repeat("a", n-len(`{"ok":true,"value":{"t":""}}`)) }
	for n, ok := range map[int]bool{browserhost.MaxAnswer: true, browserhost.MaxAnswer + 1: false} {
		r := newRig()
		r.answer = func(*browserhost.Call) (*browserhost.Result, error) {
			return &browserhost.Result{Value: map[string]any{"t": text(n)}}, nil
		}
		w := r.ask("POST", "/v1/tools/browser_act", `{"action":"close_page","page_id":"p1"}`, browserhost.ScopeControl)
		if got := w.Body.Len() == browserhost.MaxAnswer+1; got != ok { // the newline
			t.Errorf("%d bytes: %d bytes leave", n, w.Body.Len())
		}
		if !ok && !contains(w.Body.Bytes(), `"cause":{"execution_state":"completed"},"code":"upstream_error"`) {
			t.Errorf("%s", w.Body)
		}
	}
	r := newRig()
	r.answer = func(*browserhost.Call) (*browserhost.Result, error) { return nil, nil }
	if w := r.ask("POST", "/v1/tools/browser_observe", `{"action":"targets"}`, browserhost.ScopeRead); !contains(w.Body.Bytes(), `"code":"internal"`) {
		t.Errorf("no answer at all: %s", w.Body)
	}
}

// K22: a device is shown what it may call; each look is one row (contract H).
func TestListings(t *testing.T) {
	r := newRig()
	w := r.ask("GET", "/v1/tools", "", browserhost.ScopeRead)
	var got struct {
		OK    bool `json:"ok"`
		Value struct {
			Tools []struct {
				Name        string         `json:"name"`
				ReadOnly    bool           `json:"readOnly"`
				InputSchema map[string]any `json:"inputSchema"`
			} `json:"tools"`
		} `json:"value"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !got.OK || len(got.Value.Tools) != 1 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if tool := got.Value.Tools[0]; tool.Name != "browser_observe" || !tool.ReadOnly || tool.InputSchema["additionalProperties"] != false {
		t.Errorf("%+v", tool)
	}
	if w := r.ask("GET", "/v1/providers", "", browserhost.ScopeRead); w.Body.String() != `{"ok":true,"value":{"providers":["chrome for `+string(ada)+`"]}}`+"\n" {
		t.Errorf("%s", w.Body)
	}
	if w := r.ask("GET", "/v1/nothing", "", browserhost.ScopeRead); w.Code != 404 {
		t.Errorf("%d", w.Code)
	}
	for i, want := range []struct {
		method string
		ok     bool
	}{{"GET /v1/tools", true}, {"GET /v1/providers", true}, {"unknown", false}} {
		if n := r.notes[i]; n.Method != want.method || (n.Err == nil) != want.ok || n.Actor.Device != ada || n.Took < 0 || n.Took > time.Minute {
			t.Errorf("note %d: %+v", i, n)
		}
	}
}

// S1.27: the health of the host, for whoever may reach the port; asking for it
// writes nothing.
func TestHealth(t *testing.T) {
	r := newRig()
	w := r.ask("GET", "/health", "")
	if want := `{"ok":true,"version":"1","paused":false,"instances":[{"provider":"chrome","state":"healthy"}]}` + "\n"; w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if len(r.notes) != 0 {
		t.Errorf("%+v", r.notes)
	}
}

// Everything else is 404 or 405, in the same envelope; no path is cleaned.
func TestRoutesAreExact(t *testing.T) {
	for path, status := range map[string]int{
		"GET /": 404, "GET /v1": 404, "GET /v1/": 404, "GET /v1/tools/": 404, "POST /v1/tools/a/b": 404, "GET //health": 404, "GET /health/": 404,
		"GET /v1/../health": 404, "POST /acp/x": 404, "GET /mcp/read": 404, "POST /oauth/token": 404, // S1.56
		"POST /v1/tools": 405, "DELETE /health": 405, "HEAD /health": 405, "GET /v1/tools/browser_act": 405, "PUT /v1/providers": 405,
	} {
		r := newRig()
		method, path, _ := strings.Cut(path, " ")
		w := r.ask(method, path, `{}`)
		if w.Code != status || !contains(w.Body.Bytes(), `"ok":false`) || len(r.calls)+len(r.refused)+len(r.notes) != 0 {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		if allow := w.Header().Get("Allow"); (allow != "") != (status == 405) {
			t.Errorf("%s %s: Allow %q", method, path, allow)
		}
	}
}
