//go:build unix

package chrome

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"browserhost"
	"browserhost/providers/proc"
)

const proxy = "http://127.0.0.1:4711"

// pretended is a provider whose browser is this test binary.
func pretended(t *testing.T, mode string) (p *Provider, exe, dataDir string) {
	t.Helper()
	dir := t.TempDir()
	exe = install(t, filepath.Join(dir, "bin", "chromium"), mode)
	dataDir = filepath.Join(dir, "data")
	return New(Config{ExecutablePath: exe, DataDir: dataDir, NoSandbox: true}), exe, dataDir
}

// nothingLeft holds the promise of every launch that failed and of every stop.
func nothingLeft(t *testing.T, dataDir, key string) {
	t.Helper()
	if n, err := proc.Sweep(context.Background(), key); n != 0 || err != nil {
		t.Errorf("%d processes were left: %v", n, err)
	}
	if left, _ := os.ReadDir(filepath.Join(dataDir, temporary)); len(left) > 0 {
		t.Errorf("a profile was left: %v", left)
	}
}

// mustNotTell looks for what no agent may see (S3.19).
func mustNotTell(t *testing.T, err error) {
	t.Helper()
	e := browserhost.AsError(err)
	text := e.Error()
	for _, v := range e.Cause {
		text += " " + v.(string)
	}
	for _, bad := range []string{"/", "secret", "shop.test", "4F3A99", "file.cc", "127.0.0.1"} {
		if strings.Contains(text, bad) {
			t.Errorf("the error tells %q: %s", bad, text)
		}
	}
}

// One launch from beginning to end: a fresh, closed directory of its own, a
// browser that answers, and nothing of either after the stop (AIP-63 L5, L13,
// S3.18, S4.3, S4.8).
func TestLaunch(t *testing.T) {
	t.Setenv("SSLKEYLOGFILE", filepath.Join(t.TempDir(), "keys"))
	t.Setenv("GOOGLE_API_KEY", "k")
	t.Setenv("LC_ALL", "C.UTF-8")
	p, exe, dataDir := pretended(t, "")
	write(t, filepath.Join(dataDir, temporary, run+"launch-1", "left by a killed run"), "", 0o600)
	i, err := p.Launch(t.Context(), browserhost.LaunchOptions{Key: run + "launch-1", Proxy: proxy})
	if err != nil {
		t.Fatal(err)
	}
	s, ok := startOf(t, exe)
	if !ok {
		t.Fatal("nothing was started")
	}
	dir, _ := filepath.EvalSymlinks(filepath.Join(dataDir, temporary, run+"launch-1"))
	if s.Dir != dir || len(s.Inside) > 0 || s.Mode != "drwx------" {
		t.Errorf("it was started in %s with %v, %s", s.Dir, s.Inside, s.Mode)
	}
	if s.Args[0] != proc.Flag+run+"launch-1" {
		t.Errorf("its marker is %q", s.Args[0])
	}
	want := arguments{dir: dir, proxy: proxy, noSandbox: true}.list()
	if !slices.Equal(s.Args[1:], want) {
		t.Errorf("its arguments are\n%q, want\n%q", s.Args[1:], want)
	}
	var names []string
	for _, v := range s.Env {
		name, value, _ := strings.Cut(v, "=")
		names = append(names, name)
		if name == "HOME" && value != dir && os.Getenv("HOME") != value {
			t.Errorf("its home is %s", value)
		}
	}
	if !slices.Contains(names, "LC_ALL") || slices.Contains(names, "SSLKEYLOGFILE") || slices.Contains(names, "GOOGLE_API_KEY") {
		t.Errorf("its environment has %q", names)
	}
	h := i.Health(t.Context())
	if h.State != browserhost.Healthy || h.BootID != i.BootID() || h.BootID == "" || h.CheckedAt.IsZero() {
		t.Errorf("its health is %+v", h)
	}
	if i.LostReason() != nil {
		t.Errorf("a browser that runs was lost: %v", i.LostReason())
	}
	for range 2 {
		if n, err := i.Stop(t.Context(), false); n != 0 || err != nil {
			t.Errorf("Stop = %d, %v", n, err)
		}
	}
	<-i.Lost()
	nothingLeft(t, dataDir, run+"launch-1")
	if h := i.Health(t.Context()); h.State != browserhost.Stopped {
		t.Errorf("its health after the stop is %+v", h)
	}
	if _, err := i.Attach(t.Context(), browserhost.AttachOptions{Proxy: proxy}); browserhost.CodeOf(err) != browserhost.CodeNotReady {
		t.Errorf("a context of a stopped browser: %v", err) // AIP-63 L3
	}
}

