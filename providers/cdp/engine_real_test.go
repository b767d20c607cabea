//go:build real && linux

package cdp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"browserhost"
)

// The programs that the engine is tested with.
const (
	full  = "chromium"
	shell = "chromium-headless-shell"
)

// launch starts a browser on a pipe and takes it over. It is gone after the test.
func launch(t testing.TB, program string, args ...string) *Browser {
	t.Helper()
	return takeOver(t, startOn(t, program, args...))
}

func takeOver(t testing.TB, rw io.ReadWriteCloser) *Browser {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := NewBrowser(ctx, Dial(rw))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// startOn starts a browser and returns its pipe.
func startOn(t testing.TB, program string, args ...string) *browserPipe {
	t.Helper()
	dir := t.TempDir()
	toR, toW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromR, fromW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{
		"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + filepath.Join(dir, "profile"),
		"--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--password-store=basic", "--disable-quic", "--enable-features=CDPScreenshotNewSurface",
		"--proxy-server=http://127.0.0.1:9", "--proxy-bypass-list=<-loopback>", "about:blank",
	}, args...)...)
	if os.Geteuid() == 0 {
		cmd.Args = append(cmd.Args, "--no-sandbox") // as root Chromium does not start with one
	}
	said := &tail{}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.Env = append(os.Environ(), "HOME="+dir)
	cmd.ExtraFiles = []*os.File{toR, fromW}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	toR.Close()
	fromW.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		toW.Close()
		fromR.Close()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		if t.Failed() {
			t.Logf("the browser said:\n%s", said)
		}
	})
	return &browserPipe{fromR, toW, cmd.Process.Pid}
}

// browserPipe is our two ends of a browser's pipe.
type browserPipe struct {
	*os.File
	w   *os.File
	pid int
}

func (p *browserPipe) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p *browserPipe) Close() error                { return errors.Join(p.w.Close(), p.File.Close()) }

// kill ends the browser as a crash would.
func (p *browserPipe) kill() { syscall.Kill(-p.pid, syscall.SIGKILL) }

// tail keeps the last of what a browser says.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (l *tail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, b...)
	l.buf = l.buf[max(0, len(l.buf)-4096):]
	return len(b), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.buf)
}

// web is a small web behind a proxy: whatever host is asked for, the proxy
// itself answers with the page of that path, and counts.
type web struct {
	*httptest.Server
	mu    sync.Mutex
	count map[string]int
	hit   chan struct{} // closed and replaced at every count
}

// serveWeb starts a web with pages by path.
func serveWeb(t testing.TB, pages map[string]string) *web {
	t.Helper()
	s := &web{count: map[string]int{}, hit: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.add(r.Method + " " + r.Host + r.URL.Path)
		body, ok := pages[r.URL.Path]
		switch {
		case strings.HasPrefix(r.URL.Path, "/press/"):
			s.add(strings.TrimPrefix(r.URL.Path, "/press/"))
		case r.URL.Path == "/cookies":
			io.WriteString(w, r.Header.Get("Cookie"))
		case r.URL.Path == "/hang":
			<-r.Context().Done()
		case !ok:
			http.NotFound(w, r)
		default:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, "<!doctype html><html lang=en>"+body)
		}
	}))
	t.Cleanup(s.Server.Close)
	return s
}

func (s *web) add(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[what]++
	close(s.hit)
	s.hit = make(chan struct{})
}

func (s *web) hits(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[what]
}

// reached waits until something was counted n times, and fails when it was
// counted more often.
func (s *web) reached(t testing.TB, what string, n int) {
	t.Helper()
	end := time.After(10 * time.Second)
	for {
		s.mu.Lock()
		got, hit := s.count[what], s.hit
		s.mu.Unlock()
		if got > n {
			t.Fatalf("%s: %d times, want %d", what, got, n)
		}
		if got == n {
			return
		}
		select {
		case <-hit:
		case <-end:
			t.Fatalf("%s: %d times, want %d", what, got, n)
		}
	}
}

// attach opens a context on a web.
func attach(t testing.TB, b *Browser, s *web, domains ...string) browserhost.Driver {
	t.Helper()
	d, err := b.Attach(t.Context(), browserhost.AttachOptions{Proxy: s.URL, Domains: domains})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// openAt opens a page and expects it to load.
func openAt(t testing.TB, d browserhost.Driver, url string) browserhost.Page {
	t.Helper()
	p, nav, err := d.NewPage(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if !nav.Loaded || nav.Failed != "" {
		t.Fatalf("%s: %+v", url, nav)
	}
	return p
}

// find takes a snapshot and finds the ref of the node whose line begins with what.
func find(t testing.TB, p browserhost.Page, what string) string {
	t.Helper()
	s, err := p.Snapshot(t.Context(), browserhost.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return findIn(t, s, what)
}

func findIn(t testing.TB, s browserhost.Snapshot, what string) string {
	t.Helper()
	for line := range strings.Lines(s.Text) {
		line = strings.TrimSpace(line)
		if from := strings.LastIndex(line, "["); strings.HasPrefix(line, what) && from >= 0 && strings.HasSuffix(line, "]") {
			return line[from+1 : len(line)-1]
		}
	}
	t.Fatalf("no %s in the snapshot:\n%s", what, s.Text)
	return ""
}
