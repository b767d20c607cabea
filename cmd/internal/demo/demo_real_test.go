//go:build real

package demo

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// breakVariable names the step that a test breaks, for the process on the bus.
const breakVariable = "BROWSERHOST_TEST_BREAK"

// TestMain also serves as the program that the demo starts again on its
// private bus.
func TestMain(m *testing.M) {
	if os.Getenv(onBus) == "" {
		os.Exit(m.Run())
	}
	ok, err := Run(context.Background(), os.Stdout, Options{JSON: true, Version: "test", before: damage})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// damage breaks one step in the way in which it would break: a record that
// somebody changed, a cookie that lies in clear in a file.
func damage(step string, s *story) {
	if step != "record" {
		return
	}
	var err error
	switch os.Getenv(breakVariable) {
	case "ledger":
		path := filepath.Join(s.home(), "consent.jsonl")
		var text []byte
		if text, err = os.ReadFile(path); err == nil {
			err = os.WriteFile(path, bytes.Replace(text, []byte("human"), []byte("humam"), 1), 0o600)
		}
	case "leak":
		err = os.WriteFile(filepath.Join(s.home(), "note.txt"), []byte("x="+s.site.Session()), 0o600)
	}
	if err != nil {
		panic(err)
	}
}

// told runs the demo and returns its lines.
func told(t *testing.T, broken string) (ok bool, lines []result) {
	t.Helper()
	t.Setenv(breakVariable, broken)
	var out bytes.Buffer
	ok, err := Run(t.Context(), &out, Options{JSON: true, Version: "test", before: damage})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for line := range strings.Lines(out.String()) {
		var r result
		if err := json.Unmarshal([]byte(line), &r, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines = append(lines, r)
	}
	return ok, lines
}

// The main job, end to end: one object per step, each of them ok.
func TestDemo(t *testing.T) {
	ok, lines := told(t, "")
	if !ok {
		t.Error("the demo does not hold")
	}
	var names []string
	for _, r := range lines {
		names = append(names, r.Step)
		if !r.OK || r.Detail == "" {
			t.Errorf("%+v", r)
		}
	}
	var want []string
	for _, s := range steps {
		want = append(want, s.name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("steps %v, want %v", names, want)
	}
}

// A step that fails is told, and fails the demo.
func TestDemoBroken(t *testing.T) {
	for _, broken := range []string{"ledger", "leak"} {
		t.Run(broken, func(t *testing.T) {
			ok, lines := told(t, broken)
			if ok || len(lines) != len(steps) {
				t.Fatalf("ok %v, %d lines", ok, len(lines))
			}
			last := lines[len(lines)-1]
			if last.OK || strings.Contains(last.Detail, "x=") {
				t.Errorf("%+v", last)
			}
		})
	}
}
