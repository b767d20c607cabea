//go:build real && linux

package chrome

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"browserhost"
	"browserhost/providers/proc"
)

// kinds are the two browsers that a host without a window runs.
var kinds = map[string]bool{"chromium": false, "headless shell": true}

// installed is a provider of the browsers of this machine, as the superuser if
// that is who tests here.
func installed(t *testing.T, shell bool) *Provider {
	t.Helper()
	return New(Config{HeadlessShell: shell, DataDir: filepath.Join(t.TempDir(), "data"), NoSandbox: os.Geteuid() == 0})
}

func launch(t *testing.T, p *Provider, key, proxy string) *instance {
	t.Helper()
	i, err := p.Launch(t.Context(), browserhost.LaunchOptions{Key: key, Proxy: proxy})
	if err != nil {
		t.Fatal(err, browserhost.AsError(err).Unwrap())
	}
	t.Cleanup(func() { i.Stop(context.Background(), true) })
	return i.(*instance)
}

// tree lists the processes of a launch: those of its group and those that name
// its directory, such as the crash handlers, which leave the group.
func tree(t *testing.T, main int, dir string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		group, _ := unix.Getpgid(pid)
		args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if group == main || strings.Contains(string(args), "user-data-dir="+dir) || strings.Contains(string(env), "HOME="+dir) {
			out = append(out, pid)
		}
	}
	return out
}

// watching holds the processes; the function waits until all have ended.
func watching(t *testing.T, pids []int) (allEnd func(within time.Duration) bool) {
	t.Helper()
	var held []unix.PollFd
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err == unix.ESRCH {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		held = append(held, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return func(within time.Duration) bool {
		until := time.Now().Add(within)
		for _, h := range held {
			for {
				n, err := unix.Poll([]unix.PollFd{h}, int(max(0, time.Until(until)).Milliseconds()))
				if err == unix.EINTR {
					continue
				}
				if n == 0 {
					return false
				}
				break
			}
		}
		return true
	}
}

// Launch, health, stop, with both browsers: it answers, listens nowhere, leaves
// nothing (AIP-63 L4, L5, L13, S1.61, S3.18, S3.20, S4.1, S4.5).
func TestChromium(t *testing.T) {
	for name, shell := range kinds {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("TMPDIR", t.TempDir())
			p := installed(t, shell)
			d := p.Discover(t.Context())
			if !d.Runnable || !strings.HasPrefix(d.Version, "Chromium ") || strings.Contains(d.Path, "headless-shell") != shell {
				t.Fatalf("discovered %+v", d)
			}
			began := time.Now()
			i := launch(t, p, run+"real-1", "http://127.0.0.1:9")
			t.Logf("launch: %v, %s", time.Since(began).Round(time.Millisecond), i.product)
			if h := i.Health(t.Context()); h.State != browserhost.Healthy {
				t.Errorf("its health is %+v", h)
			}
			pids := tree(t, i.process.PID(), i.dir)
			if len(pids) < 3 {
				t.Errorf("its processes are %v", pids)
			}
			for _, pid := range pids {
				if at := listening(t, pid); at != "" {
					t.Errorf("process %d of it listens at %s", pid, at)
				}
			}
			allEnd := watching(t, pids)
			began = time.Now()
			if n, err := i.Stop(t.Context(), false); n != 0 || err != nil {
				t.Errorf("Stop = %d, %v", n, err)
			}
			t.Logf("stop: %v, %v", time.Since(began).Round(time.Millisecond), i.LostReason())
			if !allEnd(5 * time.Second) {
				t.Error("a process of it is left")
			}
			if e := i.LostReason().Error(); !strings.Contains(e, "exit status 0") {
				t.Errorf("it did not end in order: %s", e)
			}
			nothingLeft(t, p.config.DataDir, run+"real-1")
			for _, dir := range []string{home, os.TempDir()} {
				filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
					if path != dir {
						t.Errorf("it left %s", path)
					}
					return err
				})
			}
		})
	}
}

// listening is a TCP address at which the process listens; "" for none.
func listening(t *testing.T, pid int) string {
	t.Helper()
	inodes := map[string]string{}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			return "" // ended
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" {
				inodes["socket:["+f[9]+"]"] = f[1]
			}
		}
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		to, _ := os.Readlink(filepath.Join(dir, e.Name()))
		if at, ok := inodes[to]; ok {
			return at
		}
	}
	return ""
}

