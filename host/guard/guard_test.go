package guard

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"browserhost"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ada     browserhost.DeviceID = "0123456789abcdef0123456789abcdef"
	good                         = "apd1.0123456789abcdef0123456789abcdef.good"
	own                          = "127.0.0.1:8863"
	denied                       = `{"ok":false,"error":{"code":"unauthorised","message":"this request is not served","retryable":false}}` + "\n"
	unknown                      = `{"ok":false,"error":{"code":"auth_required","message":"open Browser Host → Connect an agent","retryable":false}}` + "\n"
)

func guarded() *Guard {
	return New(Options{
		Hosts: []string{own, "localhost:8863", "[::1]:8863"},
		Verify: func(b string) (browserhost.Device, bool) {
			return browserhost.Device{ID: ada, Name: "Ada's agent", Role: "agent", Scopes: browserhost.DefaultScopes()}, b == good
		},
	})
}

func request(method, host string, header map[string]string) *http.Request {
	r := httptest.NewRequest(method, "http://"+own+"/x", nil)
	r.Host = host
	for k, v := range header {
		r.Header.Set(k, v)
	}
	return r
}

// S1.59, D24: Host is exact, and whatever a web page's browser sends is
// refused, with one body, on open routes, device routes and upgrades alike.
func TestForeignRequestsAreRefused(t *testing.T) {
	reached := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a refused request reached the route") })
	g := guarded()
	for name, r := range map[string]*http.Request{
		"evil host":          request("GET", "evil.test", nil),
		"host without port":  request("GET", "127.0.0.1", nil),
		"other port":         request("GET", "127.0.0.1:80", nil),
		"host with a dot":    request("GET", "localhost.:8863", nil),
		"no host":            request("GET", "", nil),
		"subdomain":          request("GET", "localhost:8863.evil.test", nil),
		"evil origin":        request("POST", own, map[string]string{"Origin": "http://evil.test"}),
		"null origin":        request("POST", own, map[string]string{"Origin": "null"}),
		"empty origin":       request("POST", own, map[string]string{"Origin": ""}),
		"https origin":       request("POST", own, map[string]string{"Origin": "https://" + own}),
		"another port's":     request("POST", own, map[string]string{"Origin": "http://127.0.0.1:9999"}),
		"extension":          request("POST", own, map[string]string{"Origin": "chrome-extension://abc"}),
		"rebound":            request("POST", "evil.test:8863", map[string]string{"Origin": "http://evil.test:8863"}),
		"cross-site":         request("GET", own, map[string]string{"Sec-Fetch-Site": "cross-site"}),
		"same-site":          request("GET", own, map[string]string{"Sec-Fetch-Site": "same-site"}),
		"unknown fetch site": request("GET", own, map[string]string{"Sec-Fetch-Site": "elsewhere"}),
		"referer":            request("GET", own, map[string]string{"Referer": "http://evil.test/"}),
		"referer prefix":     request("GET", own, map[string]string{"Referer": "http://" + own + ".evil.test/"}),
		"upgrade": request("GET", own, map[string]string{
			"Origin": "http://evil.test", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		}),
	} {
		for door, h := range map[string]http.Handler{"open": g.Open(reached), "device": g.Device("http", reached)} {
			r.Header.Set("Authorization", "Bearer "+good)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusForbidden || w.Body.String() != denied {
				t.Errorf("%s on an %s route: %d %s", name, door, w.Code, w.Body)
			}
			if w.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s on an %s route: it answers CORS", name, door)
			}
		}
	}
}

// A header that occurs twice is not what a client sends.
func TestRepeatedHeadersAreRefused(t *testing.T) {
	g := guarded()
	h := g.Device("http", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	for header, status := range map[string]int{"Origin": 403, "Sec-Fetch-Site": 403, "Referer": 403, "Authorization": 401} {
		r := request("GET", own, map[string]string{"Authorization": "Bearer " + good})
		value := map[string]string{"Origin": "http://" + own, "Sec-Fetch-Site": "none", "Referer": "http://" + own + "/", "Authorization": "Bearer " + good}[header]
		r.Header[header] = []string{value, value}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("%s twice: %d", header, w.Code)
		}
	}
}

// A program on this computer passes, under each of the host's names, and
// carries its actor, which comes from the credential alone (AIP-63 C7).
func TestAgentsPass(t *testing.T) {
	var got browserhost.Actor
	h := guarded().Device("mcp", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = browserhost.ActorFrom(r.Context()) }))
	for _, host := range []string{own, "localhost:8863", "[::1]:8863"} {
		for _, scheme := range []string{"Bearer ", "bearer "} {
			r := request("POST", host, map[string]string{"Authorization": scheme + good, "Origin": "http://" + host, "Sec-Fetch-Site": "same-origin", "Referer": "http://" + host + "/ui"})
			w := httptest.NewRecorder()
			got = browserhost.Actor{}
			h.ServeHTTP(w, r)
			if w.Code != 200 || got.Device != ada || got.Kind != browserhost.Agent || got.Via != "mcp" || !got.Has(browserhost.ScopeProfile) {
				t.Errorf("%s, %q: %d, %+v", host, scheme, w.Code, got)
			}
		}
	}
}

