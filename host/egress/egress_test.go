package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"browserhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ada = browserhost.DeviceID("00112233445566778899aabbccddeeff")

var public = netip.MustParseAddr("93.184.216.34")

// net4 is a network of names in which every public address leads to one site.
type net4 struct {
	names map[string][]netip.Addr
	site  string // host:port of the real listener

	mu    sync.Mutex
	dials []netip.AddrPort
}

func (n *net4) network() Network {
	return Network{
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			if a, ok := n.names[host]; ok {
				return append([]netip.Addr(nil), a...), nil
			}
			return nil, errors.New("no such host")
		},
		Connect: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			n.mu.Lock()
			n.dials = append(n.dials, to)
			n.mu.Unlock()
			if to.Addr() != public {
				return Connect(ctx, to)
			}
			return new(net.Dialer).DialContext(ctx, "tcp", n.site)
		},
	}
}

func (n *net4) dialled() []netip.AddrPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]netip.AddrPort(nil), n.dials...)
}

func addrs(s ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range s {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

type decisions struct {
	mu  sync.Mutex
	all []Decision
}

func (d *decisions) add(v Decision) { d.mu.Lock(); d.all = append(d.all, v); d.mu.Unlock() }

func (d *decisions) last(t *testing.T) Decision {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == 0 {
		t.Fatal("no decision was told")
	}
	return d.all[len(d.all)-1]
}

// opened is a guard with one listener before a site.
func opened(t testing.TB, h http.Handler, rules browserhost.EgressRules) (*net4, browserhost.EgressPort, *decisions, *syncBuffer) {
	t.Helper()
	site := httptest.NewServer(h)
	t.Cleanup(site.Close)
	n := &net4{site: site.Listener.Addr().String(), names: map[string][]netip.Addr{
		"shop.test":   {public},
		"mapped.test": addrs("::ffff:93.184.216.34"),
		"rebind.test": addrs("127.0.0.1"),
		"mixed.test":  addrs("93.184.216.34", "192.168.1.1"),
		"localhost":   addrs("127.0.0.1", "::1"),
		"a.localhost": addrs("127.0.0.1"),
		"nobody.test": {},
	}}
	var told decisions
	var out syncBuffer
	g := New(Options{Network: n.network(), Log: slog.New(slog.NewTextHandler(&out, nil)), Decisions: told.add})
	t.Cleanup(func() { g.Close() })
	rules.Device = ada
	p, err := g.Open(rules)
	if err != nil {
		t.Fatal(err)
	}
	return n, p, &told, &out
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) String() string { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func client(t testing.TB, p browserhost.EgressPort) *http.Client {
	t.Helper()
	u, err := url.Parse(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{Proxy: http.ProxyURL(u)}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// connect asks for a tunnel and returns the connection, its reader and the status.
func connect(t testing.TB, p browserhost.EgressPort, to string) (net.Conn, *bufio.Reader, int) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatalf("CONNECT %s: %v", to, err)
	}
	return c, r, res.StatusCode
}

func hello(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, "hello from "+r.Host+r.URL.RequestURI())
}

func TestPlainHTTPReachesASite(t *testing.T) {
	n, p, told, log := opened(t, http.HandlerFunc(hello), browserhost.EgressRules{Label: "anonymous"})
	res, err := client(t, p).Get("http://shop.test/a?q=%zz;1&b")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if got := string(body); res.StatusCode != 200 || got != "hello from shop.test/a?q=%zz;1&b" {
		t.Fatalf("%d %q", res.StatusCode, got)
	}
	if d := n.dialled(); len(d) != 1 || d[0] != netip.AddrPortFrom(public, 80) {
		t.Fatalf("dialled %v; want the checked address on port 80", d)
	}
	want := Decision{Device: ada, Label: "anonymous", Host: "shop.test", Port: 80, Allowed: true, Rule: RulePublic}
	if got := told.last(t); got != want {
		t.Fatalf("decision %+v, want %+v", got, want) // S2.32
	}
	if strings.Contains(log.String(), "q=") || !strings.Contains(log.String(), "host=shop.test") { // S3.33
		t.Fatalf("log: %s", log)
	}
}

// The resolver may wrap IPv4 in IPv6; the address behind it is what counts.
func TestResolverAnswersMappedAddress(t *testing.T) {
	n, p, _, _ := opened(t, http.HandlerFunc(hello), browserhost.EgressRules{})
	res, err := client(t, p).Get("http://mapped.test/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if d := n.dialled(); res.StatusCode != 200 || len(d) != 1 || d[0].Addr() != public {
		t.Fatalf("%d, dialled %v", res.StatusCode, d)
	}
}

// The forms in which somebody may write this computer or the owner's network,
// through a real client and through CONNECT (S2.30, S2.34). Nothing is dialled
// for any of them.
func TestRefusedDestinations(t *testing.T) {
	n, p, told, _ := opened(t, http.HandlerFunc(hello), browserhost.EgressRules{})
	own, err := url.Parse(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, p)
	for _, d := range []struct{ host, rule string }{
		{"localhost", RuleLoopback},
		{"a.localhost", RuleLoopback},
		{"rebind.test", RuleLoopback},
		{"mixed.test", RulePrivate},
		{"127.0.0.1", RuleLoopback},
		{"[::1]", RuleLoopback},
		{"[::ffff:127.0.0.1]", RuleMapped},
		{"[::ffff:93.184.216.34]", RuleMapped},
		{"0.0.0.0", RuleThisNetwork},
		{"169.254.169.254", RuleMetadata},
		{"192.168.1.1", RulePrivate},
		{"100.64.0.1", RuleSharedSpace},
		{"203.0.113.10", RuleDocument},
		{"[fec0::1]", RulePrivate},
		{"[64:ff9b::7f00:1]", RuleEmbedded},
		{"[2002:7f00:1::]", RuleEmbedded},
		{"2130706433", RuleForm},
		{"0x7f000001", RuleForm},
		{"0177.0.0.1", RuleForm},
		{"127.1", RuleForm},
	} {
		for _, port := range []string{"80", "8863", own.Port()} {
			res, err := c.Get("http://" + d.host + ":" + port + "/")
			if err != nil {
				t.Fatalf("%s: %v", d.host, err)
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			want := sayRefused
			if d.rule == RuleForm {
				want = sayForm
			}
			if res.StatusCode/100 != 4 || string(body) != want {
				t.Errorf("GET %s:%s: %d %q", d.host, port, res.StatusCode, body)
			}
			_, _, status := connect(t, p, d.host+":"+port)
			if status/100 != 4 {
				t.Errorf("CONNECT %s:%s: %d", d.host, port, status)
			}
			if v := told.last(t); v.Allowed || v.Rule != d.rule {
				t.Errorf("%s: decision %+v, want it refused as %q", d.host, v, d.rule)
			}
		}
	}
	if d := n.dialled(); len(d) != 0 {
		t.Errorf("dialled %v", d)
	}
}

// The real dialer refuses by itself, should anything ever get past the guard.
func TestConnectChecksAgain(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := Connect(t.Context(), ln.Addr().(*net.TCPAddr).AddrPort())
	if err == nil {
		c.Close()
		t.Fatal("the real dialer reached loopback")
	}
	if no, ok := errors.AsType[*refusal](err); !ok || no.rule != RuleLoopback {
		t.Fatalf("%v; want the check's refusal", err)
	}
}

func TestUnreachableSaysNoMore(t *testing.T) {
	_, p, told, _ := opened(t, http.HandlerFunc(hello), browserhost.EgressRules{})
	for _, host := range []string{"missing.test", "nobody.test"} {
		res, err := client(t, p).Get("http://" + host + "/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 502 || string(body) != sayUnreachable || told.last(t).Rule != RuleUnresolved {
			t.Errorf("%s: %d %q %+v", host, res.StatusCode, body, told.last(t))
		}
	}
}

// The process-wide proxy refuses what is public too (S2.33).
func TestNothing(t *testing.T) {
	n, p, told, _ := opened(t, http.HandlerFunc(hello), browserhost.EgressRules{Label: "process", Nothing: true})
	res, err := client(t, p).Get("http://shop.test/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	_, _, status := connect(t, p, "shop.test:443")
	if res.StatusCode != 403 || status != 403 || told.last(t).Rule != RuleNothing || len(n.dialled()) != 0 {
		t.Fatalf("GET %d, CONNECT %d, %+v, dialled %v", res.StatusCode, status, told.last(t), n.dialled())
	}
}

// A proxy's own headers stay with the proxy, and the Host header is the URL's.
func TestHeadersForwarded(t *testing.T) {
	got := make(chan http.Header, 1)
	host := make(chan string, 1)
	_, p, _, _ := opened(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header; host <- r.Host }), browserhost.EgressRules{})
	c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET http://shop.test/ HTTP/1.1\r\nHost: bank.test\r\nProxy-Authorization: Basic YWRhOmFkYQ==\r\nProxy-Connection: keep-alive\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Keep: 1\r\nCookie: a=b\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	h := <-got
	for _, name := range []string{"Proxy-Authorization", "Proxy-Connection", "X-Hop", "X-Forwarded-For", "Via", "Accept-Encoding"} {
		if h.Get(name) != "" {
			t.Errorf("%s: %q reached the site", name, h.Get(name))
		}
	}
	if h.Get("X-Keep") != "1" || h.Get("Cookie") != "a=b" || <-host != "shop.test" {
		t.Errorf("lost something: %v", h)
	}
}

// What is not a proxy request is answered with a fixed text and goes nowhere.
func TestOnlyAbsoluteForm(t *testing.T) {
	n, p, _, _ := opened(t, http.HandlerFunc(hello), browserhost.EgressRules{})
	for _, line := range []string{
		"GET / HTTP/1.1", "OPTIONS * HTTP/1.1", "GET https://shop.test/ HTTP/1.1", "GET ftp://shop.test/ HTTP/1.1",
		"GET http://ada:pw@shop.test/ HTTP/1.1", "GET http:/// HTTP/1.1", "CONNECT shop.test HTTP/1.1", "CONNECT shop.test:443:1 HTTP/1.1",
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "%s\r\nHost: shop.test\r\nConnection: close\r\n\r\n", line)
		answer, err := io.ReadAll(c)
		c.Close()
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 400 ")) || bytes.Contains(answer, []byte("hello")) {
			t.Errorf("%s: %v %q", line, err, answer)
		}
	}
	big, err := http.NewRequest("GET", "http://shop.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	big.Header.Set("X-Big", strings.Repeat("x", 2*maxHeader))
	res, err := client(t, p).Do(big)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge || len(n.dialled()) != 0 {
		t.Errorf("oversized headers: %d, dialled %v", res.StatusCode, n.dialled())
	}
}

// A page cannot fill the owner's log, and each minute begins anew (contract: one per host and minute).
func TestReporter(t *testing.T) {
	var r reporter
	now := time.Unix(1_800_000_000, 0)
	d := Decision{Host: "shop.test", Port: 443, Allowed: true, Rule: RulePublic}
	if !r.first(d, now) || r.first(d, now.Add(time.Second)) {
		t.Fatal("told not once")
	}
	if refused := (Decision{Host: "shop.test", Port: 443, Rule: RulePrivate}); !r.first(refused, now) {
		t.Fatal("another outcome for the same host was swallowed")
	}
	told := 0
	for i := range 10 * hostsAtOnce {
		if r.first(Decision{Host: fmt.Sprint("x", i)}, now) {
			told++
		}
	}
	if told != hostsAtOnce-2 {
		t.Fatalf("%d told", told)
	}
	if !r.first(d, now.Add(time.Minute)) {
		t.Fatal("silent in the next minute")
	}
}
