package host_test

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"browserhost"
	"browserhost/host"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// here is the house packages on this goroutine's stack, outermost first, each
// run of one package once. The root package is words and no room of the house.
func here() []string {
	pcs := make([]uintptr, 512)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var names []string
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		names = append(names, f.Function)
	}
	return rooms(names)
}

// elsewhere is the same for every other goroutine that stands in the guard.
func elsewhere() [][]string {
	buf := make([]byte, 8<<20)
	var all [][]string
	for _, dump := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")[1:] {
		if strings.Contains(dump, "browserhost/host/guard.") {
			all = append(all, rooms(strings.Split(dump, "\n")))
		}
	}
	return all
}

// rooms turns functions, innermost first, into the rooms that they belong to.
func rooms(functions []string) []string {
	var out []string
	for _, f := range slices.Backward(functions) {
		f, ours := strings.CutPrefix(f, "browserhost/")
		if !ours {
			continue
		}
		room, rest, _ := strings.Cut(f, ".")
		switch {
		case room == "host_test" && strings.HasPrefix(rest, "gate"):
			room = "the gate"
		case room == "host_test":
			room = "the browser"
		}
		if len(out) == 0 || out[len(out)-1] != room {
			out = append(out, room)
		}
	}
	return out
}

// One call passes each room of the house once, in the order of the line: what
// a request is checked for is checked in one place (design: one call, one
// grant). The stack is taken inside the browser, of a call over HTTP.
func TestStackOverHTTP(t *testing.T) {
	h := build(t)
	page := h.open()
	var stack []string
	h.browser.click = func(context.Context) error { stack = here(); return nil }
	if a := h.act(`{"action":"click","page_id":"` + page + `","element_id":"s1e1"}`); !a.OK || a.Value.Execution != "completed" {
		t.Fatalf("%+v", a)
	}
	want := []string{"host", "host/guard", "host/rest", "host/activity", "host/policy", "the gate", "host/fleet", "the browser"}
	if !slices.Equal(stack, want) {
		t.Errorf("the call passes %v, want %v", stack, want)
	}
	if rows := h.tape.take(); len(rows) != 1 || rows[0].Method != "browser.click" || rows[0].Door != "http" || rows[0].Protocol != "browser" {
		t.Errorf("%+v", rows) // S2.54
	}
}

// The same over MCP, from a client of each kind. The SDK serves a message in a
// goroutine of its own while the request waits for it: the two stacks meet in
// host/mcp.
func TestStackOverMCP(t *testing.T) {
	for _, version := range []string{"", "2025-11-25"} {
		h := build(t)
		page := h.open()
		var outer [][]string
		var inner []string
		h.browser.click = func(context.Context) error { outer, inner = elsewhere(), here(); return nil }
		s := h.connect(version)
		h.tape.take()
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "browser_act", Arguments: map[string]any{"action": "click", "page_id": page, "element_id": "s1e1"}})
		if err != nil || res.IsError {
			t.Fatalf("%v %+v", err, res)
		}
		if want := []string{"host", "host/guard", "host/mcp"}; len(outer) != 1 || !slices.Equal(outer[0], want) {
			t.Errorf("%s: the requests pass %v, want %v", version, outer, want)
		}
		if want := []string{"host/mcp", "host/activity", "host/policy", "the gate", "host/fleet", "the browser"}; !slices.Equal(inner, want) {
			t.Errorf("%s: the call passes %v, want %v", version, inner, want)
		}
		if rows := h.tape.take(); len(rows) != 1 || rows[0].Method != "browser.click" || rows[0].Door != "mcp" || rows[0].Device != ada {
			t.Errorf("%s: %+v", version, rows)
		}
	}
}

type bearing struct{ next http.RoundTripper }

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+bearer)
	return b.next.RoundTrip(r)
}

// connect opens an MCP session; version "" is the newest.
func (h *house) connect(version string) *mcp.ClientSession {
	h.t.Helper()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(h.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: h.url + "/mcp", HTTPClient: &http.Client{Transport: bearing{h.client.Transport}}, MaxRetries: -1, DisableStandaloneSSE: true,
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { s.Close() })
	return s
}

