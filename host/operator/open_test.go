//go:build unix

package operator

import (
	"bufio"
	"context"
	"encoding/json/v2"
	"net"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"browserhost"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("OPERATOR_TEST_DIAL"); path != "" {
		knockAndWait(path)
		return
	}
	if path := os.Getenv("OPERATOR_TEST_SERVE"); path != "" {
		serveUntilStopped(path)
		return
	}
	goleak.VerifyTestMain(m)
}

// private is a directory with a short name that a socket fits below.
func private(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "op-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// a person of the house: at a terminal, and no agent's child.
func atTerminal(h *house) Options {
	return Options{
		ClientOf:    func(int) (browserhost.Device, bool) { return browserhost.Device{}, false },
		HasTerminal: func(int) bool { return true },
		Deny:        h.deny,
	}
}

// open serves the house's desk and returns the path of its door. At the end of
// the test the door is closed, and Serve must have returned nil.
func open(t *testing.T, h *house, opts Options) string {
	t.Helper()
	path := filepath.Join(private(t), "control.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, h.desk(), opts) }()
	t.Cleanup(func() {
		end()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("the socket is left behind: %v", err)
		}
	})
	return path
}

func dial(t *testing.T, path string) *Client {
	t.Helper()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// line is a connection on which a test writes lines of its own.
type line struct {
	net.Conn
	replies *bufio.Reader
}

func raw(t *testing.T, path string) line {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return line{conn, bufio.NewReader(conn)}
}

// ask writes text and reads one reply.
func (l line) ask(t *testing.T, text string) failure {
	t.Helper()
	if _, err := l.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return l.reply(t)
}

func (l line) reply(t *testing.T) failure {
	t.Helper()
	answer, err := l.replies.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var f failure
	if err := json.Unmarshal(answer, &f); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	return f
}
