package fixsite

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// visitor is a client with a cookie jar whose names come from the site.
func visitor(t *testing.T, s *Site) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	resolve, connect := s.Network(nil, nil)
	tr := &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			sum := sha256.Sum256(c.PeerCertificates[0].RawSubjectPublicKeyInfo)
			if base64.StdEncoding.EncodeToString(sum[:]) != s.SPKI() {
				t.Error("the key is not the one that SPKI names")
			}
			return c.PeerCertificates[0].VerifyHostname(c.ServerName)
		},
	}}
	tr.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
		host, port, _ := net.SplitHostPort(address)
		addrs, err := resolve(ctx, host)
		if err != nil {
			return nil, err
		}
		return connect(ctx, netip.MustParseAddrPort(net.JoinHostPort(addrs[0].String(), port)))
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Jar: jar}
}

func start(t *testing.T) *Site {
	t.Helper()
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func text(t *testing.T, res *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The visit of the demo: signed out, signing in, greeted, one thing in the cart.
func TestSigningIn(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	get := func(u string) string { res, err := c.Get(u); return text(t, res, err) }
	if got := get("http://shop.test/private"); !strings.Contains(got, "Please sign in") || strings.Contains(got, Greeting) {
		t.Fatalf("signed out: %s", got)
	}
	if res, err := c.Post("https://shop.test/cart", "", nil); text(t, res, err) == "" || res.StatusCode != http.StatusForbidden || s.Cart() != 0 {
		t.Fatalf("a stranger filled the cart: %d", res.StatusCode)
	}
	res, err := c.PostForm("https://shop.test/login", url.Values{"name": {User}, "password": {"guess"}})
	if got := text(t, res, err); !strings.Contains(got, "Wrong name or password") {
		t.Fatalf("a wrong password: %s", got)
	}
	res, err = c.PostForm("https://shop.test/login", url.Values{"name": {User}, "password": {s.Password()}})
	if got := text(t, res, err); !strings.Contains(got, Greeting) {
		t.Fatalf("signed in: %s", got)
	}
	res, err = c.Post("https://shop.test/cart", "", nil)
	if got := text(t, res, err); got != "1" || s.Cart() != 1 {
		t.Fatalf("cart %q, %d", got, s.Cart())
	}
	if got := get("https://bank.test/private"); strings.Contains(got, Greeting) {
		t.Fatal("signed in at the bank, too")
	}
	seen := s.Requests()
	if last := seen[len(seen)-1]; last != (Request{Host: "bank.test", Method: "GET", Path: "/private"}) {
		t.Errorf("last request %+v", last)
	}
	if accepted, dialled := s.Connections("shop.test"); accepted == 0 || accepted != dialled {
		t.Errorf("shop.test: %d accepted, %d dialled", accepted, dialled)
	}
	if accepted, dialled := s.Connections("bank.test"); accepted != 1 || dialled != 1 {
		t.Errorf("bank.test: %d accepted, %d dialled", accepted, dialled)
	}
}

// The cookies are those that the story needs: the session on disk, host-only,
// closed to scripts; its value only where it belongs.
func TestCookies(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := c.PostForm("https://shop.test/login", url.Values{"name": {User}, "password": {s.Password()}})
	text(t, res, err)
	cookies := res.Cookies()
	if len(cookies) != 2 {
		t.Fatalf("%d cookies", len(cookies))
	}
	if k := cookies[0]; k.Name != "__Host-session" || k.Value != s.Session() || !k.HttpOnly || !k.Secure || k.MaxAge <= 0 || k.Domain != "" || k.Path != "/" || k.SameSite != http.SameSiteLaxMode {
		t.Errorf("session cookie %v", k.Name)
	}
	if k := cookies[1]; k.HttpOnly || !k.Secure || k.MaxAge <= 0 {
		t.Errorf("second cookie %v", k.Name)
	}
	if other := start(t); other.Session() == s.Session() || other.Password() == s.Password() {
		t.Error("two sites share a canary")
	}
}

// Every page is there, and what is not the site's goes to the next half or fails.
func TestPagesAndNetwork(t *testing.T) {
	s := start(t)
	c := visitor(t, s)
	for _, path := range []string{"/", "/login", "/private", "/relabel", "/clobber", "/dialog", "/popup", "/frames", "/controls", "/big", "/press.js", "/relabel.js"} {
		res, err := c.Get("https://shop.test" + path)
		if got := text(t, res, err); res.StatusCode != 200 || len(got) < 100 {
			t.Errorf("%s: %d, %d bytes", path, res.StatusCode, len(got))
		}
	}
	for _, path := range []string{"/nothing", "/certificate.go", "/press/nothing"} {
		if res, err := c.Get("https://shop.test" + path); text(t, res, err) == "" || res.StatusCode/100 != 4 {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	resolve, connect := s.Network(nil, nil)
	if _, err := resolve(t.Context(), "elsewhere.test"); err == nil {
		t.Error("a name that is not the site's was found")
	}
	for _, to := range []string{"93.184.216.34:8443", "93.184.216.39:443", "127.0.0.1:443", "8.8.8.8:443"} {
		if c, err := connect(t.Context(), netip.MustParseAddrPort(to)); err == nil {
			c.Close()
			t.Errorf("%s was reached", to)
		}
	}
	var asked string
	resolve, _ = s.Network(func(_ context.Context, host string) ([]netip.Addr, error) { asked = host; return nil, nil }, nil)
	if resolve(t.Context(), "elsewhere.test"); asked != "elsewhere.test" {
		t.Error("the next half was not asked")
	}
	if rules := s.ResolverRules(); !strings.Contains(rules, "MAP shop.test:443 127.0.0.1:") || !strings.Contains(rules, "MAP * ~NOTFOUND") {
		t.Error(rules)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	s := start(t)
	for range keptRequests + 5 {
		s.remember(&http.Request{Host: "shop.test", Method: "GET", URL: &url.URL{Path: "/"}})
	}
	if n := len(s.Requests()); n != keptRequests {
		t.Errorf("%d requests kept", n)
	}
}