// S1.56, S2.20: whatever is wrong with a credential, the answer has the same bytes.
func TestWrongCredentialsLookAlike(t *testing.T) {
	h := guarded().Device("http", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	var first string
	for _, credential := range []string{
		"", "Bearer", "Bearer ", "Bearer x", "Basic " + good, good, "Bearer " + good + " x", "Bearer  " + good, "Bearer " + good + "\tx",
		"Bearer apd1.0123456789abcdef0123456789abcdef.revoked", "Bearer " + strings.Repeat("a", 9000),
	} {
		r := request("POST", own, nil)
		if credential != "" {
			r.Header.Set("Authorization", credential)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := fmt.Sprintf("%d\n%v\n%s", w.Code, w.Header(), w.Body)
		if first == "" {
			first = got
		}
		if got != first || w.Code != 401 || w.Body.String() != unknown || w.Header().Get("WWW-Authenticate") != `Bearer realm="browserhost"` {
			t.Errorf("%.40q: %s", credential, got)
		}
	}
}

// An operator decides and watches; it never calls tools with its credential.
func TestOperatorIsNoAgent(t *testing.T) {
	g := New(Options{Hosts: []string{own}, Verify: func(string) (browserhost.Device, bool) {
		return browserhost.Device{ID: ada, Role: "operator"}, true
	}})
	w := httptest.NewRecorder()
	g.Device("http", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") })).
		ServeHTTP(w, request("GET", own, map[string]string{"Authorization": "Bearer x"}))
	if w.Code != 401 {
		t.Fatal(w.Code)
	}
}

// Contract B: a body of 4 MiB passes, one byte more is 413, declared or chunked.
func TestBodyBound(t *testing.T) {
	var size int
	server := httptest.NewUnstartedServer(nil)
	g := New(Options{Hosts: []string{server.Listener.Addr().String()}, Verify: func(string) (browserhost.Device, bool) {
		return browserhost.Device{ID: ada, Role: "agent"}, true
	}})
	server.Config.Handler = g.Device("http", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		size = len(b)
	}))
	server.Start()
	defer server.Close()
	for _, c := range []struct {
		size    int
		chunked bool
		status  int
	}{
		{browserhost.MaxHTTPBody, false, 200}, {browserhost.MaxHTTPBody, true, 200},
		{browserhost.MaxHTTPBody + 1, false, 413}, {browserhost.MaxHTTPBody + 1, true, 413},
	} {
		var body io.Reader = bytes.NewReader(make([]byte, c.size))
		if c.chunked {
			body = io.MultiReader(body) // hides the length
		}
		size = 0
		r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status || c.status == 200 && size != c.size || c.status == 413 && !strings.Contains(string(answer), `"input_invalid"`) {
			t.Errorf("%d bytes, chunked %v: %d, %d read, %s", c.size, c.chunked, resp.StatusCode, size, answer)
		}
	}
}

// Who is at the other end of a connection is told before its first request is
// served, once, with both addresses; a stranger is not told at all.
func TestSeenOncePerConnection(t *testing.T) {
	type seen struct {
		local, remote netip.AddrPort
		device        browserhost.DeviceID
	}
	var mu sync.Mutex
	var log []seen
	server := httptest.NewUnstartedServer(nil)
	g := New(Options{
		Hosts: []string{server.Listener.Addr().String()},
		Verify: func(b string) (browserhost.Device, bool) {
			return browserhost.Device{ID: ada, Role: "agent"}, b == good
		},
		Seen: func(local, remote netip.AddrPort, device browserhost.DeviceID) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, seen{local, remote, device})
		},
	})
	server.Config.Handler = g.Device("http", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if len(log) == 0 || log[len(log)-1].remote.String() != r.RemoteAddr {
			t.Error("the request is served before its connection is told")
		}
	}))
	server.Config.ConnContext = g.ConnContext
	server.Start()
	defer server.Close()
	call := func(c *http.Client, bearer string) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+bearer)
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	for range 2 { // two connections, three requests each
		transport := &http.Transport{}
		c := &http.Client{Transport: transport}
		for range 3 {
			call(c, good)
		}
		transport.CloseIdleConnections()
	}
	call(server.Client(), "stranger")
	if len(log) != 2 || log[0].remote == log[1].remote || log[0].device != ada || log[0].local.String() != server.Listener.Addr().String() {
		t.Fatalf("told %+v", log)
	}
}

// A stranger does not write into the log, and no credential appears there.
func TestLogHoldsNothingOfTheRequest(t *testing.T) {
	var log bytes.Buffer
	g := New(Options{Hosts: []string{own}, Verify: func(string) (browserhost.Device, bool) { return browserhost.Device{}, false }, Log: slog.New(slog.NewTextHandler(&log, nil))})
	r := request("GET", own, map[string]string{"Authorization": "Bearer canary-1", "Cookie": "canary-2", "Referer": "http://" + own + "/canary-3"})
	r.URL.Path = "/canary-4"
	g.Device("http", http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r.WithContext(context.Background()))
	if log.Len() == 0 || strings.Contains(log.String(), "canary") {
		t.Fatalf("log: %q", log.String())
	}
}
