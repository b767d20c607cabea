package chrome

import (
	"bufio"
	"encoding/json/v2"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also a browser: a copy of this test binary with another name
// speaks as much of the protocol as a launch needs. A file beside it says how
// it behaves, another one receives what it was started with.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name == "chromium" || strings.Contains(name, "headless-shell") || name == "chrome" {
		syscall.Exit(pretend(os.Args[0]))
	}
	if role := os.Getenv(hostRole); role != "" {
		actAsHost(role)
		return
	}
	goleak.VerifyTestMain(m)
}

// run begins every key here: a sweep of another run of these tests, or of those
// of another package, must not meet our processes.
var run = fmt.Sprintf("chrome-test-%d-", os.Getpid())

// started is what a pretended browser saw of its start.
type started struct {
	Args, Env []string
	Dir       string
	Inside    []string // of the working directory
	Mode      string   // of it
}

func pretend(exe string) int {
	mode, _ := os.ReadFile(exe + ".mode")
	how := strings.TrimSpace(string(mode))
	if slices.Contains(os.Args, "--version") {
		f, _ := os.OpenFile(exe+".asked", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		f.WriteString("x")
		switch how {
		case "hangs":
			select {}
		case "nameless":
			fmt.Println("no version today")
		default:
			fmt.Println("Chromium 156.0.8078.114 built on a test")
		}
		return 0
	}
	var s started
	s.Args, s.Env = os.Args[1:], os.Environ()
	s.Dir, _ = os.Getwd()
	entries, _ := os.ReadDir(".")
	for _, e := range entries {
		s.Inside = append(s.Inside, e.Name())
	}
	if info, err := os.Stat("."); err == nil {
		s.Mode = info.Mode().String()
	}
	text, _ := json.Marshal(s)
	os.WriteFile(exe+".started", text, 0o600)
	if how == "dies" {
		fmt.Fprintln(os.Stderr, "[7:7:1201/101010.1:ERROR:some/file.cc(3)] Cannot open /home/ada/secret for shop.test id 4F3A99")
		return 7
	}
	os.WriteFile("Local State", []byte("{}"), 0o600) // as a browser does
	if how == "mute" {
		os.WriteFile(exe+".mute", []byte("started"), 0o600)
		select {} // not even the end of the pipe is heard
	}
	pipe, out := os.NewFile(3, "in"), os.NewFile(4, "out")
	in := bufio.NewReader(pipe)
	for asked := 0; ; {
		frame, err := in.ReadBytes(0)
		if err != nil {
			return 0
		}
		var call struct {
			ID     int64  `json:"id"`
			Method string `json:"method"`
		}
		json.Unmarshal(frame[:len(frame)-1], &call)
		if how == "deaf" && call.Method == "Browser.close" {
			continue
		}
		if call.Method == "Browser.getVersion" {
			asked++
		}
		if how == "hangs up" && asked > 1 {
			pipe.Close()
			out.Close()
			select {}
		}
		fmt.Fprintf(out, `{"id":%d,"result":{"product":"Chrome/156.0.8078.114"}}`+"\x00", call.ID)
		if call.Method == "Browser.close" {
			return 0
		}
	}
}

// install puts a pretended browser at a path.
func install(t *testing.T, path, mode string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(self, path); err != nil { // another disk
		program, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, program, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, path+".mode", mode, 0o600)
	return path
}

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// startOf reads what a pretended browser was started with; ok is false when it
// never was.
func startOf(t *testing.T, exe string) (s started, ok bool) {
	t.Helper()
	text, err := os.ReadFile(exe + ".started")
	if err != nil {
		return s, false
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s, true
}
