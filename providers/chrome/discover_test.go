//go:build unix

package chrome

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"browserhost"
)

const script = "#!/bin/sh\nexec false\n"

// The browser behind a distribution's script is found, the headless shell where
// it is wanted, and nothing else than what the owner named; the reason never
// tells a path (S3.13, S3.15, S3.40, S4.2).
func TestDiscover(t *testing.T) {
	for name, c := range map[string]struct {
		setUp  func(t *testing.T, root string) Config
		finds  string // below root
		why    string
		headed string // found for a launch with a window, where it differs
	}{
		"nothing": {setUp: func(*testing.T, string) Config { return Config{HeadlessShell: true} }, why: errNone.Error()},
		"on the path": {setUp: func(t *testing.T, root string) Config {
			install(t, root+"/bin/chromium", "")
			return Config{}
		}, finds: "/bin/chromium"},
		"Debian's script": {setUp: func(t *testing.T, root string) Config {
			write(t, root+"/bin/chromium", script, 0o700)
			install(t, root+"/lib/chromium/chromium", "")
			return Config{}
		}, finds: "/lib/chromium/chromium"},
		"Debian's shell": {setUp: func(t *testing.T, root string) Config {
			write(t, root+"/bin/chromium", script, 0o700)
			install(t, root+"/lib/chromium/chromium", "")
			write(t, root+"/bin/chromium-headless-shell", script, 0o700)
			install(t, root+"/lib/chromium/chromium-headless-shell", "")
			return Config{HeadlessShell: true}
		}, finds: "/lib/chromium/chromium-headless-shell", headed: "/lib/chromium/chromium"},
		"the shell, not wanted": {setUp: func(t *testing.T, root string) Config {
			install(t, root+"/bin/chromium-headless-shell", "")
			return Config{}
		}, why: errNone.Error()},
		"Google's link and script": {setUp: func(t *testing.T, root string) Config {
			write(t, root+"/opt/google/chrome/google-chrome", script, 0o700)
			install(t, root+"/opt/google/chrome/chrome", "")
			symlink(t, root+"/opt/google/chrome/google-chrome", root+"/bin/google-chrome-stable")
			return Config{}
		}, finds: "/opt/google/chrome/chrome"},
		"Fedora's script": {setUp: func(t *testing.T, root string) Config {
			write(t, root+"/lib64/chromium/chromium.sh", script, 0o700)
			install(t, root+"/lib64/chromium/chromium", "")
			symlink(t, root+"/lib64/chromium/chromium.sh", root+"/bin/chromium-browser")
			return Config{}
		}, finds: "/lib64/chromium/chromium"},
		"a script before nothing": {setUp: func(t *testing.T, root string) Config {
			write(t, root+"/bin/chromium", script, 0o700)
			return Config{}
		}, why: "the installed browser is a script, and which browser it starts is not known"},
		"the next after a script": {setUp: func(t *testing.T, root string) Config {
			write(t, root+"/bin/chromium", script, 0o700)
			install(t, root+"/opt/chrome", "")
			symlink(t, root+"/opt/chrome", root+"/bin/google-chrome")
			return Config{}
		}, finds: "/opt/chrome"},
		"a snap": {setUp: func(t *testing.T, root string) Config {
			write(t, root+"/snapd/snap", "x", 0o700)
			symlink(t, root+"/snapd/snap", root+"/bin/chromium")
			return Config{}
		}, why: "the installed browser is a snap, which may not use a profile of this host"},
		"named": {setUp: func(t *testing.T, root string) Config {
			install(t, root+"/bin/chromium", "")
			return Config{ExecutablePath: install(t, root+"/mine/chromium", ""), HeadlessShell: true}
		}, finds: "/mine/chromium"},
		"named, by Debian's script": {setUp: func(t *testing.T, root string) Config {
			install(t, root+"/lib/chromium/chromium", "")
			return Config{ExecutablePath: write(t, root+"/bin/chromium", script, 0o700)}
		}, finds: "/lib/chromium/chromium"},
		"named, a script of the owner's": {setUp: func(t *testing.T, root string) Config {
			return Config{ExecutablePath: write(t, root+"/mine/run.sh", "#!/bin/sh\necho Chromium 1.2.3.4\n", 0o700)}
		}, finds: "/mine/run.sh"},
		"named, not there": {setUp: func(t *testing.T, root string) Config {
			install(t, root+"/bin/chromium", "")
			return Config{ExecutablePath: root + "/mine/chromium"}
		}, why: "the configured browser is not there"},
		"named, relative": {setUp: func(t *testing.T, root string) Config {
			return Config{ExecutablePath: "chromium"}
		}, why: "the configured browser is not named by an absolute path"},
		"named, a directory": {setUp: func(t *testing.T, root string) Config {
			return Config{ExecutablePath: root}
		}, why: "the configured browser cannot be read"},
		"named, no program": {setUp: func(t *testing.T, root string) Config {
			return Config{ExecutablePath: write(t, root+"/mine/chromium", "text", 0o600)}
		}, why: "the configured browser is not a program"},
		"named, ends with an error": {setUp: func(t *testing.T, root string) Config {
			return Config{ExecutablePath: write(t, root+"/mine/x", script, 0o700)}
		}, why: "the configured browser does not say its version"},
		"named, no browser": {setUp: func(t *testing.T, root string) Config {
			return Config{ExecutablePath: install(t, root+"/mine/chromium", "nameless")}
		}, why: "the configured browser does not say a version that is known"},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(root+"/bin", 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", root+"/bin")
			p := New(c.setUp(t, root))
			d := p.Discover(t.Context())
			if c.why != "" {
				if d.Runnable || d.Why != c.why || strings.Contains(d.Why, root) || d.Path != "" {
					t.Errorf("discovered %+v, want %q", d, c.why)
				}
				if _, err := p.Launch(t.Context(), browserhost.LaunchOptions{Key: "k", Proxy: proxy}); browserhost.CodeOf(err) != browserhost.CodeNotReady {
					t.Errorf("Launch: %v", err)
				}
				return
			}
			if !d.Runnable || d.Path != root+c.finds || d.Version == "" || d.Why != "" {
				t.Errorf("discovered %+v, want %s", d, c.finds)
			}
			if c.headed == "" {
				c.headed = c.finds
			}
			if prog, err := p.choose(t.Context(), true); err != nil || prog.path != root+c.headed {
				t.Errorf("with a window: %+v, %v, want %s", prog, err, c.headed)
			}
		})
	}
}

