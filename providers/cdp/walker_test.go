package cdp

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"browserhost"
)

// stage is a world without a browser: one document after the other, each of
// which forgets the script of the one before. It is as strict as the real one:
// what it does not know fails the test.
type stage struct {
	t      *testing.T
	loader string
	script bool // is in the document
	asked  []string

	of     int // generation of the last walk
	nodes  []node
	unread int
	looks  map[string]string // answers to aim, focus and read by what is asked
	before func(question string) error
}

var questionForm = regexp.MustCompile(`^(\(?)globalThis\[Symbol\.for\("browserhost\.walker"\)\](.*?)((?:walk|nodes|aim|focus|read)\([\d,a-z]*\))(\?\?null)?$`)

func (s *stage) document() string { return s.loader }

func (s *stage) eval(_ context.Context, expression string, limit time.Duration) (jsontext.Value, error) {
	m := questionForm.FindStringSubmatch(strings.Replace(expression, script, "SCRIPT", 1))
	if m == nil || limit <= 0 || limit > walkLimit {
		s.t.Fatalf("not a question, or without a limit: %.200q", expression)
	}
	brings := m[2] == "??=SCRIPT)."
	if !brings && (m[1] != "" || m[2] != "?." || m[4] == "") {
		s.t.Fatalf("not a question: %.200q", expression)
	}
	s.asked = append(s.asked, m[3])
	if s.before != nil {
		if err := s.before(m[3]); err != nil {
			return nil, err
		}
	}
	if s.script = s.script || brings; !s.script {
		return jsontext.Value("null"), nil
	}
	name, rest, _ := strings.Cut(strings.TrimSuffix(m[3], ")"), "(")
	args := strings.Split(rest, ",")
	n := func(i int) int { v, _ := strconv.Atoi(args[i]); return v }
	switch name {
	case "walk":
		s.of = n(0)
		elements := 0
		for _, n := range s.nodes {
			elements = max(elements, n.Ref)
		}
		return s.json(walked{Nodes: s.from(0, n(1)), Total: len(s.nodes), Elements: elements, Unread: s.unread}), nil
	case "nodes":
		if n(0) != s.of {
			return jsontext.Value("null"), nil
		}
		return s.json(s.from(n(1), n(2))), nil
	}
	if answer, ok := s.looks[m[3]]; ok {
		return jsontext.Value(answer), nil
	}
	return jsontext.Value(`{"refused":"unknown"}`), nil
}

func (s *stage) from(first, chars int) []node {
	end := first
	for size := 0; end < len(s.nodes) && size <= chars; end++ {
		size += 24 + len(s.nodes[end].Name)
	}
	return s.nodes[first:end]
}

