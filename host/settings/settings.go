// Package settings reads what the owner decided: one strict file, with flags
// and environment variables over it. It knows every key, where a value may
// come from and what it may be; whoever needs a setting gets it as a plain
// value. No route and no device writes here.
//
// A key that this version does not serve is refused like a misspelt one, with
// its line: a setting that is silently ignored is worse than none.
package settings

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
)

// DefaultListen is where the host listens. It never takes another port by itself (K1).
const DefaultListen = "127.0.0.1:8863"

// Settings are the values of all keys. The zero value is not valid; [Load] makes one.
type Settings struct {
	Listen      netip.AddrPort // exact address; port 0 asks the system for one, which only tests do
	Expose      bool           // the owner's word that a listen address beyond loopback is meant
	Store       string         // "keychain" or "memory" (K7)
	OperatorCLI string         // "confirm" or "off"
	Chrome      Chrome
	RateScale   float64 // multiplies the rates of devices; 0 = off (K38)

	origins []Origin
}

// Chrome says which Chromium to run and how.
type Chrome struct {
	ExecutablePath string // "" = look for one
	DataDir        string // absolute; profiles and temporary directories live below it
	Headless       bool
	Sandbox        bool   // only the owner switches it off (S2.21)
	HeadlessShell  string // "auto" or "never"
}

// Origin says where a value comes from, for the owner to read.
type Origin struct {
	Key, Value string
	From       string // "default", "flag --listen", "env CHROME_EXECUTABLE_PATH" or "config.yaml:3"
}

// Origins returns one line per key, in the order of the documentation.
func (s Settings) Origins() []Origin { return append([]Origin(nil), s.origins...) }

// key is one setting: its names, where it may come from, its value as text.
type key struct {
	name string
	env  string // "" = no variable
	// fileFirst: the file wins over the variable, as seed 4 wants for CHROME_*.
	fileFirst bool
	initial   func(root string) string
	set       func(s *Settings, text string) error
}

func fixed(v string) func(string) string { return func(string) string { return v } }

// keys is the table of contract A, as far as it is served.
var keys = []key{
	{name: "listen", env: "BROWSERHOST_LISTEN", initial: fixed(DefaultListen), set: func(s *Settings, v string) (err error) {
		s.Listen, err = parseListen(v)
		return err
	}},
	{name: "expose", initial: fixed("false"), set: func(s *Settings, v string) error { return parseSwitch(&s.Expose, v) }},
	{name: "store", initial: fixed("keychain"), set: func(s *Settings, v string) error { return oneOf(&s.Store, v, "keychain", "memory") }},
	{name: "operator.cli", initial: fixed("confirm"), set: func(s *Settings, v string) error { return oneOf(&s.OperatorCLI, v, "confirm", "off") }},
	{name: "chrome.executablePath", env: "CHROME_EXECUTABLE_PATH", fileFirst: true, initial: fixed(""), set: func(s *Settings, v string) error {
		if v == "" {
			return nil
		}
		return absolute(&s.Chrome.ExecutablePath, v)
	}},
	{name: "chrome.dataDir", initial: func(root string) string { return filepath.Join(root, "browser", "chrome") }, set: func(s *Settings, v string) error {
		return absolute(&s.Chrome.DataDir, v)
	}},
	{name: "chrome.headless", initial: fixed("true"), set: func(s *Settings, v string) error { return parseSwitch(&s.Chrome.Headless, v) }},
	{name: "chrome.sandbox", initial: fixed("on"), set: func(s *Settings, v string) error { return parseSwitch(&s.Chrome.Sandbox, v) }},
	{name: "chrome.headlessShell", initial: fixed("auto"), set: func(s *Settings, v string) error {
		return oneOf(&s.Chrome.HeadlessShell, v, "auto", "never")
	}},
	{name: "limits.rateScale", initial: fixed("1"), set: func(s *Settings, v string) error { return parseScale(&s.RateScale, v) }},
}

// Load reads home/config.yaml, which may be missing, and puts flags and the
// environment over it. Flags are named by key. The order is flag, variable,
// file, default; for CHROME_* the file comes before the variable. Any error
// names the key and where it stands.
func Load(home string, flags map[string]string, environ func(string) string) (Settings, error) {
	file, err := readFile(filepath.Join(home, FileName))
	if err != nil {
		return Settings{}, err
	}
	root, err := Root(environ)
	if err != nil {
		return Settings{}, err
	}
	for name := range flags {
		if find(name) == nil {
			return Settings{}, fmt.Errorf("--%s: there is no such setting", name)
		}
	}
	var s Settings
	for _, k := range keys {
		o := k.choose(file, flags, environ, root)
		if err := k.set(&s, o.Value); err != nil {
			return Settings{}, fmt.Errorf("%s: %s: %w", o.From, k.name, err)
		}
		s.origins = append(s.origins, o)
	}
	return s, s.check()
}

// choose picks the value of a key and remembers where it was.
func (k key) choose(file map[string]entry, flags map[string]string, environ func(string) string, root string) Origin {
	if v, ok := flags[k.name]; ok {
		return Origin{k.name, v, "flag --" + k.name}
	}
	e, inFile := file[k.name]
	fromFile := Origin{k.name, e.text, fmt.Sprintf("%s:%d", FileName, e.line)}
	if inFile && k.fileFirst {
		return fromFile
	}
	if k.env != "" {
		if v := environ(k.env); v != "" {
			return Origin{k.name, v, "env " + k.env}
		}
	}
	if inFile {
		return fromFile
	}
	return Origin{k.name, k.initial(root), "default"}
}

// check looks at settings that only make sense together (S1.59).
func (s Settings) check() error {
	switch {
	case s.Listen.Addr().IsLoopback():
		return nil
	case !s.Expose:
		return fmt.Errorf("listen: %s is reachable from other computers; set expose: true only if that is what you want", s.Listen)
	default:
		return fmt.Errorf("listen: %s is reachable from other computers, which needs TLS, and this version has none; listen on 127.0.0.1", s.Listen)
	}
}

func find(name string) *key {
	for i := range keys {
		if keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}

func parseListen(v string) (netip.AddrPort, error) {
	if port, ok := cutHost(v, "localhost"); ok {
		v = "127.0.0.1:" + port
	}
	a, err := netip.ParseAddrPort(v)
	if err != nil || a.Addr().Zone() != "" {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address and a port such as %s", clip(v), DefaultListen)
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
}

func cutHost(v, host string) (port string, ok bool) {
	if len(v) > len(host) && v[:len(host)] == host && v[len(host)] == ':' {
		return v[len(host)+1:], true
	}
	return "", false
}

func parseSwitch(to *bool, v string) error {
	switch v {
	case "true", "on":
		*to = true
	case "false", "off":
		*to = false
	default:
		return fmt.Errorf("%q is neither true nor false", clip(v))
	}
	return nil
}

func oneOf(to *string, v string, allowed ...string) error {
	for _, a := range allowed {
		if v == a {
			*to = v
			return nil
		}
	}
	return fmt.Errorf("%q is not one of %v", clip(v), allowed)
}

func absolute(to *string, v string) error {
	if !filepath.IsAbs(v) {
		return fmt.Errorf("%q is not an absolute path", clip(v))
	}
	*to = filepath.Clean(v)
	return nil
}

// maxScale is far beyond every use, and keeps the arithmetic of rates sane.
const maxScale = 1000

func parseScale(to *float64, v string) error {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= 0 && f <= maxScale) { // NaN is neither
		return fmt.Errorf("%q is not a number from 0 to %d", clip(v), maxScale)
	}
	*to = f
	return nil
}

// clip keeps an error readable when the value is not.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