// Bad input gets a typed error and changes nothing. Whoever has a device
// leaves one row; a stranger leaves none.
func TestBadInputChangesNothing(t *testing.T) {
	h := build(t)
	page := h.open()
	before := h.browser.effects()
	large := strings.Repeat("a", browserhost.MaxHTTPBody+1)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	const act = "/v1/tools/browser_act"
	for name, c := range map[string]struct {
		method, path, body string
		edit               func(*http.Request)
		status             int
		code               browserhost.Code
		rows               int
	}{
		"unknown tool":    {"POST", "/v1/tools/browser_fly", `{}`, nil, 404, browserhost.CodeNotFound, 1},
		"unknown field":   {"POST", act, `{"action":"launch","wsUrl":"ws://x"}`, nil, 200, browserhost.CodeInputInvalid, 1},
		"unknown action":  {"POST", act, `{"action":"evaluate"}`, nil, 200, browserhost.CodeInputInvalid, 1},
		"not JSON":        {"POST", act, `{"action"`, nil, 400, browserhost.CodeInputInvalid, 1},
		"a file":          {"POST", act, `{"action":"navigate","page_id":"` + page + `","url":"file:///etc/passwd"}`, nil, 200, browserhost.CodeInputInvalid, 1}, // S3.28
		"unknown page":    {"POST", act, `{"action":"click","page_id":"p99","element_id":"s1e1"}`, nil, 200, browserhost.CodeStalePage, 1},
		"wrong method":    {"GET", act, ``, nil, 405, browserhost.CodeInputInvalid, 1},
		"unknown route":   {"GET", "/v1/grants", ``, nil, 404, browserhost.CodeNotFound, 1},
		"no such door":    {"POST", "/acp/v1", `{}`, nil, 404, browserhost.CodeNotFound, 0},
		"no bearer":       {"POST", act, `{"action":"launch"}`, func(r *http.Request) { r.Header.Del("Authorization") }, 401, browserhost.CodeAuthRequired, 0},
		"foreign bearer":  {"POST", act, `{"action":"launch"}`, header("Authorization", "Bearer x"), 401, browserhost.CodeAuthRequired, 0},
		"mcp, no bearer":  {"POST", "/mcp", `{}`, func(r *http.Request) { r.Header.Del("Authorization") }, 401, browserhost.CodeAuthRequired, 0},
		"foreign host":    {"POST", act, `{"action":"launch"}`, func(r *http.Request) { r.Host = "shop.test" }, 403, browserhost.CodeUnauthorised, 0},
		"rebound health":  {"GET", "/health", ``, func(r *http.Request) { r.Host = "shop.test" }, 403, browserhost.CodeUnauthorised, 0},
		"foreign origin":  {"POST", act, `{"action":"launch"}`, header("Origin", "https://shop.test"), 403, browserhost.CodeUnauthorised, 0},
		"origin, no door": {"POST", "/nothing", ``, header("Origin", "https://shop.test"), 403, browserhost.CodeUnauthorised, 0},
		"cross-site mcp":  {"POST", "/mcp", `{}`, header("Sec-Fetch-Site", "cross-site"), 403, browserhost.CodeUnauthorised, 0},
		"oversize body":   {"POST", act, large, nil, 413, browserhost.CodeInputInvalid, 0},
	} {
		resp, text := h.ask(c.method, c.path, c.body, c.edit)
		a := parse(t, text)
		if resp.StatusCode != c.status || a.OK || a.Error.Code != c.code {
			t.Errorf("%s: %d %s", name, resp.StatusCode, text)
		}
		if c.path == act && c.status == 200 && a.Error.Cause.Execution != browserhost.NotStarted {
			t.Errorf("%s: execution %q", name, a.Error.Cause.Execution)
		}
		if rows := h.tape.take(); len(rows) != c.rows || len(rows) == 1 && (rows[0].OK || rows[0].Code != c.code || rows[0].Device != ada) {
			t.Errorf("%s: rows %+v", name, rows)
		}
	}
	if after := h.browser.effects(); after != before {
		t.Errorf("the browser was asked for %q, and before for %q", after, before)
	}
}

// MCP gives the same errors, and one row for each.
func TestBadInputOverMCP(t *testing.T) {
	h := build(t)
	s := h.connect("")
	h.tape.take()
	for _, c := range []struct {
		tool string
		args map[string]any
		code string
	}{
		{"browser_fly", nil, "not_found"},
		{"browser_act", map[string]any{"action": "launch", "wsUrl": "x"}, "input_invalid"},
		{"browser_act", map[string]any{"action": "click", "page_id": "p9", "element_id": "s1e1"}, "browser:stale_page"},
	} {
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
		if err != nil || !res.IsError || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, `"code":"`+c.code+`"`) {
			t.Errorf("%s %v: %v %+v", c.tool, c.args, err, res)
		}
		if rows := h.tape.take(); len(rows) != 1 || string(rows[0].Code) != c.code || rows[0].Door != "mcp" {
			t.Errorf("%s: rows %+v", c.tool, rows)
		}
	}
	if got := h.browser.effects(); got != "" {
		t.Errorf("the browser was asked for %s", got)
	}
}