func (s *stage) json(v any) jsontext.Value {
	b, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// replace puts another document in.
func (s *stage) replace() { s.loader, s.script, s.of = s.loader+"'", false, 0 }

func rows(n int) []node {
	var out []node
	for i := range n {
		out = append(out, node{Role: "button", Name: "Row " + strconv.Itoa(i), Ref: i + 1})
	}
	return out
}

func shoot(t *testing.T, w *walker, chars, offset int) browserhost.Snapshot {
	t.Helper()
	s, err := w.snapshot(t.Context(), browserhost.SnapshotOptions{MaxChars: chars, Offset: offset})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// refused checks that nothing was done, and what was measured (S3.27, S3.29).
func refused(t *testing.T, err error, code browserhost.Code, reason string) *browserhost.Error {
	t.Helper()
	e := browserhost.AsError(err)
	if e == nil || e.Code != code || e.Cause["reason"] != reason || e.Execution != browserhost.NotStarted || e.Retryable {
		t.Fatalf("got %+v, want %s because of %s, not started", e, code, reason)
	}
	return e
}

// The script comes into a document once.
func TestScriptIsBroughtOnce(t *testing.T) {
	s := &stage{t: t, loader: "A", nodes: rows(2)}
	w := newWalker(s)
	shoot(t, w, 0, 0)
	shoot(t, w, 0, 0)
	if len(s.asked) != 2 {
		t.Errorf("asked %v", s.asked)
	}
	s.script = false // the same document, but its world was made anew
	if got := shoot(t, w, 0, 0); got.Generation != "s3" || len(s.asked) != 4 {
		t.Errorf("%s after %v", got.Generation, s.asked)
	}
}

// A newer snapshot retires the refs of the older one, a new document all of
// them, and no ref is guessed (S3.25, S3.26, A52, A54).
func TestRefsAreFenced(t *testing.T) {
	s := &stage{t: t, loader: "A", nodes: rows(3), looks: map[string]string{
		"aim(1,2)": `{"x":10.5,"y":20,"kind":"button","value":""}`,
		"aim(2,2)": `{"x":11,"y":21,"kind":"password","value":"filled"}`,
	}}
	w := newWalker(s)
	_, err := w.aim(t.Context(), "s1e2")
	refused(t, err, browserhost.CodeStaleElement, "unknown")
	shoot(t, w, 0, 0)
	if at, err := w.aim(t.Context(), "s1e2"); err != nil || at != (spot{10.5, 20, "button", ""}) {
		t.Fatalf("%+v, %v", at, err)
	}
	_, err = w.aim(t.Context(), "s1e9")
	refused(t, err, browserhost.CodeStaleElement, "unknown")
	_, err = w.aim(t.Context(), "s7e2")
	refused(t, err, browserhost.CodeStaleElement, "unknown")
	shoot(t, w, 0, 0)
	asked := len(s.asked)
	_, err = w.aim(t.Context(), "s1e2")
	refused(t, err, browserhost.CodeStaleElement, "older_snapshot")
	if len(s.asked) != asked {
		t.Error("the page was asked about a ref that cannot live")
	}
	if at, err := w.aim(t.Context(), "s2e2"); err != nil || at != (spot{11, 21, "password", "filled"}) {
		t.Fatalf("%+v, %v", at, err)
	}
	s.replace()
	_, err = w.aim(t.Context(), "s2e2")
	refused(t, err, browserhost.CodeStaleElement, "new_document")
	s.loader = "A" // the old name, but not the old script
	_, err = w.focus(t.Context(), "s2e2", false)
	refused(t, err, browserhost.CodeStaleElement, "new_document")
}

// What is not a ref is the caller's mistake and reaches no page.
func TestRefForm(t *testing.T) {
	s := &stage{t: t, loader: "A", nodes: rows(1)}
	w := newWalker(s)
	shoot(t, w, 0, 0)
	for _, ref := range []string{"", "s", "e1", "s1", "s1e", "s0e1", "s1e0", "s01e1", "s1e1 ", "s1e+1", "s1e1)", "S1E1", "s1e1e1", "s-1e1", "s1e99999999999999999999"} {
		_, err := w.aim(t.Context(), ref)
		if e := browserhost.AsError(err); e == nil || e.Code != browserhost.CodeInputInvalid || e.Execution != browserhost.NotStarted {
			t.Errorf("%q: %v", ref, err)
		}
	}
	if len(s.asked) != 1 {
		t.Errorf("asked %v", s.asked)
	}
}

// Every measured cause has its own reason and sentence, and what the page
// says about what is in front is one short line.
func TestRefusals(t *testing.T) {
	s := &stage{t: t, loader: "A", nodes: rows(1), looks: map[string]string{}}
	w := newWalker(s)
	shoot(t, w, 0, 0)
	sentences := map[string]string{}
	for reason, sentence := range refusals {
		if other := sentences[sentence]; other != "" {
			t.Errorf("%s and %s are told apart by nothing", reason, other)
		}
		sentences[sentence] = reason
		s.looks["focus(1,1,true)"] = fmt.Sprintf(`{"refused":%q,"changed":["name","Pay 1 €"],"by":"div#a\nbutton [s1e1] %s"}`, reason, strings.Repeat("x", 100))
		code := browserhost.CodeStaleElement
		if reason == "not_editable" {
			code = browserhost.CodeInputInvalid
		}
		_, err := w.focus(t.Context(), "s1e1", true)
		e := refused(t, err, code, reason)
		if got := fmt.Sprint(e.Cause["changed"]); got != "[name]" {
			t.Errorf("changed: %s", got)
		}
		if by := e.Cause["covered_by"].(string); len(by) > maxCover || strings.ContainsRune(by, '\n') {
			t.Errorf("covered by %q", by)
		}
	}
	s.looks["read(1,1)"] = `{"refused":"of its own making"}`
	if _, err := w.read(t.Context(), "s1e1"); browserhost.CodeOf(err) != browserhost.CodeInternal || browserhost.AsError(err).Execution != browserhost.NotStarted {
		t.Errorf("%v", err)
	}
	s.looks["read(1,1)"] = `{"value":"Ada","colour":"red"}`
	if _, err := w.read(t.Context(), "s1e1"); browserhost.CodeOf(err) != browserhost.CodeInternal {
		t.Errorf("an answer of another form was taken: %v", err)
	}
}

// What the world says goes through, and an effect is known not to have begun.
func TestWorldFails(t *testing.T) {
	s := &stage{t: t, loader: "A", nodes: rows(1)}
	w := newWalker(s)
	shoot(t, w, 0, 0)
	for code, err := range map[browserhost.Code]error{
		browserhost.CodeDialogOpen: browserhost.Errorf(browserhost.CodeDialogOpen, "a dialog holds the page"),
		browserhost.CodeTimeout:    browserhost.Errorf(browserhost.CodeTimeout, "no answer in time"),
		browserhost.CodeInternal:   errors.New("-32000 Cannot do that"),
	} {
		s.before = func(string) error { return err }
		if _, got := w.aim(t.Context(), "s1e1"); browserhost.CodeOf(got) != code || browserhost.AsError(got).Execution != browserhost.NotStarted {
			t.Errorf("%s: %+v", code, got)
		}
		if e, ok := errors.AsType[*browserhost.Error](err); ok && e.Execution != "" {
			t.Error("the world's own error was changed")
		}
		if _, got := w.snapshot(t.Context(), browserhost.SnapshotOptions{}); browserhost.CodeOf(got) != code {
			t.Errorf("snapshot, %s: %v", code, got)
		}
	}
	s.before = func(string) error { return errDocumentGone }
	_, err := w.aim(t.Context(), "s1e1")
	refused(t, err, browserhost.CodeStaleElement, "new_document")
}

// A page that is replaced while it is read is read again; one that always is
// ends with an error, not with half a page.
func TestReplacedWhileRead(t *testing.T) {
	s := &stage{t: t, loader: "A", nodes: rows(1)}
	w := newWalker(s)
	s.before = func(string) error { s.before = nil; s.replace(); return errDocumentGone }
	if got := shoot(t, w, 0, 0); got.Elements != 1 {
		t.Errorf("%+v", got)
	}
	s.before = func(string) error { s.before = nil; s.loader += "'"; return nil } // answered, but by the one before
	if got := shoot(t, w, 0, 0); got.Elements != 1 {
		t.Errorf("%+v", got)
	}
	s.before = func(string) error { s.replace(); return errDocumentGone }
	_, err := w.snapshot(t.Context(), browserhost.SnapshotOptions{})
	if e := browserhost.AsError(err); e == nil || e.Code != browserhost.CodeStalePage || e.Cause["reason"] != "new_document" {
		t.Errorf("%v", err)
	}
}

// Snapshots of one page wait for each other no longer than their caller does.
func TestSnapshotWaits(t *testing.T) {
	s := &stage{t: t, loader: "A", nodes: rows(1)}
	w := newWalker(s)
	inside, leave := make(chan bool), make(chan bool)
	s.before = func(string) error { inside <- true; <-leave; return nil }
	done := make(chan error)
	go func() { _, err := w.snapshot(t.Context(), browserhost.SnapshotOptions{}); done <- err }()
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.snapshot(ctx, browserhost.SnapshotOptions{}); browserhost.CodeOf(err) != browserhost.CodeTimeout {
		t.Errorf("%v", err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
