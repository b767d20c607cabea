package proc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// role makes this test binary act as another process. Each says "ready" on its
// descriptor 4 when it is set up, and ends when its descriptor 3 does, unless
// its role says otherwise.
const role = "PROC_TEST_ROLE"

// run begins every key here: a sweep of another run of these tests, or of those
// of another package, must not meet our processes.
var run = fmt.Sprintf("proc-test-%d-", os.Getpid())

func TestMain(m *testing.M) {
	words := strings.Fields(os.Getenv(role))
	if len(words) == 0 {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // the others need not wait for a report
		goleak.VerifyTestMain(m)
	}
	in, out := os.NewFile(3, "in"), os.NewFile(4, "out")
	ready := func(facts ...any) { fmt.Fprintln(out, append([]any{"ready"}, facts...)...) }
	switch words[0] {
	case "echo":
		io.Copy(out, in)
		return
	case "plain":
		ready()
	case "fail":
		for n := range 30 {
			fmt.Fprintln(os.Stderr, "line", n)
		}
		os.Exit(3)
	case "deaf": // to being asked to end, with a child in its group and one in a group of its own
		signal.Ignore(syscall.SIGTERM)
		ready(child(false, "forever"), child(true, "forever"))
		select {}
	case "forever":
		signal.Ignore(syscall.SIGTERM)
		ready()
		select {}
	case "host":
		p, err := Start(context.Background(), Spec{Path: exe(), Env: append(os.Environ(), role+"=deaf"), Key: words[1]})
		if err != nil {
			panic(err)
		}
		line, _ := bufio.NewReader(p.Pipe()).ReadString('\n')
		ready(p.PID(), strings.TrimSpace(line))
		select {}
	case "sweep":
		n, err := Sweep(context.Background(), words[1])
		ready(n, err)
	case "dial":
		c, err := net.Dial("tcp", words[1])
		if err != nil {
			panic(err)
		}
		defer c.Close()
		ready()
	}
	io.Copy(io.Discard, in)
}

// exe is this test binary.
func exe() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// child starts a process that inherits what a child does, this one's marker
// and standard error with it, and returns its number when it is set up.
func child(apart bool, as string) int {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(exe())
	cmd.Env = append(os.Environ(), role+"="+as)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{os.Stdin, w}
	if apart {
		setApart(cmd)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	w.Close()
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		panic(err)
	}
	return cmd.Process.Pid
}

// start starts this test binary in a role, under a key, and returns it with
// what it said when it was ready.
func start(t *testing.T, key, as string) (*Process, []string) {
	t.Helper()
	p, err := Start(t.Context(), Spec{Path: exe(), Env: append(os.Environ(), role+"="+as), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := p.Stop(context.Background(), true); err != nil {
			t.Error(err)
		}
	})
	return p, hello(t, p.Pipe())
}

// hello reads the line in which a process says that it is ready, and what else.
func hello(t *testing.T, r io.Reader) []string {
	t.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	words := strings.Fields(line)
	if err != nil || len(words) == 0 || words[0] != "ready" {
		t.Fatalf("it said %q: %v", line, err)
	}
	return words[1:]
}