// S1.20, S1.35: no tool and no route takes a grant, a cookie or a source;
// none that an agent can call widens what it may do.
func TestNothingWidens(t *testing.T) {
	h := build(t)
	for _, body := range []string{
		`{"action":"launch","cookies":[]}`, `{"action":"launch","sessionPayload":{}}`, `{"action":"launch","cookieSource":"chrome"}`,
		`{"action":"launch","fullProfile":true}`, `{"action":"launch","grant_id":"grant_1"}`,
	} {
		if a := h.act(body); a.OK || a.Error.Code != browserhost.CodeInputInvalid || a.Error.Cause.Field == "" {
			t.Errorf("%s: %+v", body, a)
		}
	}
	for _, path := range []string{"/v1/grants", "/v1/grant", "/v1/pair", "/v1/devices", "/v1/config"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			if resp, _ := h.ask(method, path, `{}`, nil); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s %s: %d", method, path, resp.StatusCode)
			}
		}
	}
}

// Every look of a device is one row: which one by contract H; a stranger's
// look at the health is none, and says nothing of the owner (S1.27).
func TestLooksAreRecorded(t *testing.T) {
	h := build(t)
	for path, want := range map[string]string{"/v1/tools": "GET /v1/tools", "/v1/providers": "GET /v1/providers"} {
		resp, text := h.ask("GET", path, "", nil)
		rows := h.tape.take()
		if resp.StatusCode != 200 || strings.Contains(text, "private") || len(rows) != 1 || rows[0].Method != want || rows[0].Protocol != "http" || rows[0].Direction != "inbound" || !rows[0].OK {
			t.Errorf("%s: %d %s %+v", path, resp.StatusCode, text, rows)
		}
	}
	s := h.connect("2025-11-25")
	if _, err := s.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var methods []string
	for _, row := range h.tape.take() {
		methods = append(methods, row.Protocol+" "+row.Method)
		if row.Run != s.ID() || row.Device != ada { // contract C
			t.Errorf("%+v", row)
		}
	}
	if want := []string{"mcp initialize", "mcp tools/list"}; !slices.Equal(methods, want) {
		t.Errorf("%v, want %v", methods, want)
	}
	resp, text := h.ask("GET", "/health", "", func(r *http.Request) { r.Header.Del("Authorization") })
	if want := `{"ok":true,"version":"1","paused":false,"instances":[{"provider":"chrome","state":"absent"}]}` + "\n"; resp.StatusCode != 200 || text != want {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if rows := h.tape.take(); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
}

// Malformed calls count against their device, whatever tool they name.
func TestRefusedCallsAreLimited(t *testing.T) {
	h := build(t)
	for i := range 1000 {
		resp, _ := h.ask("POST", "/v1/tools/t"+strings.Repeat("x", i%50), `{}`, nil)
		if resp.StatusCode == http.StatusTooManyRequests {
			return
		}
	}
	t.Error("a thousand malformed calls were heard")
}

// Serve ends when it is told to: calls at work are answered first, and streams
// that wait for nothing do not hold it up.
func TestServeEnds(t *testing.T) {
	h := build(t)
	page := h.open()
	began, finish := make(chan struct{}), make(chan struct{})
	h.browser.click = func(context.Context) error { close(began); <-finish; return nil }
	listening, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: h.url + "/mcp", HTTPClient: &http.Client{Transport: bearing{h.client.Transport}}, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	answered := make(chan answer, 1)
	go func() { answered <- h.act(`{"action":"click","page_id":"` + page + `","element_id":"s1e1"}`) }()
	<-began
	stopped := make(chan error, 1)
	go func() { stopped <- h.stop() }()
	close(finish)
	if a := <-answered; !a.OK {
		t.Errorf("%+v", a)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := h.client.Get(h.url + "/health"); err == nil {
		t.Error("the port still answers")
	}
}

// Whoever has the line in this process may call it without a codec; it is the
// same line, and nobody in particular may do nothing on it.
func TestLine(t *testing.T) {
	h := build(t)
	var line browserhost.Handler = h.door.Line()
	_, err := line.ServeTool(t.Context(), &browserhost.Call{Tool: "browser_act", Operation: browserhost.OpLaunch})
	if browserhost.CodeOf(err) != browserhost.CodeUnauthorised {
		t.Errorf("%v", err)
	}
	if rows := h.tape.take(); len(rows) != 1 {
		t.Errorf("%+v", rows)
	}
}

var _ http.Handler = (*host.Host)(nil)