// Each start has its own boot id (AIP-63 L12), and a key's directory is fresh
// each time.
func TestLaunchAgain(t *testing.T) {
	p, exe, dataDir := pretended(t, "")
	boots := map[string]bool{}
	for range 2 {
		i, err := p.Launch(t.Context(), browserhost.LaunchOptions{Key: run + "again-1", Proxy: proxy})
		if err != nil {
			t.Fatal(err)
		}
		if s, _ := startOf(t, exe); len(s.Inside) > 0 {
			t.Errorf("the directory had %v in it", s.Inside)
		}
		boots[i.BootID()] = true
		if _, err := i.Stop(t.Context(), true); err != nil {
			t.Error(err)
		}
	}
	if len(boots) != 2 {
		t.Error("two starts have one boot id")
	}
	nothingLeft(t, dataDir, run+"again-1")
}

// A browser that does not close when asked is killed, with or without patience
// (AIP-63 L5).
func TestStopKills(t *testing.T) {
	p, _, dataDir := pretended(t, "deaf")
	for _, force := range []bool{true, false} {
		i, err := p.Launch(t.Context(), browserhost.LaunchOptions{Key: run + "stop-1", Proxy: proxy})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // no patience
		if n, err := i.Stop(ctx, force); n != 0 || err != nil {
			t.Errorf("Stop = %d, %v", n, err)
		}
		if e := i.LostReason().Error(); !strings.Contains(e, "signal: killed") {
			t.Errorf("it ended so: %s", e)
		}
		nothingLeft(t, dataDir, run+"stop-1")
	}
}

// A launch that fails leaves neither process nor directory, and its error tells
// no path, number or address (S3.19).
func TestLaunchFails(t *testing.T) {
	t.Run("it ends", func(t *testing.T) {
		p, _, dataDir := pretended(t, "dies")
		_, err := p.Launch(t.Context(), browserhost.LaunchOptions{Key: run + "fail-1", Proxy: proxy})
		e := browserhost.AsError(err)
		if e.Code != browserhost.CodeNotReady || !strings.Contains(e.Message, "exit status 7") || e.Cause["reason"] != "Cannot open … for … id …" {
			t.Errorf("%v, %v", e, e.Cause)
		}
		if e.Execution != browserhost.NotStarted {
			t.Errorf("execution is %q", e.Execution)
		}
		mustNotTell(t, err)
		nothingLeft(t, dataDir, run+"fail-1")
	})
	t.Run("it does not answer", func(t *testing.T) {
		p, exe, dataDir := pretended(t, "mute")
		if err := syscall.Mkfifo(exe+".mute", 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			os.ReadFile(exe + ".mute") // until it says that it runs
			cancel()
		}()
		_, err := p.Launch(ctx, browserhost.LaunchOptions{Key: run + "mute-1", Proxy: proxy})
		if e := browserhost.AsError(err); e.Code != browserhost.CodeNotReady || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		mustNotTell(t, err)
		nothingLeft(t, dataDir, run+"mute-1")
	})
	t.Run("it is none", func(t *testing.T) {
		dataDir := t.TempDir()
		p := New(Config{ExecutablePath: write(t, filepath.Join(t.TempDir(), "chromium"), "text", 0o600), DataDir: dataDir})
		_, err := p.Launch(t.Context(), browserhost.LaunchOptions{Key: run + "none-1", Proxy: proxy})
		if e := browserhost.AsError(err); e.Code != browserhost.CodeNotReady || e.Message != "the configured browser is not a program" {
			t.Errorf("%v", err)
		}
		nothingLeft(t, dataDir, run+"none-1")
	})
	t.Run("without a proxy", func(t *testing.T) {
		p, exe, dataDir := pretended(t, "")
		if _, err := p.Launch(t.Context(), browserhost.LaunchOptions{Key: run + "bare-1"}); browserhost.CodeOf(err) != browserhost.CodeProfileRefused {
			t.Errorf("%v", err) // K10
		}
		if _, ok := startOf(t, exe); ok {
			t.Error("it was started")
		}
		nothingLeft(t, dataDir, run+"bare-1")
	})
	t.Run("with a key that is a path", func(t *testing.T) {
		p, exe, dataDir := pretended(t, "")
		for _, key := range []string{"", "..", ".", "a/b", "../b"} {
			if _, err := p.Launch(t.Context(), browserhost.LaunchOptions{Key: key, Proxy: proxy}); err == nil {
				t.Errorf("the key %q was taken", key)
			}
		}
		if _, ok := startOf(t, exe); ok {
			t.Error("it was started")
		}
		nothingLeft(t, dataDir, run+"bare")
	})
}

