package chain

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// other is a second process: it tries to open the chain at path, or appends
// rows until it is killed, printing the number of each that is durable.
func other(path, do string) {
	f, _, err := Open(context.Background(), path, fixed)
	if errors.Is(err, ErrLocked) {
		fmt.Println("locked")
		return
	}
	if err != nil || do != "append" {
		fmt.Println("opened:", err)
		return
	}
	for {
		seq, _, err := f.Append(context.Background(), word{strings.Repeat("x", 3000)})
		if err := errors.Join(err, f.Durable(context.Background())); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(seq)
	}
}

func second(t *testing.T, path, do string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "CHAIN_TEST_PATH="+path, "CHAIN_TEST_DO="+do)
	return cmd
}

// D9: one process writes at a time, and one File in it; the second is refused
// and changes nothing, and after Close it is let in.
func TestOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	f, _ := start(t, path, fixed)
	put(t, f, "one")
	before := content(t, path)
	if out, err := second(t, path, "open").CombinedOutput(); err != nil || string(out) != "locked\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := Open(t.Context(), path, fixed); !errors.Is(err, ErrLocked) {
		t.Errorf("%v", err)
	}
	if !bytes.Equal(before, content(t, path)) {
		t.Error("who was refused has changed the file")
	}
	put(t, f, "two")
	end(t, f)
	if out, err := second(t, path, "open").CombinedOutput(); err != nil || string(out) != "opened: <nil>\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// A process that is killed while it appends loses no row that it had called
// durable, and the chain goes on.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	last := -1
	for round := range 3 {
		cmd := second(t, path, "append")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if _, err := fmt.Sscan(lines.Text(), &last); err != nil {
				t.Fatal(lines.Text())
			}
			if n == 20 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Error("it was not killed")
		}
		f, r := start(t, path, fixed)
		if r.Bad != nil || r.Records <= last || r.Anchor == Mismatch || r.Anchor == Truncated {
			t.Errorf("round %d: %+v, after row %d was durable", round, r, last)
		}
		put(t, f, "after")
		end(t, f)
		if r := verified(t, path, fixed); !r.OK() || r.Anchor != Matches {
			t.Errorf("round %d: %+v", round, r)
		}
	}
}

// K36: a last line that a crash cut short is kept, closed with a newline, put
// aside in a copy and reported; a normal row follows, and the whole verifies.
func TestTornTail(t *testing.T) {
	for name, tail := range map[string]string{
		"half a row":           `{"word":"fo`,
		"all but the newline":  `{"word":"four","seq":3,"at":"2026-01-01T00:00:00.000Z","prev":"%s"}`,
		"zeros":                strings.Repeat("\x00", 700), // a file grown by a file system that lost its content
		"longer than any row":  strings.Repeat("x", 3*MaxRow),
		"longer than a buffer": strings.Repeat("y", 2*pieceSize+1),
	} {
		t.Run(name, func(t *testing.T) {
			path := written(t)
			whole := content(t, path)
			if strings.Contains(tail, "%s") {
				tail = fmt.Sprintf(tail, verified(t, path, fixed).Head)
			}
			write(t, path, append(whole, tail...))
			if r := verified(t, path, fixed); r.Torn != len(tail) || r.OK() || r.Records != 3 || r.Bad != nil {
				t.Errorf("before: %+v", r)
			}
			f, r := start(t, path, fixed)
			if r.Torn != len(tail) || r.Records != 3 || r.Anchor != Matches {
				t.Errorf("at the start: %+v", r)
			}
			if got := content(t, path+".torn-4"); string(got) != tail {
				t.Errorf("put aside: %.80q", got)
			}
			if len(tail) > MaxRow { // kept all the same, but no row can be
				if r := verified(t, path, fixed); r.Bad == nil || r.Bad.Line != 4 {
					t.Errorf("closed: %+v", r)
				}
				put(t, f, "five")
				return
			}
			if r := verified(t, path, fixed); !r.OK() { // nothing but the copy vouches for it
				t.Errorf("closed: %+v %+v", r, r.Bad)
			}
			if seq, _, err := f.Append(t.Context(), word{"five"}); seq != 4 || err != nil {
				t.Errorf("%d, %v", seq, err)
			}
			end(t, f)
			if err := os.Remove(path + ".torn-4"); err != nil {
				t.Fatal(err)
			}
			r = verified(t, path, fixed)
			if !r.OK() || r.Records+len(r.Remains) != 5 || r.Anchor != Matches {
				t.Errorf("after: %+v %+v", r, r.Bad)
			}
			if !bytes.HasPrefix(content(t, path), append(whole, tail+"\n"...)) {
				t.Error("the remains were touched")
			}
		})
	}
}

// A crash right after the first start, and one after another, before any row.
func TestTornTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	for n := range 3 {
		text := []byte{}
		if n > 0 {
			text = content(t, path)
		}
		write(t, path, append(text, `{"wo`...))
		f, r := start(t, path, fixed)
		if r.Torn != 4 || r.Bad != nil || len(r.Remains) != n {
			t.Errorf("%+v", r)
		}
		end(t, f)
	}
	f, r := start(t, path, fixed)
	if !r.OK() || len(r.Remains) != 3 || r.Records != 0 {
		t.Errorf("%+v", r)
	}
	put(t, f, "one")
	end(t, f)
	if r := verified(t, path, fixed); !r.OK() || r.Records != 1 {
		t.Errorf("%+v", r)
	}
}

// Lines gives what is stored and names what is no line of a chain.
func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	long := strings.Repeat("x", MaxRow+1)
	write(t, path, []byte("a\n\n"+long+"\n"+strings.Repeat("y", pieceSize+7)+"\nb\nc"))
	var got []string
	for line, err := range Lines(t.Context(), path) {
		if err != nil {
			line = []byte("error")
		}
		got = append(got, string(line))
	}
	if want := "a||error|error|b|error"; strings.Join(got, "|") != want {
		t.Errorf("%.200q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range Lines(ctx, path) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for _, err := range Lines(t.Context(), path+".none") {
		if !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	if _, err := Verify(ctx, path, fixed); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
