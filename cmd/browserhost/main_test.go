//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts run these as programs of their own, as a person or an agent would.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"browserhost": main, "agent": agent, "alone": alone})
}

// What a person meets where no host runs.
func TestAlone(t *testing.T) { scripts(t, "testdata/alone") }

// What a person, and an agent with a shell, meet at a running host. Each
// script has a host of its own, started as `browserhost serve` (S1.44).
func TestHost(t *testing.T) { scripts(t, "testdata/host") }

func scripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("BROWSERHOST_HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("TZ", "UTC")
			env.Values[world{}] = &world{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"asagent":  asAgent,
			"serve":    serve,
			"ended":    ended,
			"signin":   signIn,
			"bearer":   remember("BEARER", `apd1\.[0-9a-f]{32}\.[A-Za-z0-9_-]+`),
			"code":     remember("CODE", `[A-Z]\d-\d+`),
			"grantid":  remember("GRANT", `grant_[0-9a-f-]{36}`),
			"ask":      ask,
			"answered": answered,
			"flip":     flip,
		},
	})
}

// exits runs a command that must end with exactly this code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	err = ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// asAgent runs a command below a program that has spoken as the device.
func asAgent(ts *testscript.TestScript, neg bool, args []string) {
	exits(ts, neg, append([]string{args[0], "agent", "run"}, args[1:]...))
}

// remember puts the first match in what was printed last into a variable.
func remember(name, form string) func(*testscript.TestScript, bool, []string) {
	re := regexp.MustCompile(form)
	return func(ts *testscript.TestScript, _ bool, _ []string) {
		found := re.FindString(ts.ReadFile("stdout"))
		if found == "" {
			ts.Fatalf("no %s in what was printed", name)
		}
		ts.Setenv(name, found)
	}
}

// flip changes one character of the first record of a file.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	at := bytes.Index(b, []byte(`"kind":"human"`))
	if at < 0 || bytes.IndexByte(b[:at], '\n') >= 0 {
		ts.Fatalf("the first record of %s is not by a human", args[0])
	}
	b[at+len(`"kind":"`)] ^= 1
	ts.Check(os.WriteFile(path, b, 0o600))
}

// Nothing that others wrote reaches a terminal as it is (ux: untrusted text).
func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"shop.test":                         "shop.test",
		"a\x1b[2Jb":                         "a[2Jb",
		"a\nb\tc":                           "a b c",
		"a\u202eb\u200bc\u2066d\ufeffe\x7f": "abcde",
		"Zoë 日本":                            "Zoë 日本",
		"\xff\x9b31m":                       "\ufffd\ufffd31m",
	} {
		if got := clean(text); got != want {
			t.Errorf("clean(%q) = %q, want %q", text, got, want)
		}
	}
	if strings.ContainsFunc(clean("\x9b\u009b"), func(r rune) bool { return r == '\u009b' }) {
		t.Error("a control sequence introducer of eight bits passes")
	}
}