// The sandbox is never switched off by the provider's own idea: the superuser
// is refused before anything is made (S2.21).
func TestNoSandboxIsTheOwners(t *testing.T) {
	p, exe, dataDir := pretended(t, "")
	p.config.NoSandbox, p.root = false, true
	_, err := p.Launch(t.Context(), browserhost.LaunchOptions{Key: run + "root-1", Proxy: proxy})
	if e := browserhost.AsError(err); e.Code != browserhost.CodeNotReady || !strings.Contains(e.Message, "sandbox") {
		t.Errorf("%v", err)
	}
	p.root = false
	i, err := p.Launch(t.Context(), browserhost.LaunchOptions{Key: run + "root-1", Proxy: proxy})
	if err != nil {
		t.Fatal(err)
	}
	i.Stop(t.Context(), true)
	if s, _ := startOf(t, exe); slices.Contains(s.Args, "--no-sandbox") {
		t.Error("the sandbox was switched off by nobody")
	}
	nothingLeft(t, dataDir, run+"root-1")
}

// A browser that dies is lost, with its reason, and leaves nothing.
func TestLost(t *testing.T) {
	p, _, dataDir := pretended(t, "")
	i, err := p.Launch(t.Context(), browserhost.LaunchOptions{Key: run + "lost-1", Proxy: proxy})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(i.(*instance).process.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-i.Lost()
	if e := browserhost.AsError(i.LostReason()); e.Code != browserhost.CodeDisconnected || e.Message != "the browser ended (signal: killed)" {
		t.Errorf("%v", e)
	}
	nothingLeft(t, dataDir, run+"lost-1")
	if n, err := i.Stop(t.Context(), false); n != 0 || err != nil {
		t.Errorf("Stop = %d, %v", n, err)
	}
}

// A browser that runs on but has hung up is not healthy, and is ended all the
// same (AIP-63 L4, L5).
func TestHangsUp(t *testing.T) {
	p, _, dataDir := pretended(t, "hangs up")
	i, err := p.Launch(t.Context(), browserhost.LaunchOptions{Key: run + "hang-1", Proxy: proxy})
	if err != nil {
		t.Fatal(err)
	}
	if h := i.Health(t.Context()); h.State != browserhost.Degraded || h.Reason == "" || h.BootID != i.BootID() {
		t.Errorf("its health is %+v", h)
	}
	if n, err := i.Stop(t.Context(), true); n != 0 || err != nil {
		t.Errorf("Stop = %d, %v", n, err)
	}
	if e := i.LostReason().Error(); !strings.Contains(e, "signal: killed") {
		t.Errorf("it ended so: %s", e)
	}
	nothingLeft(t, dataDir, run+"hang-1")
}