func symlink(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

// The configured headless shell has no windows to show.
func TestShellHasNoWindows(t *testing.T) {
	p := New(Config{ExecutablePath: install(t, filepath.Join(t.TempDir(), "chrome-headless-shell"), "")})
	if prog, err := p.choose(t.Context(), false); err != nil || !prog.shell {
		t.Errorf("%+v, %v", prog, err)
	}
	if _, err := p.choose(t.Context(), true); browserhost.CodeOf(err) != browserhost.CodeNotReady {
		t.Errorf("%v", err)
	}
}

// A program is asked once for as long as the file is the same, and again when
// it was replaced.
func TestVersionIsKept(t *testing.T) {
	exe := install(t, filepath.Join(t.TempDir(), "chromium"), "")
	p := New(Config{ExecutablePath: exe})
	asked := func() int {
		text, _ := os.ReadFile(exe + ".asked")
		return len(text)
	}
	for range 3 {
		if d := p.Discover(t.Context()); d.Version != "Chromium 156.0.8078.114" {
			t.Fatalf("%+v", d)
		}
	}
	if asked() != 1 {
		t.Errorf("it was asked %d times", asked())
	}
	if err := os.Remove(exe); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(must(os.Executable()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exe, program, 0o700); err != nil {
		t.Fatal(err)
	}
	p.Discover(t.Context())
	if asked() != 2 {
		t.Errorf("it was asked %d times after an update", asked())
	}
}

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

// A program that hangs on the question does not hang the host.
func TestVersionIsBounded(t *testing.T) {
	p := New(Config{ExecutablePath: install(t, filepath.Join(t.TempDir(), "chromium"), "hangs")})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if d := p.Discover(ctx); d.Runnable || d.Why != "the configured browser does not say its version" {
		t.Errorf("%+v", d)
	}
}

// Each system has its places, best first (S4.2).
func TestCandidates(t *testing.T) {
	env := func(name string) string {
		return map[string]string{"HOME": "/h", "PROGRAMFILES": `C:\P`, "LOCALAPPDATA": `C:\L`}[name]
	}
	for goos, want := range map[string][]string{
		"linux":   {"chromium", "google-chrome", "google-chrome-stable", "chromium-browser"},
		"darwin":  {"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/h/Applications/Chromium.app/Contents/MacOS/Chromium"},
		"windows": {`C:\P\Google\Chrome\Application\chrome.exe`, `C:\L\Chromium\Application\chrome.exe`},
	} {
		got := candidates(goos, env)
		at := -1
		for _, w := range want {
			n := slices.Index(got, w)
			if n <= at {
				t.Errorf("%s: %s is not in its place among %q", goos, w, got)
			}
			at = n
		}
	}
}

// On Windows the version is the name of the directory beside the program.
func TestVersionBeside(t *testing.T) {
	dir := t.TempDir()
	exe := filepath.Join(dir, "chrome.exe")
	if v, err := versionBeside(exe); err == nil {
		t.Errorf("an empty directory says %q", v)
	}
	for _, name := range []string{"155.0.1.2", "156.0.8078.114", "Dictionaries"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := versionBeside(exe); v != "Chrome 156.0.8078.114" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
}
