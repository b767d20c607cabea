package mcp

import (
	"bufio"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"browserhost"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// pipes is a bridge under test with a client's ends of its pipes.
type pipes struct {
	in   *io.PipeWriter
	out  *bufio.Scanner
	done chan error
}

func startBridge(t *testing.T, url string, bearer browserhost.Secret) *pipes {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &pipes{in: inW, out: bufio.NewScanner(outR), done: make(chan error, 1)}
	p.out.Buffer(nil, bridgeEvent)
	go func() {
		err := Bridge(context.Background(), inR, outW, url, bearer)
		outW.Close()
		p.done <- err
	}()
	t.Cleanup(func() {
		inW.Close()
		outR.Close()
	})
	return p
}

func (p *pipes) say(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(p.in, text+"\n"); err != nil {
		t.Fatal(err)
	}
}

// hear reads one message, with its members in order.
func (p *pipes) hear(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatal("the bridge said nothing", p.out.Err())
	}
	var v any
	if err := json.Unmarshal(p.out.Bytes(), &v); err != nil {
		t.Fatalf("%v: %q", err, p.out.Text())
	}
	return text(v)
}

// end closes the input and waits.
func (p *pipes) end(t *testing.T) {
	t.Helper()
	p.in.Close()
	for p.out.Scan() {
		t.Errorf("the bridge says more: %s", p.out.Text())
	}
	if err := <-p.done; err != nil {
		t.Errorf("Bridge: %v", err)
	}
}

const (
	hello      = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	ready      = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	targets    = `{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":"browser_observe","arguments":{"action":"targets"}}}`
	closedPort = "http://127.0.0.1:1/mcp" // nothing listens there
)

// A client that starts programs gets what one that opens connections gets,
// from the SDK's own client of each revision; at the end the session is gone.
func TestBridge(t *testing.T) {
	for _, version := range revisions {
		r := newRig(t, Options{})
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		done := make(chan error, 1)
		go func() {
			err := Bridge(context.Background(), inR, outW, r.srv.URL, browserhost.Secret(ada))
			outW.Close()
			done <- err
		}()
		client := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, nil)
		s, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: outR, Writer: inW}, &sdk.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != len(browserhost.Tools) {
			t.Errorf("%s: %v %s", version, err, text(list))
		}
		if res := call(t, s, "browser_observe", map[string]any{"action": "targets"}); text(res.StructuredContent) != `{"for":"`+string(ada)+`"}` {
			t.Errorf("%s: %s", version, text(res))
		}
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("%s: Bridge: %v", version, err)
		}
		if n := r.live(); n != 0 {
			t.Errorf("%s: %d sessions stay", version, n)
		}
	}
}

// Requests are carried side by side: a long one holds nobody up.
func TestBridgeIsConcurrent(t *testing.T) {
	r := newRig(t, Options{})
	first := make(chan struct{})
	var n atomic.Int32
	r.answer(func(context.Context, *browserhost.Call) (*browserhost.Result, error) {
		if n.Add(1) == 1 {
			<-first
		}
		return &browserhost.Result{}, nil
	})
	p := startBridge(t, r.srv.URL, browserhost.Secret(ada))
	p.say(t, hello)
	p.hear(t)
	p.say(t, ready)
	p.say(t, fmt.Sprintf(targets, "a"))
	p.say(t, fmt.Sprintf(targets, "b"))
	one := p.hear(t)
	close(first)
	two := p.hear(t)
	if !strings.Contains(one+two, `"id":"a"`) || !strings.Contains(one+two, `"id":"b"`) {
		t.Errorf("%s\n%s", one, two)
	}
	p.end(t)
}

// Without a host each request is answered with what to do next, and the bridge
// goes on; nothing is answered that does not ask.
func TestBridgeWithoutHost(t *testing.T) {
	p := startBridge(t, closedPort, "canary")
	p.say(t, ready)
	for range 2 {
		p.say(t, hello)
		got := p.hear(t)
		for _, want := range []string{`"id":1`, `"code":-32603`, "browserhost serve", `"code":"browser:disconnected"`, `"execution_state":"not_started"`} {
			if !strings.Contains(got, want) || strings.Contains(got, "canary") {
				t.Errorf("%s\nlacks %s", got, want)
			}
		}
	}
	p.end(t)
}

// A host that was started anew does not know the session: the bridge opens one
// again by itself and the client notices nothing. A host that forgets within
// a call is not asked twice.
func TestBridgeRenewsTheSession(t *testing.T) {
	r := newRig(t, Options{})
	p := startBridge(t, r.srv.URL, browserhost.Secret(ada))
	p.say(t, hello)
	p.hear(t)
	p.say(t, ready)
	p.say(t, fmt.Sprintf(targets, "a"))
	p.hear(t)
	for s := range r.h.server.Sessions() {
		s.Close()
	}
	for i := range 3 {
		p.say(t, fmt.Sprintf(targets, fmt.Sprint("b", i)))
	}
	for range 3 {
		if got := p.hear(t); !strings.Contains(got, `"structuredContent":{"for"`) {
			t.Errorf("%s", got)
		}
	}
	if n := r.live(); n != 1 || len(r.calls) != 4 {
		t.Errorf("%d sessions, %d calls", n, len(r.calls))
	}
	p.end(t)
	if n := r.live(); n != 0 {
		t.Errorf("%d sessions stay", n)
	}
}