// Killed, the browser is lost with its reason, and nothing of it stays, the
// socket in the temporary directory included.
func TestChromiumKilled(t *testing.T) {
	for name, shell := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			p := installed(t, shell)
			i := launch(t, p, run+"killed-1", "http://127.0.0.1:9")
			d, err := i.Attach(t.Context(), browserhost.AttachOptions{Proxy: "http://127.0.0.1:9"})
			if err != nil {
				t.Fatal(err)
			}
			page, _, err := d.NewPage(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			allEnd := watching(t, tree(t, i.process.PID(), i.dir))
			began := time.Now()
			syscall.Kill(i.process.PID(), syscall.SIGKILL)
			<-i.Lost()
			<-page.Gone()
			t.Logf("lost after %v: %v", time.Since(began).Round(time.Millisecond), i.LostReason())
			if e := i.LostReason().Error(); !strings.Contains(e, "signal: killed") {
				t.Errorf("the reason is %s", e)
			}
			mustNotTell(t, i.LostReason())
			if !allEnd(5 * time.Second) {
				t.Error("a process of it is left")
			}
			nothingLeft(t, p.config.DataDir, run+"killed-1")
			if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
				t.Errorf("it left %v in the temporary directory", left)
			}
			if err := page.Close(t.Context()); browserhost.CodeOf(err) != browserhost.CodeTargetGone {
				t.Errorf("a page of a browser that is gone: %v", err) // AIP-63 L12
			}
		})
	}
}

// The host killed with -9 takes its browser along: within five seconds no
// process of the tree is left, without any sweep; the next launch under the
// same key clears up and works (AIP-63 L8, S3.20).
func TestHostKilled(t *testing.T) {
	for name, shell := range kinds {
		t.Run(name, func(t *testing.T) {
			p := installed(t, shell)
			order, err := json.Marshal(hostOrder{Exe: p.Discover(t.Context()).Path, DataDir: p.config.DataDir, Key: run + "host-1", NoSandbox: p.config.NoSandbox})
			if err != nil {
				t.Fatal(err)
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			host := exec.Command(self)
			host.Env = append(os.Environ(), hostRole+"="+string(order))
			host.Stderr = os.Stderr
			out, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				host.Process.Kill()
				host.Wait()
			})
			var main int
			var dir string
			if _, err := fmt.Fscanln(out, &main, &dir); err != nil {
				t.Fatal(err)
			}
			pids := tree(t, main, dir)
			if len(pids) < 5 {
				t.Fatalf("the browser's processes are %v", pids)
			}
			allEnd := watching(t, pids)
			began := time.Now()
			host.Process.Kill()
			if !allEnd(5 * time.Second) {
				t.Error("a process of the browser outlived its host")
			}
			t.Logf("%d processes gone after %v", len(pids), time.Since(began).Round(time.Millisecond))
			if n, err := proc.Sweep(t.Context(), run+"host-1"); n != 0 || err != nil {
				t.Errorf("Sweep = %d, %v", n, err)
			}
			i := launch(t, p, run+"host-1", "http://127.0.0.1:9")
			if n, err := i.Stop(t.Context(), false); n != 0 || err != nil {
				t.Errorf("Stop = %d, %v", n, err)
			}
			nothingLeft(t, p.config.DataDir, run+"host-1")
		})
	}
}

// A page cannot send a packet beside its proxy: neither by WebRTC nor by asking
// for a name (S2.33, K10).
func TestNothingBesideTheProxy(t *testing.T) {
	for name, shell := range kinds {
		t.Run(name, func(t *testing.T) {
			udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer udp.Close()
			heard := make(chan struct{})
			go func() {
				var b [1500]byte
				if n, _, err := udp.ReadFrom(b[:]); err == nil && n > 0 {
					close(heard)
				}
			}()
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprintf(w, `<title>waiting</title><h1 id=h>waiting</h1><script>
					const c = new RTCPeerConnection({iceServers: [{urls: "stun:%s"}]})
					c.createDataChannel("d")
					c.onicegatheringstatechange = () => { if (c.iceGatheringState == "complete") fetch("/done") }
					c.createOffer().then(o => c.setLocalDescription(o))
				</script>`, udp.LocalAddr())
			}))
			defer site.Close()
			done := make(chan struct{})
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/done" {
					close(done)
					return
				}
				site.Config.Handler.ServeHTTP(w, r)
			}))
			defer proxy.Close()
			i := launch(t, installed(t, shell), run+"udp-1", "http://127.0.0.1:9")
			d, err := i.Attach(t.Context(), browserhost.AttachOptions{Proxy: proxy.URL})
			if err != nil {
				t.Fatal(err)
			}
			if _, nav, err := d.NewPage(t.Context(), "http://shop.test/"); err != nil || nav.Failed != "" {
				t.Fatalf("%+v, %v", nav, err)
			}
			select {
			case <-done: // everything is gathered
			case <-heard:
				t.Fatal("a packet went beside the proxy")
			case <-time.After(30 * time.Second):
				t.Fatal("WebRTC never came to an end")
			}
			select {
			case <-heard:
				t.Error("a packet went beside the proxy")
			default:
			}
		})
	}
}
