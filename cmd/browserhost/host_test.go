//go:build unix

package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"
)

// world is what goes on beside a script: its host, and an agent that asks.
type world struct {
	host   *exec.Cmd
	over   chan struct{} // closed when the host has ended
	failed error         // how; read after over
	said   chan string   // lines of its stderr
	asking *exec.Cmd
	answer *strings.Builder
}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(world{}).(*world) }

// command runs one of our programs beside the script.
func command(ts *testscript.TestScript, name string, args ...string) *exec.Cmd {
	path, err := exec.LookPath(name)
	ts.Check(err)
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.Getenv("WORK")
	for _, name := range []string{"HOME", "BROWSERHOST_HOME", "PATH", "TZ", "TMPDIR", "LISTEN", "BEARER"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	return cmd
}

// serve starts a host and waits until it has said where it is; what it said is
// then in the file "said". It is ended with the script at the latest.
func serve(ts *testscript.TestScript, _ bool, _ []string) {
	w := worldOf(ts)
	w.host = command(ts, "browserhost", "serve", "--listen", "127.0.0.1:0")
	out, err := w.host.StdoutPipe()
	ts.Check(err)
	errs, err := w.host.StderrPipe()
	ts.Check(err)
	ts.Check(w.host.Start())
	w.said, w.over = make(chan string, 1000), make(chan struct{})
	lines := bufio.NewScanner(out)
	var first []string
	for len(first) < 2 && lines.Scan() {
		first = append(first, lines.Text())
	}
	go func() {
		defer close(w.over)
		defer close(w.said)
		all := bufio.NewScanner(errs)
		for all.Scan() {
			select {
			case w.said <- all.Text():
			default:
			}
		}
		io.Copy(io.Discard, out)
		w.failed = w.host.Wait()
	}()
	ts.Defer(func() {
		w.host.Process.Signal(syscall.SIGTERM)
		<-w.over
	})
	ts.Check(os.WriteFile(ts.MkAbs("said"), []byte(strings.Join(first, "\n")+"\n"), 0o600))
	at := regexp.MustCompile(`http://(127\.0\.0\.1:\d+)/mcp`).FindStringSubmatch(strings.Join(first, "\n"))
	if at == nil {
		for line := range w.said {
			ts.Logf("serve: %s", line)
		}
		ts.Fatalf("the host did not start: %q", first)
	}
	ts.Setenv("LISTEN", at[1])
}

// ended waits until the host has ended well.
func ended(ts *testscript.TestScript, _ bool, _ []string) {
	w := worldOf(ts)
	<-w.over
	ts.Check(w.failed)
}

// signIn gives the owner a Chromium profile with so many cookies per site.
func signIn(ts *testscript.TestScript, _ bool, args []string) {
	script, err := os.ReadFile("../../consent/browserdb/testdata/cookies23.sql")
	ts.Check(err)
	dir := filepath.Join(ts.Getenv("HOME"), ".config", "chromium", "Default")
	ts.Check(os.MkdirAll(dir, 0o700))
	db, err := sql.Open("sqlite", filepath.Join(dir, "Cookies"))
	ts.Check(err)
	defer db.Close()
	ctx := context.Background()
	_, err = db.ExecContext(ctx, string(script))
	ts.Check(err)
	for _, arg := range args {
		site, many, _ := strings.Cut(arg, ":")
		n, err := strconv.Atoi(many)
		ts.Check(err)
		for i := range n {
			_, err := db.ExecContext(ctx, "INSERT INTO cookies VALUES(?,?,'',?,'VALUE',x'','/',0,1,1,0,0,0,1,-1,2,443,0,0,0)",
				i, site, fmt.Sprintf("c%d", i))
			ts.Check(err)
		}
	}
}

// ask lets an agent ask for sites, and waits until the owner could see it.
func ask(ts *testscript.TestScript, _ bool, sites []string) {
	w := worldOf(ts)
	w.asking, w.answer = command(ts, "agent", append([]string{"ask"}, sites...)...), &strings.Builder{}
	w.asking.Stdout, w.asking.Stderr = w.answer, w.answer
	ts.Check(w.asking.Start())
	for line := range w.said {
		if strings.Contains(line, " asks for ") {
			return
		}
	}
	ts.Fatalf("the host has ended")
}

// answered waits for what the agent is told, which must match.
func answered(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	ts.Check(w.asking.Wait())
	if !regexp.MustCompile(args[0]).MatchString(w.answer.String()) {
		ts.Fatalf("the agent was told %s", w.answer)
	}
}
