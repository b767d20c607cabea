//go:build real

package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"browserhost"
	"browserhost/host/operator"
	"browserhost/host/settings"
	"browserhost/providers/proc"
)

// homeVariable tells the second process of TestHostKilled where to be a host.
const homeVariable = "BROWSERHOST_TEST_HOME"

// AIP-63 L8: kill -9 of the host leaves no Chromium alive within 5 s; the next
// host starts, finds nothing to sweep, and the ledger verifies.
func TestHostKilled(t *testing.T) {
	if home := os.Getenv(homeVariable); home != "" {
		beHost(t, home)
		return
	}
	home, err := os.MkdirTemp("", "bh-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHostKilled$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), homeVariable+"="+home)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	for said.Scan() && said.Text() != "ready" {
		t.Log(said.Text())
	}
	alive := handles(t, home)
	if len(alive) == 0 {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatal("the host runs no browser")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(5 * time.Second)
	for pid, fd := range alive {
		if !gone(fd, end) {
			t.Errorf("process %d of the browser is alive 5 s after its host", pid)
		}
		unix.Close(fd)
	}
	cmd.Wait()

	app, err := Start(t.Context(), Options{Home: home, Settings: conf(t, home), Seam: &Seam{NoSandbox: os.Geteuid() == 0}})
	if err != nil {
		t.Fatalf("the next start: %v", err)
	}
	defer app.Close(context.Background())
	if swept, err := app.fleet.Sweep(t.Context()); swept != 0 || err != nil {
		t.Errorf("%d processes were left to sweep, %v", swept, err)
	}
	if book, err := app.Desk().Ledger(t.Context()); err != nil || !book.OK || book.Records == 0 {
		t.Errorf("the ledger: %+v, %v", book, err)
	}
}

// gone waits until the process behind a handle has ended, at most until end.
func gone(fd int, end time.Time) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(0, time.Until(end).Milliseconds())))
		if err != unix.EINTR {
			return n == 1 && err == nil
		}
	}
}

func conf(t *testing.T, home string) settings.Settings {
	t.Helper()
	s, err := settings.Load(home, map[string]string{"listen": "127.0.0.1:0", "store": "memory", "chrome.dataDir": filepath.Join(home, "browser")}, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// beHost serves, lets an agent launch a browser with a page, writes a row into
// the ledger, says so, and waits to be killed.
func beHost(t *testing.T, home string) {
	app, err := Start(t.Context(), Options{Home: home, Settings: conf(t, home), Seam: &Seam{NoSandbox: os.Geteuid() == 0}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := app.Desk().Pair(t.Context(), operator.PairSpec{Name: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	var launched struct {
		Value struct {
			BrowserID string `json:"browser_id"`
		} `json:"value"`
	}
	act(t, app.URL(), p.Bearer, `{"action":"launch"}`, &launched)
	act(t, app.URL(), p.Bearer, `{"action":"new_page","browser_id":"`+launched.Value.BrowserID+`"}`, &launched)
	if err := app.ledger.Deny(t.Context(), browserhost.Actor{Kind: browserhost.System, Via: "test"}, "a row that must survive"); err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	<-t.Context().Done()
}

func act(t *testing.T, url, bearer, body string, to any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/tools/browser_act", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+bearer)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var raw bytes.Buffer
	raw.ReadFrom(res.Body)
	if res.StatusCode != 200 || !bytes.Contains(raw.Bytes(), []byte(`"ok":true`)) {
		t.Fatalf("%s: %d %s", body, res.StatusCode, raw.String())
	}
	if err := json.Unmarshal(raw.Bytes(), to); err != nil {
		t.Fatal(err)
	}
}

// handles opens a handle of every process with this host's marker.
func handles(t *testing.T, home string) map[int]int {
	t.Helper()
	id, err := hostID(home)
	if err != nil {
		t.Fatal(err)
	}
	mark := []byte(proc.Variable + "=" + marker(home, id))
	dirs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	out := map[int]int{}
	for _, name := range dirs {
		env, _ := os.ReadFile(name) // gone, or not ours
		if !bytes.Contains(env, mark) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(name, "/proc/%d/environ", &pid); err != nil {
			t.Fatal(err)
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			out[pid] = fd
		}
	}
	return out
}
