package chain

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"browserhost"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("CHAIN_TEST_PATH"); path != "" {
		other(path, os.Getenv("CHAIN_TEST_DO"))
		return
	}
	goleak.VerifyTestMain(m)
}

// keys are MACs under a secret of the test's own; "" is a locked keychain.
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

func start(t testing.TB, path string, opts Options) (*File, Report) {
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

func end(t testing.TB, f *File) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func verified(t testing.TB, path string, opts Options) Report {
	t.Helper()
	r, err := Verify(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// written makes a chain of three rows and closes it.
func written(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	f, _ := start(t, path, fixed)
	put(t, f, "one", "two", "three")
	end(t, f)
	return path
}

func content(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// AIP-63 C10, S1.47: rows are numbered from 0, each holds the hash of the bytes
// before it, and the file and its head verify.
func TestRows(t *testing.T) {
	path := written(t)
	lines := strings.Split(strings.TrimSuffix(string(content(t, path)), "\n"), "\n")
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
}

// A chain that another host wrote verifies to the byte, and goes on.
func TestReferenceVector(t *testing.T) {
	path := filepath.Join(t.TempDir(), "consent.jsonl")
	write(t, path, content(t, "testdata/reference.jsonl"))
	r := verified(t, path, Options{})
	if !r.OK() || r.Records != 2 || r.Head != "bc96ad509e50d99f1983c7dcb4cba2f99588860c2a9062099a4508c6683b33ac" {
		t.Errorf("%+v", r)
	}
	f, _ := start(t, path, fixed)
	if seq, _, err := f.Append(t.Context(), word{"ours"}); seq != 2 || err != nil {
		t.Errorf("%d, %v", seq, err)
	}
	end(t, f)
	if r := verified(t, path, fixed); !r.OK() || r.Records != 3 {
		t.Errorf("%+v", r)
	}
}

// What is no row is refused with input_invalid and leaves no byte; a row of
// exactly the longest length is taken.
func TestRefusedRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	f, _ := start(t, path, fixed)
	room := MaxRow - len(`{"word":"","seq":0,"at":"2026-01-01T00:00:00.000Z"}`)
	for _, row := range []any{
		"text", []int{1}, nil, func() {}, map[string]int{"seq": 1}, map[string]string{"prev": "x"}, jsontext.Value(`{"s\u0065q":1}`),
		jsontext.Value(`{"a":1}{"b":1}`), word{strings.Repeat("x", room+1)},
	} {
		if _, _, err := f.Append(t.Context(), row); browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
			t.Errorf("%.20v: %v", row, err)
		}
	}
	if text := content(t, path); len(text) != 0 {
		t.Errorf("%s", text)
	}
	put(t, f, strings.Repeat("x", room), "a\x00b\nc")
	if _, _, err := f.Append(t.Context(), jsontext.Value("{\n \"word\": 1 }")); err != nil {
		t.Error(err)
	}
	if _, _, err := f.Append(t.Context(), jsontext.Value(`{"at":"then"}`)); err != nil {
		t.Error(err)
	}
	end(t, f)
	if r := verified(t, path, fixed); !r.OK() || r.Records != 4 {
		t.Errorf("%+v", r)
	}
	if text := content(t, path); bytes.IndexByte(text, 0) >= 0 || !bytes.Contains(text, []byte("\n{\"at\":\"then\",\"seq\":3,\"prev\":")) {
		t.Errorf("%.300s", text[MaxRow:])
	}
}

// AIP-63 C11, S1.48: the file and its head are 0600 and the directory is 0700,
// made so or tightened; a shared directory is no place for a record.
func TestModes(t *testing.T) {
	dir := t.TempDir() // 0755
	path := filepath.Join(dir, "rows.jsonl")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f, _ := start(t, path, fixed)
	put(t, f, "one")
	end(t, f)
	fresh := filepath.Join(dir, "a", "b", "rows.jsonl")
	f, _ = start(t, fresh, fixed)
	end(t, f)
	for name, want := range map[string]os.FileMode{dir: 0o700, path: 0o600, path + ".head": 0o600, filepath.Dir(fresh): 0o700, fresh: 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(t.Context(), path, fixed); err == nil {
		t.Error("opened in a shared directory")
	}
	if _, _, err := Open(t.Context(), filepath.Dir(fresh), fixed); err == nil {
		t.Error("a directory was opened as a record")
	}
}

// AIP-63 C10: whatever is done in whatever order, the old file is a prefix of
// the new one and the whole verifies: rows, starts, kills and cut-off rows.
func TestOnlyGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	dice := rand.New(rand.NewPCG(1, 2))
	f, _ := start(t, path, fixed)
	before := []byte{}
	for range 100 {
		switch dice.IntN(6) {
		case 0:
			end(t, f)
			f, _ = start(t, path, fixed)
		case 1: // a crash in the middle of a row
			end(t, f)
			row := fmt.Sprintf(`{"word":"lost","seq":%d,"at`, f.next)
			write(t, path, append(content(t, path), row[:1+dice.IntN(len(row))]...))
			f, _ = start(t, path, fixed)
		case 2:
			if _, _, err := f.Append(t.Context(), 7); err == nil {
				t.Fatal("a number is no row")
			}
		default:
			put(t, f, strings.Repeat("x", dice.IntN(300)))
		}
		after := content(t, path)
		if !bytes.HasPrefix(after, before) {
			t.Fatal("what was written has changed")
		}
		before = after
		if r := verified(t, path, fixed); !r.OK() {
			t.Fatalf("%+v %+v", r, r.Bad)
		}
	}
}

// Fifty writers at once leave no gap, and a check meanwhile finds no fault.
func TestManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	f, _ := start(t, path, fixed)
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[int64]bool{}
	for n := range 50 {
		all.Go(func() {
			for range 10 {
				seq, _, err := f.Append(t.Context(), word{fmt.Sprint(n)})
				if err := errors.Join(err, f.Durable(t.Context())); err != nil {
					t.Error(err)
				}
				mu.Lock()
				seen[seq] = true
				mu.Unlock()
			}
			if r, err := f.Verify(t.Context()); err != nil || !r.OK() {
				t.Errorf("%+v %v", r, err)
			}
		})
	}
	all.Wait()
	end(t, f)
	if r := verified(t, path, fixed); !r.OK() || r.Records != 500 || len(seen) != 500 || r.Anchor != Matches {
		t.Errorf("%+v, %d numbers", r, len(seen))
	}
}

// slow is a disk whose fsync waits to be let through.
type slow struct {
	disk
	syncs chan chan error
}

func (s slow) Sync() error {
	answer := make(chan error)
	s.syncs <- answer
	return <-answer
}

func slowly(t *testing.T, path string) (*File, slow) {
	t.Helper()
	f, _ := start(t, path, Options{})
	s := slow{f.disk, make(chan chan error)}
	f.disk = s
	return f, s
}

// Callers that come while an fsync runs share the next one, and one that gives
// up does not disturb the others (S2.54 counts on few of them).
func TestSharedSync(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	synctest.Test(t, func(t *testing.T) {
		f, disk := slowly(t, path)
		done := make(chan error, 30)
		row := func(ctx context.Context) {
			if _, _, err := f.Append(t.Context(), word{"x"}); err != nil {
				t.Error(err)
			}
			go func() { done <- f.Durable(ctx) }()
		}
		row(t.Context())
		first := <-disk.syncs
		for range 20 {
			row(t.Context())
		}
		impatient, cancel := context.WithCancel(t.Context())
		row(impatient)
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the impatient one: %v", err)
		}
		first <- nil
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(done) != 0 {
			t.Error("rows of the second round count as durable after the first")
		}
		<-disk.syncs <- nil
		for range 20 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if err := f.Durable(t.Context()); err != nil { // nothing to do: no fsync
			t.Error(err)
		}
		f.disk = disk.disk
	})
}
