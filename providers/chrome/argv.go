package chrome

import (
	"slices"
	"strings"

	"browserhost"
)

// arguments are what a command line is made of.
type arguments struct {
	dir       string
	proxy     string // "http://127.0.0.1:PORT"
	spki      []string
	headed    bool
	shell     bool // the headless shell, which knows no windows
	noSandbox bool
}

func (a arguments) full() bool     { return !a.shell }
func (a arguments) headless() bool { return !a.headed && !a.shell }

// flag is one argument that this provider passes.
type flag struct {
	name  string
	value func(a arguments) string // nil: it has none
	when  func(a arguments) bool   // nil: always
	why   string
}

func is(v string) func(arguments) string { return func(arguments) string { return v } }

// flags is the whole list. What is not here is not passed, by nobody (AIP-63 L13).
var flags = []flag{
	{name: "remote-debugging-pipe", why: "no port exists that another program could reach (S1.61, K16)"},
	{name: "user-data-dir", value: func(a arguments) string { return a.dir }, why: "the directory made for this launch alone (S3.18)"},
	{name: "headless", value: is("new"), when: arguments.headless, why: "no window"},
	{name: "no-sandbox", when: func(a arguments) bool { return a.noSandbox }, why: "the owner's chrome.sandbox: off, by name (S2.21)"},

	{name: "proxy-server", value: func(a arguments) string { return a.proxy }, why: "whatever no context owns goes to a listener that refuses it (K10)"},
	{name: "proxy-bypass-list", value: is("<-loopback>"), why: "loopback is no exception (S2.33)"},
	{name: "host-resolver-rules", value: is("MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), why: "no name is looked up here: proxies are given names (S2.30)"},
	{name: "disable-quic", why: "it would pass beside the proxy (S2.33)"},
	{name: "webrtc-ip-handling-policy", value: is("disable_non_proxied_udp"), when: arguments.full, why: "so would WebRTC (S2.33)"},
	{name: "force-webrtc-ip-handling-policy", value: is("disable_non_proxied_udp"), when: func(a arguments) bool { return a.shell }, why: "the same; the headless shell knows it by this name alone"},
	{name: "ignore-certificate-errors-spki-list", value: func(a arguments) string { return strings.Join(a.spki, ",") },
		when: func(a arguments) bool { return len(a.spki) > 0 }, why: "test sites, by their keys"},

	{name: "password-store", value: is("basic"), why: "the person's keyring is not asked and not written to"},
	{name: "use-mock-keychain", why: "the same on macOS"},
	{name: "no-first-run", why: "no page of the browser's own"},
	{name: "no-default-browser-check", why: "no question to the person"},
	{name: "no-startup-window", when: arguments.full, why: "only the pages that somebody asks for"},
	{name: "hide-crash-restore-bubble", when: arguments.full, why: "nothing is restored"},
	{name: "window-size", value: is("1280,720"), why: "the viewport of a page without a window is 780×493 otherwise"},

	{name: "disable-background-networking", why: "nothing that nobody asked for"},
	{name: "disable-component-update", why: "the same"},
	{name: "disable-sync", why: "the same"},
	{name: "disable-domain-reliability", why: "the same"},
	{name: "disable-breakpad", why: "a dump of the memory would hold sign-ins"},
	{name: "disable-extensions", why: "no code of others, those of the system included"},
	{name: "disable-field-trial-config", why: "one browser behaves as the next"},
	{name: "disable-features", value: is("MediaRouter,DialMediaRouteProvider,Translate"), why: "no search for devices in the local network, no bubble over the page"},

	{name: "disable-backgrounding-occluded-windows", why: "a page works whether or not it is seen"},
	{name: "disable-renderer-backgrounding", why: "the same"},
	{name: "enable-features", value: is("CDPScreenshotNewSurface"), when: arguments.headless, why: "pictures of pages behind others do not hang"},
}

// list makes the command line, without the program and the marker.
func (a arguments) list() []string {
	var out []string
	for _, f := range flags {
		switch {
		case f.when != nil && !f.when(a):
		case f.value == nil:
			out = append(out, "--"+f.name)
		default:
			out = append(out, "--"+f.name+"="+f.value(a))
		}
	}
	return out
}

// check holds a command line against the list right before it is used: each
// argument that belongs there once, in its exact spelling, and no other. A
// browser takes one dash for two and the last of two for the only one, so that
// a blacklist would have holes (S4.6, S4.8).
func (a arguments) check(argv []string) error {
	if a.proxy == "" {
		return refused("arg-override", "a browser without a proxy is not started")
	}
	missing := a.list()
	for _, arg := range argv {
		n := slices.Index(missing, arg)
		if n < 0 {
			return refused("arg-override", "an argument of the browser is not one that this host passes")
		}
		missing = slices.Delete(missing, n, n+1)
	}
	if len(missing) > 0 {
		return refused("arg-override", "an argument of the browser is missing")
	}
	return nil
}

// refused is seed 4's browser:profile-refused. The reason is one of its words:
// default-user-data-dir, default-profile-name or arg-override.
func refused(reason, message string) *browserhost.Error {
	return browserhost.Errorf(browserhost.CodeProfileRefused, "%s", message).With("reason", reason).State(browserhost.NotStarted)
}
