package chain

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"browserhost"
)

// After an fsync that failed nothing is taken any more, not even what was
// waiting: the kernel may have dropped the rows (AIP-63 C10).
func TestFailedSync(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	synctest.Test(t, func(t *testing.T) {
		f, disk := slowly(t, path)
		done := make(chan error, 2)
		for range 2 {
			if _, _, err := f.Append(t.Context(), word{"x"}); err != nil {
				t.Fatal(err)
			}
			go func() { done <- f.Durable(t.Context()) }()
			synctest.Wait()
		}
		<-disk.syncs <- errors.New("input/output error")
		var told []error
		for range 2 {
			told = append(told, <-done)
		}
		_, _, err := f.Append(t.Context(), word{"y"})
		told = append(told, err, f.Durable(t.Context()), f.Close())
		for i, err := range told {
			if !errors.Is(err, ErrBroken) || browserhost.CodeOf(err) != browserhost.CodeInternal {
				t.Errorf("%d: %v", i, err)
			}
		}
		if told[0] == told[1] {
			t.Error("two callers share an error that each may add to")
		}
	})
}

// full is a disk that takes half of a row.
type full struct{ disk }

func (d full) Write(b []byte) (int, error) {
	n, err := d.disk.Write(b[:len(b)/2])
	return n, errors.Join(err, errors.New("no space left"))
}

// A write that failed ends the chain for this process; the next start keeps
// what there is and goes on (K36).
func TestFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	f, _ := start(t, path, fixed)
	put(t, f, "one")
	f.disk = full{f.disk}
	for range 2 {
		if _, _, err := f.Append(t.Context(), word{"two"}); !errors.Is(err, ErrBroken) || strings.Contains(err.Error(), "space") {
			t.Errorf("%v", err)
		}
	}
	if err := f.Close(); !errors.Is(err, ErrBroken) {
		t.Errorf("%v", err)
	}
	f, r := start(t, path, fixed)
	if r.Torn == 0 || r.Records != 1 || r.Bad != nil {
		t.Errorf("%+v", r)
	}
	put(t, f, "three")
	end(t, f)
	if r := verified(t, path, fixed); !r.OK() || r.Records != 2 {
		t.Errorf("%+v", r)
	}
}

// A closed chain takes nothing and can be closed again.
func TestClosed(t *testing.T) {
	f, _ := start(t, filepath.Join(t.TempDir(), "rows.jsonl"), fixed)
	put(t, f, "one")
	end(t, f)
	end(t, f)
	if _, _, err := f.Append(t.Context(), word{"two"}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
	if err := f.Durable(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
}