// What the host itself says about a message reaches the client as an error
// with a next step; the bearer is in none of it.
func TestBridgeRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"unpaired": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401); io.WriteString(w, "canary") }, "Connect an agent"},
		"refused":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, `status 403`},
		"redirected": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, closedPort, http.StatusTemporaryRedirect)
		}, `status 307`},
		"our envelope": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(413)
			io.WriteString(w, `{"ok":false,"error":{"code":"input_invalid","message":"too large","retryable":false}}`)
		}, `too large`},
		"nothing": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }, `"execution_state":"outcome_unknown"`},
		"a cut stream": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"res")
		}, `"execution_state":"outcome_unknown"`},
		"a broken wire": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, `"execution_state":"outcome_unknown"`},
		"its own error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			io.WriteString(w, `{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"own words"}}`)
		}, `"message":"own words"`},
	} {
		srv := httptest.NewServer(c.serve)
		p := startBridge(t, srv.URL, "canary")
		p.say(t, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
		if got := p.hear(t); !strings.Contains(got, c.want) || !strings.Contains(got, `"id":7`) || strings.Contains(got, "canary") {
			t.Errorf("%s: %s", name, got)
		}
		p.end(t)
		srv.Close()
	}
}

// A line that is no message, or too long to be one, is refused and what
// follows is heard; blank lines are nothing.
func TestBridgeBadInput(t *testing.T) {
	r := newRig(t, Options{})
	p := startBridge(t, r.srv.URL, browserhost.Secret(ada))
	for _, bad := range []string{"nonsense", `{"jsonrpc":"1.0"}`, `[]`, `{"jsonrpc":"2.0","id":1,"id":2}`, `"` + strings.Repeat("a", bridgeLine) + `"`} {
		p.say(t, "\r\n  \n"+bad)
		if got := p.hear(t); !strings.Contains(got, `"code":-32700`) || !strings.Contains(got, `"id":null`) {
			t.Errorf("%.40s: %s", bad, got)
		}
	}
	p.say(t, hello)
	if got := p.hear(t); !strings.Contains(got, `"protocolVersion":"2025-11-25"`) {
		t.Errorf("%s", got)
	}
	p.end(t)
}

// An input whose last line has no end is heard whole, and its answer is waited for.
func TestBridgeAnswersBeforeItEnds(t *testing.T) {
	r := newRig(t, Options{})
	var out strings.Builder
	in := strings.NewReader(hello + "\n" + ready + "\n" + fmt.Sprintf(targets, "z"))
	if err := Bridge(t.Context(), in, &out, r.srv.URL, browserhost.Secret(ada)); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[1], `"id":"z"`) {
		t.Errorf("%s", out.String())
	}
}

// The end of the context, and a broken pipe on either side, end the bridge.
func TestBridgeEnds(t *testing.T) {
	r := newRig(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	inR, inW := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Bridge(ctx, inR, io.Discard, r.srv.URL, browserhost.Secret(ada)) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	inW.Close()

	broken := errors.New("broken")
	if err := Bridge(t.Context(), iotest.ErrReader(broken), io.Discard, r.srv.URL, browserhost.Secret(ada)); err != broken {
		t.Errorf("%v", err)
	}
	outR, outW := io.Pipe()
	outR.CloseWithError(broken)
	inR, inW = io.Pipe()
	go func() { io.WriteString(inW, hello+"\n") }()
	if err := Bridge(t.Context(), inR, outW, r.srv.URL, browserhost.Secret(ada)); err != broken {
		t.Errorf("%v", err)
	}
	inW.Close()
}

// An address that is none is an error for the client, without the bearer in it.
func TestBridgeBadAddress(t *testing.T) {
	for _, url := range []string{"http://[::1", "://", "ftp://127.0.0.1/mcp"} {
		var out strings.Builder
		err := Bridge(t.Context(), strings.NewReader(hello), &out, url, "canary")
		if err != nil || strings.Contains(out.String(), "canary") || !strings.Contains(out.String(), `"error"`) {
			t.Errorf("%s: %v %s", url, err, out.String())
		}
	}
}

// Whatever a host sends as events, the bridge neither fails nor passes on what
// is no JSON.
func FuzzEvents(f *testing.F) {
	f.Add("data: {}\n\n")
	f.Add(": ok\n\nevent: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\n")
	f.Add("data\ndata:\n\ndata: {")
	f.Fuzz(func(t *testing.T, body string) {
		err := events(strings.NewReader(body), func(v jsontext.Value) {
			if !v.IsValid() {
				t.Errorf("%q passes", v)
			}
		})
		if err != nil {
			t.Errorf("%v", err)
		}
	})
}
