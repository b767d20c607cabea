package chrome

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"browserhost"
)

var plain = arguments{dir: "/data/temporary/k", proxy: "http://127.0.0.1:4711"}

// with is plain with a change.
func with(change func(*arguments)) arguments {
	a := plain
	change(&a)
	return a
}

// always is part of every command line (K10, S2.33, S4.5, K16).
var always = []string{
	"--remote-debugging-pipe", "--user-data-dir=/data/temporary/k", "--proxy-server=http://127.0.0.1:4711", "--proxy-bypass-list=<-loopback>",
	"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--disable-quic", "--password-store=basic", "--disable-extensions", "--disable-breakpad",
}

// Each way to run a browser has its arguments and not those of another; WebRTC
// is kept to the proxy in the words that each browser knows (S2.21, S2.33).
func TestArguments(t *testing.T) {
	const rtc, rtcShell = "--webrtc-ip-handling-policy=disable_non_proxied_udp", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp"
	for name, c := range map[string]struct {
		a         arguments
		has, hasT []string
	}{
		"without a window":   {plain, []string{"--headless=new", rtc, "--no-startup-window"}, []string{"--no-sandbox", rtcShell}},
		"with one":           {with(func(a *arguments) { a.headed = true }), []string{rtc}, []string{"--headless=new", "--no-sandbox"}},
		"the headless shell": {with(func(a *arguments) { a.shell = true }), []string{rtcShell}, []string{"--headless=new", rtc, "--no-sandbox"}},
		"without a sandbox":  {with(func(a *arguments) { a.noSandbox = true }), []string{"--no-sandbox"}, nil},
		"for test sites":     {with(func(a *arguments) { a.spki = []string{"a=", "b="} }), []string{"--ignore-certificate-errors-spki-list=a=,b="}, nil},
	} {
		got := c.a.list()
		for _, want := range append(c.has, always...) {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %q is missing", name, want)
			}
		}
		for _, not := range c.hasT {
			if slices.Contains(got, not) {
				t.Errorf("%s: %q is there", name, not)
			}
		}
		if err := c.a.check(got); err != nil {
			t.Errorf("%s: its own arguments are refused: %v", name, err)
		}
		if len(c.a.spki) == 0 && slices.ContainsFunc(got, func(a string) bool { return strings.Contains(a, "certificate") }) {
			t.Errorf("%s: certificates are not checked", name)
		}
	}
}

// Every flag is two dashes and a name, once, with a reason.
func TestFlags(t *testing.T) {
	seen := map[string]bool{}
	form := regexp.MustCompile(`^[a-z][a-z-]*$`)
	for _, f := range flags {
		if !form.MatchString(f.name) || f.why == "" || seen[f.name] {
			t.Errorf("flag %q: its name, its reason %q, or twice", f.name, f.why)
		}
		seen[f.name] = true
	}
}

// What is not on the list does not reach a browser, whatever its spelling; and
// what is on the list cannot be said twice, for the last one would count
// (AIP-63 L13, S4.6, S4.8).
func TestCheckRefuses(t *testing.T) {
	foreign := []string{
		"--user-data-dir=/home/ada/.config/chromium", "-user-data-dir=/elsewhere", "--user-data-dir=/data/temporary/k", "--USER-DATA-DIR=/x", "/user-data-dir=/x",
		"--profile-directory=Default", "-profile-directory=Profile 1",
		"--remote-debugging-port=9222", "-remote-debugging-port=0", "--remote-debugging-address=0.0.0.0", "--remote-allow-origins=*", "--remote-debugging-pipe",
		"--load-extension=/x", "--disable-extensions-except=/x", "--proxy-server=direct://", "--proxy-bypass-list=*", "--no-proxy-server", "--proxy-pac-url=x",
		"--no-sandbox", "--disable-web-security", "--ignore-certificate-errors", "--ignore-certificate-errors-spki-list=x", "--headless=old",
		"--enable-logging=stderr", "--", "", " ", "about:blank", "https://shop.test/", "--gpu-launcher=sh",
	}
	for _, arg := range foreign {
		argv := plain.list()
		for _, at := range []int{0, len(argv) / 2, len(argv)} {
			err := plain.check(slices.Insert(slices.Clone(argv), at, arg))
			e := browserhost.AsError(err)
			if err == nil || e.Code != browserhost.CodeProfileRefused || e.Cause["reason"] != "arg-override" || e.Execution != browserhost.NotStarted {
				t.Errorf("%q at %d: %v", arg, at, err)
			} else if strings.Contains(e.Error(), "/") {
				t.Errorf("the refusal tells an argument: %v", e)
			}
		}
	}
	for n, arg := range plain.list() {
		if err := plain.check(slices.Delete(plain.list(), n, n+1)); browserhost.CodeOf(err) != browserhost.CodeProfileRefused {
			t.Errorf("without %q: %v", arg, err)
		}
	}
	other := plain.list()
	other[slices.Index(other, "--user-data-dir=/data/temporary/k")] = "--user-data-dir=/data/temporary/other"
	if err := plain.check(other); browserhost.CodeOf(err) != browserhost.CodeProfileRefused {
		t.Errorf("another directory: %v", err)
	}
	if err := with(func(a *arguments) { a.proxy = "" }).check(plain.list()); err == nil {
		t.Error("a browser without a proxy would start")
	}
}

// The manifest is what is promised to the owner and to agents; the file changes
// with a line in the changelog.
func TestManifest(t *testing.T) {
	want, err := os.ReadFile("testdata/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(New(Config{}).Manifest())
	if err != nil {
		t.Fatal(err)
	}
	a, b := jsontext.Value(want), jsontext.Value(got)
	if a.Canonicalize() != nil || b.Canonicalize() != nil || string(a) != string(b) {
		t.Errorf("the manifest is\n%s\nnot\n%s", b, a)
	}
}
