package chain

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"browserhost"
)

// keys are MACs under a secret of the test's own.
type keys struct{ secret string }

func (k keys) MAC(_ context.Context, label string, data []byte) ([]byte, error) {
	if k.secret == "" {
		return nil, browserhost.Errorf(browserhost.CodeKeyring, "locked")
	}
	h := hmac.New(sha256.New, []byte(k.secret+label))
	h.Write(data)
	return h.Sum(nil), nil
}

var fixed = Options{Keys: keys{"one"}, Label: "test", Now: func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }}

type word struct {
	Word string `json:"word"`
}

func open(t testing.TB, path string, opts Options) (*File, Report) {
	t.Helper()
	f, r, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, r
}

func put(t testing.TB, f *File, words ...string) {
	t.Helper()
	for _, w := range words {
		if _, _, err := f.Append(t.Context(), word{w}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Durable(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func verified(t *testing.T, path string, opts Options) Report {
	t.Helper()
	r, err := Verify(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// written makes a chain of three rows and closes it.
func written(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	f, _ := open(t, path, fixed)
	put(t, f, "one", "two", "three")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// AIP-63 C10, S1.46: rows are numbered from 0, each holds the hash of the bytes
// before it, and the file and its head verify.
func TestRows(t *testing.T) {
	path := written(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if want := `{"word":"one","seq":0,"at":"2026-01-01T00:00:00.000Z"}`; lines[0] != want {
		t.Errorf("%s, want %s", lines[0], want)
	}
	if want := fmt.Sprintf(`{"word":"two","seq":1,"at":"2026-01-01T00:00:00.000Z","prev":"%x"}`, sha256.Sum256([]byte(lines[0]))); lines[1] != want {
		t.Errorf("%s, want %s", lines[1], want)
	}
	r := verified(t, path, fixed)
	if !r.OK() || r.Records != 3 || r.Anchor != Matches || r.Head != fmt.Sprintf("%x", sha256.Sum256([]byte(lines[2]))) {
		t.Errorf("%+v", r)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// D10: an edited row, a missing one, one too many, a missing end, a forged head
// and a head of another key are all found, and the first fault is named.
func TestTampering(t *testing.T) {
	whole := written(t)
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	head, err := os.ReadFile(whole + ".head")
	if err != nil {
		t.Fatal(err)
	}
	rows := bytes.SplitAfter(text, []byte("\n"))[:3]
	join := func(r ...[]byte) []byte { return bytes.Join(r, nil) }
	for _, c := range []struct {
		name   string
		text   []byte
		head   []byte
		keys   browserhost.Keys
		seq    int64 // of the named row; -1 for none
		anchor string
		ok     bool
	}{
		{"whole", text, head, fixed.Keys, -1, Matches, true},
		{"no head", text, nil, fixed.Keys, -1, None, true},
		{"no key", text, head, keys{}, -1, None, true},
		{"first row edited", bytes.Replace(text, []byte("one"), []byte("onE"), 1), head, fixed.Keys, 0, Matches, false},
		{"middle row edited", bytes.Replace(text, []byte("two"), []byte("twO"), 1), head, fixed.Keys, 1, Matches, false},
		{"last row edited", bytes.Replace(text, []byte("three"), []byte("threE"), 1), head, fixed.Keys, -1, Mismatch, false},
		{"middle row missing", join(rows[0], rows[2]), head, fixed.Keys, 1, Truncated, false},
		{"last row missing", join(rows[0], rows[1]), head, fixed.Keys, -1, Truncated, false},
		{"first row twice", join(rows[0], rows[0], rows[1], rows[2]), head, fixed.Keys, 1, Mismatch, false},
		{"all rows missing", nil, head, fixed.Keys, -1, Truncated, false},
		{"head forged", text, bytes.Replace(head, []byte(`"seq":2`), []byte(`"seq":1`), 1), fixed.Keys, -1, Mismatch, false},
		{"head no JSON", text, []byte("x"), fixed.Keys, -1, Mismatch, false},
		{"another key", text, head, keys{"two"}, -1, None, true}, // K7: store: memory forgets its key
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy.jsonl")
			if err := os.WriteFile(path, c.text, 0o600); err != nil {
				t.Fatal(err)
			}
			if c.head != nil {
				if err := os.WriteFile(path+".head", c.head, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r := verified(t, path, Options{Keys: c.keys, Label: "test"})
			seq := int64(-1)
			if r.Bad != nil {
				seq = r.Bad.Seq
			}
			if r.OK() != c.ok || seq != c.seq || r.Anchor != c.anchor {
				t.Errorf("ok %v, row %d, anchor %s; want %v, %d, %s", r.OK(), seq, r.Anchor, c.ok, c.seq, c.anchor)
			}
		})
	}
}

// K36: a last line that a crash cut short is kept, closed with a newline and
// reported; a normal row follows, and the whole verifies. The head that a crash
// left behind is no fault.
func TestTornTail(t *testing.T) {
	path := written(t)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"word":"fo`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if r := verified(t, path, fixed); r.Torn != 11 || r.OK() {
		t.Errorf("before: %+v", r)
	}
	c, r := open(t, path, fixed)
	if r.Torn != 11 {
		t.Errorf("at opening: %+v", r)
	}
	if r := verified(t, path, fixed); r.Anchor != Behind || !r.OK() {
		t.Errorf("closed: %+v", r)
	}
	put(t, c, "five")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	r = verified(t, path, fixed)
	if !r.OK() || r.Records != 4 || len(r.Remains) != 1 || r.Remains[0] != 4 || r.Anchor != Matches {
		t.Errorf("after: %+v", r)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte("{\"word\":\"fo\n{\"word\":\"five\",\"seq\":4,")) {
		t.Errorf("%s", text)
	}
}

// Whatever is asked and in whatever order, the old file is a prefix of the new
// one, and fifty writers at once leave no gap.
func TestManyWriters(t *testing.T) {
	path := written(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := open(t, path, fixed)
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			if _, _, err := f.Append(t.Context(), word{fmt.Sprint(n)}); err != nil {
				t.Error(err)
			}
			if err := f.Durable(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(after, before) {
		t.Error("what was written has changed")
	}
	if r := verified(t, path, fixed); !r.OK() || r.Records != 53 || r.Anchor != Matches {
		t.Errorf("%+v", r)
	}
}

// D9: one process writes at a time; the second is refused and changes nothing.
func TestTwoProcesses(t *testing.T) {
	if path := os.Getenv("CHAIN_TEST_PATH"); path != "" { // the second process
		if _, _, err := Open(t.Context(), path, fixed); err == nil {
			fmt.Println("opened")
		} else {
			fmt.Println("refused")
		}
		return
	}
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	open(t, path, fixed)
	cmd := exec.Command(os.Args[0], "-test.run=^TestTwoProcesses$", "-test.v")
	cmd.Env = append(os.Environ(), "CHAIN_TEST_PATH="+path)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("refused")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// Bad rows are refused with input_invalid and nothing is written; a row of
// exactly the longest length is taken.
func TestBadRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	f, _ := open(t, path, fixed)
	overhead := len(`{"word":"","seq":0,"at":"2026-01-01T00:00:00.000Z"}`)
	for _, row := range []any{"text", []int{1}, nil, map[string]int{"seq": 1}, map[string]string{"prev": "x"}, word{strings.Repeat("x", MaxRow-overhead+1)}} {
		if _, _, err := f.Append(t.Context(), row); browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
			t.Errorf("%.20v: %v", row, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("%v %v", info.Size(), err)
	}
	put(t, f, strings.Repeat("x", MaxRow-overhead))
	put(t, f, "after")
	if r := verified(t, path, fixed); !r.OK() || r.Records != 2 {
		t.Errorf("%+v", r)
	}
}

// AIP-63 C10: after a write that failed nothing is taken any more.
func TestFailedWrite(t *testing.T) {
	f, _ := open(t, filepath.Join(t.TempDir(), "rows.jsonl"), fixed)
	put(t, f, "one")
	f.disk.Close()
	if _, _, err := f.Append(t.Context(), word{"two"}); browserhost.CodeOf(err) != browserhost.CodeInternal {
		t.Errorf("%v", err)
	}
	if err := f.Durable(t.Context()); browserhost.CodeOf(err) != browserhost.CodeInternal {
		t.Errorf("%v", err)
	}
}

// FuzzVerify: any bytes are read to their end, without a panic, and what was
// changed is never OK with a whole head.
func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"word":"one","seq":0,"at":"2026-01-01T00:00:00.000Z"}` + "\n"))
	f.Add([]byte("{}\n\n{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "rows.jsonl")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Verify(t.Context(), path, Options{})
		if err != nil {
			return
		}
		if r.Records > bytes.Count(text, []byte("\n")) {
			t.Errorf("%+v", r)
		}
	})
}
