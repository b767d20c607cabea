package settings

import (
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func environ(pairs ...string) func(string) string {
	m := map[string]string{"HOME": filepath.FromSlash("/home/ada")}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

func home(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Contract A: the defaults, on a machine where nothing is set.
func TestDefaults(t *testing.T) {
	s, err := Load(t.TempDir(), nil, environ())
	if err != nil {
		t.Fatal(err)
	}
	if s.Listen != netip.MustParseAddrPort("127.0.0.1:8863") || s.Expose || s.Store != "keychain" || s.OperatorCLI != "confirm" || s.RateScale != 1 {
		t.Errorf("%+v", s)
	}
	if c := s.Chrome; c.ExecutablePath != "" || !c.Headless || !c.Sandbox || c.HeadlessShell != "auto" || c.DataDir != filepath.FromSlash("/home/ada/.agentproto/browser/chrome") {
		t.Errorf("%+v", c)
	}
	for _, o := range s.Origins() {
		if o.From != "default" {
			t.Errorf("%+v", o)
		}
	}
}

// Contract A: flag over variable over file over default; for CHROME_* the file
// wins over the variable (seed 4). Each value says where it comes from.
func TestOrder(t *testing.T) {
	chrome, other := filepath.FromSlash("/opt/chrome"), filepath.FromSlash("/opt/other")
	if runtime.GOOS == "windows" {
		chrome, other = `C:\chrome`, `C:\other`
	}
	file := "listen: 127.0.0.1:1000\nchrome:\n  executablePath: " + chrome + "\n"
	for name, c := range map[string]struct {
		file         string
		flags        map[string]string
		env          []string
		listen, from string
		path, pathAt string
	}{
		"default":              {"", nil, nil, "127.0.0.1:8863", "default", "", "default"},
		"file":                 {file, nil, nil, "127.0.0.1:1000", "config.yaml:1", chrome, "config.yaml:3"},
		"variable":             {"", nil, []string{"BROWSERHOST_LISTEN", "[::1]:1", "CHROME_EXECUTABLE_PATH", other}, "[::1]:1", "env BROWSERHOST_LISTEN", other, "env CHROME_EXECUTABLE_PATH"},
		"variable with file":   {file, nil, []string{"BROWSERHOST_LISTEN", "[::1]:1", "CHROME_EXECUTABLE_PATH", other}, "[::1]:1", "env BROWSERHOST_LISTEN", chrome, "config.yaml:3"},
		"flag over everything": {file, map[string]string{"listen": "localhost:2", "chrome.executablePath": other}, []string{"BROWSERHOST_LISTEN", "[::1]:1"}, "127.0.0.1:2", "flag --listen", other, "flag --chrome.executablePath"},
	} {
		s, err := Load(home(t, c.file), c.flags, environ(c.env...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		from := map[string]string{}
		for _, o := range s.Origins() {
			from[o.Key] = o.From
		}
		if s.Listen.String() != c.listen || from["listen"] != c.from {
			t.Errorf("%s: listen %s from %s", name, s.Listen, from["listen"])
		}
		if s.Chrome.ExecutablePath != c.path || from["chrome.executablePath"] != c.pathAt {
			t.Errorf("%s: path %s from %s", name, s.Chrome.ExecutablePath, from["chrome.executablePath"])
		}
	}
}

// Contract A: what is not understood is an error that names the line and the key.
func TestStrictFile(t *testing.T) {
	for content, want := range map[string]string{
		"listn: 127.0.0.1:1":                      "config.yaml:1: listn is not a setting",
		"store: memory\nchrome:\n  headles: true": "config.yaml:3: chrome.headles is not a setting",
		"browse:\n  enabled: true":                "config.yaml:1: browse is not a setting",
		"chrome.headless: true":                   "config.yaml:1: chrome.headless is not a setting",
		"chrome: true":                            "config.yaml:1: chrome is not a mapping",
		"store: [memory]":                         "config.yaml:1: store is not a single value",
		"store:":                                  "config.yaml:1: store is not a single value",
		"store: &a memory\noperator: {cli: *a}":   "config.yaml:2: operator.cli is not a single value",
		"store: disk":                             `config.yaml:1: store: "disk" is not one of`,
		"expose: maybe":                           "config.yaml:1: expose:",
		"limits: {rateScale: -1}":                 "config.yaml:1: limits.rateScale:",
		"limits: {rateScale: .nan}":               "config.yaml:1: limits.rateScale:",
		"limits: {rateScale: 1001}":               "config.yaml:1: limits.rateScale:",
		"chrome:\n  dataDir: here":                "config.yaml:2: chrome.dataDir:",
		"listen: 8863":                            "config.yaml:1: listen:",
		"listen: shop.test:80":                    "config.yaml:1: listen:",
		"- store":                                 "is not a mapping",
		"a: b: c":                                 "not YAML",
		"store: memory\n---\nstore: keychain":     "more than one document",
		"store: memory\nstore: keychain":          "store",
		"# " + strings.Repeat("x", maxFile):       "larger than",
	} {
		_, err := Load(home(t, content), nil, environ())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", content, err, want)
		}
	}
	for _, content := range []string{"", "# nothing\n", "---\n", "null\n"} {
		if _, err := Load(home(t, content), nil, environ()); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// S2.21: the sandbox is on unless the owner's file says off, in the words of the documentation.
func TestSandboxOff(t *testing.T) {
	for word, want := range map[string]bool{"off": false, "on": true, "false": false, "true": true} {
		s, err := Load(home(t, "chrome:\n  sandbox: "+word), nil, environ())
		if err != nil || s.Chrome.Sandbox != want {
			t.Errorf("%s: %v, %v", word, s.Chrome.Sandbox, err)
		}
	}
}

// S1.59: another address than loopback needs the owner's word, and more than this version has.
func TestListenBeyondLoopback(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:8863", "[::]:8863", "192.0.2.1:8863", "[::ffff:192.0.2.1]:8863"} {
		if _, err := Load(t.TempDir(), map[string]string{"listen": addr}, environ()); err == nil || !strings.Contains(err.Error(), "expose") {
			t.Errorf("%s: %v", addr, err)
		}
		if _, err := Load(t.TempDir(), map[string]string{"listen": addr, "expose": "true"}, environ()); err == nil || !strings.Contains(err.Error(), "TLS") {
			t.Errorf("%s exposed: %v", addr, err)
		}
	}
	for _, addr := range []string{"127.0.0.2:1", "[::1]:65535", "[::ffff:127.0.0.1]:8863", "localhost:0"} {
		if _, err := Load(t.TempDir(), map[string]string{"listen": addr}, environ()); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// A misspelt flag is an error too.
func TestUnknownFlag(t *testing.T) {
	if _, err := Load(t.TempDir(), map[string]string{"listn": "x"}, environ()); err == nil || !strings.Contains(err.Error(), "--listn") {
		t.Fatal(err)
	}
}

// Where state lives: design §5.
func TestHome(t *testing.T) {
	abs := func(s string) string {
		if runtime.GOOS == "windows" {
			s = "C:" + s
		}
		return filepath.FromSlash(s)
	}
	for name, c := range map[string]struct {
		env        []string
		home, root string
	}{
		"nothing set":      {nil, filepath.FromSlash("/home/ada/.agentproto/browserhost"), filepath.FromSlash("/home/ada/.agentproto")},
		"AGENTPROTO_HOME":  {[]string{"AGENTPROTO_HOME", abs("/a")}, abs("/a/browserhost"), abs("/a")},
		"BROWSERHOST_HOME": {[]string{"BROWSERHOST_HOME", abs("/b/"), "AGENTPROTO_HOME", abs("/a")}, abs("/b"), abs("/a")},
	} {
		h, err := Home(environ(c.env...))
		r, err2 := Root(environ(c.env...))
		if h != c.home || r != c.root || err != nil || err2 != nil {
			t.Errorf("%s: %s, %s, %v, %v", name, h, r, err, err2)
		}
	}
	for _, name := range []string{"BROWSERHOST_HOME", "AGENTPROTO_HOME"} {
		if _, err := Home(environ(name, "here")); err == nil {
			t.Errorf("a relative %s is accepted", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("listen: 127.0.0.1:8863\nchrome:\n  sandbox: off\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := parse(data)
		if err != nil {
			return
		}
		for name, e := range found {
			if find(name) == nil || e.line < 1 {
				t.Fatalf("accepted %q at line %d", name, e.line)
			}
		}
	})
}
