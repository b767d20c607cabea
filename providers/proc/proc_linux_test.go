package proc

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// watch holds a process, so that its end is an event.
func watch(t *testing.T, pid string) *handle {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	h, err := hold(n)
	if err != nil || h == nil {
		t.Fatalf("process %s is not there: %v", pid, err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// ends reports whether the process ends in time.
func (h *handle) ends(within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return h.gone(ctx) == nil
}

// A process speaks over its pipe and carries its key in both places (AIP-63 L8).
func TestStart(t *testing.T) {
	p, err := Start(t.Context(), Spec{Path: exe(), Args: []string{"one", "two"}, Env: []string{role + "=echo"}, Key: run + "start-1"})
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(p.Pipe(), "hello\n")
	if line, err := bufio.NewReader(p.Pipe()).ReadString('\n'); line != "hello\n" || err != nil {
		t.Errorf("the pipe said %q, %v", line, err)
	}
	s, ok := look(p.PID())
	if want := []string{exe(), Flag + run + "start-1", "one", "two"}; !ok || !slices.Equal(s.args, want) {
		t.Errorf("its arguments are %q, want %q", s.args, want)
	}
	if want := []string{role + "=echo", Variable + "=" + run + "start-1"}; !slices.Equal(s.env, want) {
		t.Errorf("its environment is %q, want %q and nothing of ours", s.env, want)
	}
	if s.group != p.PID() {
		t.Error("it is not the head of a group")
	}
	p.Pipe().Close()
	<-p.Done()
	if p.Exit() != "exit status 0" {
		t.Errorf("it ended with %q", p.Exit())
	}
}

// A key that could not be found again, or could be taken for another argument,
// starts nothing; neither does a program that is not there.
func TestStartRefuses(t *testing.T) {
	for _, key := range []string{"", "a b", "k=1", "k/1", strings.Repeat("k", 129)} {
		if _, err := Start(t.Context(), Spec{Path: exe(), Key: key}); err == nil {
			t.Errorf("a process with the key %q was started", key)
		}
	}
	if _, err := Start(t.Context(), Spec{Path: "/no/such/program", Key: "k"}); err == nil {
		t.Error("a program that is not there was started")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Spec{Path: exe(), Key: "k"}); err == nil {
		t.Error("a start that nobody waits for was made")
	}
}

// The way it ended and its last words are kept: 20 lines, no more.
func TestLastWords(t *testing.T) {
	p, err := Start(t.Context(), Spec{Path: exe(), Env: append(os.Environ(), role+"=fail"), Key: run + "fail-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(t.Context(), true)
	<-p.Done()
	if p.Exit() != "exit status 3" {
		t.Errorf("it ended with %q", p.Exit())
	}
	if l := p.Stderr(); len(l) != maxLines || l[0] != "line 10" || l[maxLines-1] != "line 29" {
		t.Errorf("its last words are %q", l)
	}
}

// An orderly end leaves nothing to sweep, and stopping twice is no error (AIP-63 L5).
func TestStopAsks(t *testing.T) {
	p, _ := start(t, run+"polite-1", "plain")
	for range 2 {
		if n, err := p.Stop(t.Context(), false); n != 0 || err != nil {
			t.Errorf("Stop = %d, %v; want 0", n, err)
		}
	}
	if p.Exit() != "signal: terminated" {
		t.Errorf("it ended with %q", p.Exit())
	}
}

// Whoever does not listen is killed with all its children, and nobody else:
// not the same program without a marker, not a key that goes on, not a program
// whose arguments speak of the key (AIP-63 L5).
func TestStopEndsTheTreeAlone(t *testing.T) {
	p, family := start(t, run+"deaf-1", "deaf")
	_, _ = start(t, run+"deaf-10", "plain")
	longer, _ := start(t, run+"deaf-1-headed", "plain")
	unmarked := startBare(t, "plain")
	editor := startBare(t, "plain", Flag+run+"deaf-1", "notes about "+Variable+"="+run+"deaf-1")
	var tree []*handle
	for _, pid := range append(family, strconv.Itoa(p.PID())) {
		tree = append(tree, watch(t, pid))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no patience: killed at once
	swept, err := p.Stop(ctx, false)
	if err != nil || swept != 1 {
		t.Errorf("Stop = %d, %v; want 1, the child that had left the group", swept, err)
	}
	for i, h := range tree {
		if !h.ends(time.Second) {
			t.Errorf("process %d of the tree is left", i)
		}
	}
	if p.Exit() != "signal: killed" {
		t.Errorf("it ended with %q", p.Exit())
	}
	for name, pid := range map[string]int{"a longer key": longer.PID(), "the same program": unmarked, "an editor": editor} {
		if _, ok := look(pid); !ok {
			t.Errorf("%s was ended too", name)
		}
	}
	if swept, err := p.Stop(t.Context(), true); swept != 0 || err != nil {
		t.Errorf("the second Stop = %d, %v", swept, err)
	}
}

// startBare starts this test binary as any program, without a marker.
func startBare(t *testing.T, as string, args ...string) int {
	t.Helper()
	in, keep, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe(), args...)
	cmd.Env = append(os.Environ(), role+"="+as)
	cmd.ExtraFiles = []*os.File{in, w}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	w.Close()
	t.Cleanup(func() {
		keep.Close()
		r.Close()
		cmd.Wait()
	})
	hello(t, r)
	return cmd.Process.Pid
}

// The head of a group that has ended by itself leaves nobody behind, and a
// child elsewhere that keeps standard error open does not hold up the news.
func TestDoneIsPrompt(t *testing.T) {
	p, family := start(t, run+"orphans-1", "deaf")
	inGroup, apart := watch(t, family[0]), watch(t, family[1])
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if !inGroup.ends(time.Second) {
		t.Error("a child in the group outlived its head")
	}
	if apart.ended() {
		t.Error("a child in another group was ended without a sweep")
	}
	if n, err := Sweep(t.Context(), run+"orphans-"); n != 1 || err != nil {
		t.Errorf("Sweep = %d, %v", n, err)
	}
}

// kill -9 of the host ends what it started at once; what had left its group is
// found by the next host's sweep (AIP-63 L5, L8).
func TestHostKilled(t *testing.T) {
	host, facts := start(t, run+"host-1", "host "+run+"lost-1-chrome")
	// facts: the process that the host started, "ready", and that one's children
	main, inGroup, apart := watch(t, facts[0]), watch(t, facts[2]), watch(t, facts[3])
	if err := unix.Kill(host.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !main.ends(5 * time.Second) {
		t.Error("the process outlived its host")
	}
	n, err := Sweep(t.Context(), run+"lost-1")
	if err != nil || n < 1 {
		t.Errorf("Sweep = %d, %v", n, err)
	}
	if !apart.ends(time.Second) {
		t.Error("a marked process outlived the sweep")
	}
	if n, err := Sweep(t.Context(), run+"lost-1"); n != 0 || err != nil {
		t.Errorf("a second Sweep = %d, %v", n, err)
	}
	// Its own group is gone with its head only where somebody lives to see to it.
	if !inGroup.ends(time.Second) {
		t.Error("a child in the group outlived the sweep")
	}
}

// The sweep goes by the prefix, and never ends the process that sweeps, even
// when that one carries a key itself: a host started from a browser's terminal.
func TestSweep(t *testing.T) {
	one, _ := start(t, run+"sweep-a-chrome", "plain")
	two, _ := start(t, run+"sweep-a-chrome-headed", "plain")
	other, _ := start(t, run+"sweep-b-chrome", "plain")
	_, facts := start(t, run+"sweep-a-host", "sweep "+run+"sweep-a")
	if facts[0] != "2" {
		t.Errorf("the sweep found %s, want 2", facts[0])
	}
	<-one.Done()
	<-two.Done()
	if _, ok := look(other.PID()); !ok {
		t.Error("another host's process was ended")
	}
	if _, err := Sweep(t.Context(), ""); err == nil {
		t.Error("a sweep of everything was made")
	}
}

// Only where an environment cannot be read do arguments count, and then only a
// whole one (AIP-63 L5).
func TestCarries(t *testing.T) {
	is := func(key string) bool { return key == "k" }
	for name, c := range map[string]struct {
		s    seen
		want bool
	}{
		"environment":           {seen{env: []string{"A=1", Variable + "=k"}}, true},
		"another key":           {seen{env: []string{Variable + "=k2"}}, false},
		"arguments alone":       {seen{args: []string{"vi", Flag + "k"}, env: []string{"A=1"}}, false},
		"hidden environment":    {seen{args: []string{"chrome", Flag + "k"}, hidden: true}, true},
		"hidden, another key":   {seen{args: []string{"chrome", Flag + "k2"}, hidden: true}, false},
		"hidden, in a sentence": {seen{args: []string{"sh", "-c", "chrome " + Flag + "k"}, hidden: true}, false},
	} {
		if got := c.s.carries(is); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The end of a stream is kept within its bound, and begins with a whole line.
func TestTail(t *testing.T) {
	var tl tail
	for range 100 {
		tl.Write([]byte(strings.Repeat("x", 1000) + "\r\n"))
	}
	tl.Write([]byte("last"))
	l := tl.lines()
	if len(tl.buf) > maxTail || len(l) > maxLines || len(l[0]) != 1000 || l[len(l)-1] != "last" {
		t.Errorf("%d bytes, %d lines, the first of %d bytes, the last %q", len(tl.buf), len(l), len(l[0]), l[len(l)-1])
	}
	var long tail
	long.Write([]byte(strings.Repeat("y", 2*maxTail)))
	if l := long.lines(); len(l) != 1 || len(l[0]) != maxTail {
		t.Errorf("a line without an end became %d lines", len(l))
	}
}
