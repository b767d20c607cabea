package chain

import (
	"bytes"
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"browserhost"
)

// chest is a keychain that can be locked, counts, and may take its time.
type chest struct {
	keys
	locked atomic.Bool
	asked  atomic.Int32
	takes  time.Duration
}

func (c *chest) MAC(ctx context.Context, label string, data []byte) ([]byte, error) {
	c.asked.Add(1)
	select {
	case <-time.After(c.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c.locked.Load() {
		return nil, browserhost.Errorf(browserhost.CodeKeyring, "locked")
	}
	return c.keys.MAC(ctx, label, data)
}

// Rows never wait for the keychain: while it hangs they are durable all the
// same, the head stays behind, and closing waits a bounded time.
func TestHangingKeychain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	synctest.Test(t, func(t *testing.T) {
		f, _ := start(t, path, Options{Keys: &chest{keys: keys{"one"}, takes: time.Hour}, Label: "test"})
		before := time.Now()
		put(t, f, "one", "two")
		put(t, f, "three")
		if took := time.Since(before); took != 0 {
			t.Errorf("the rows waited %v", took)
		}
		end(t, f)
		if took := time.Since(before); took > 2*headTime {
			t.Errorf("closing took %v", took)
		}
	})
	if r := verified(t, path, fixed); !r.OK() || r.Anchor != None || r.Records != 3 {
		t.Errorf("%+v", r)
	}
}

// The head follows the rows by itself: at once for a single row, and in a burst
// once in a while, so that the keychain is not asked for every row.
func TestHeadFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	synctest.Test(t, func(t *testing.T) {
		k := &chest{keys: keys{"one"}}
		f, _ := start(t, path, Options{Keys: k, Label: "test"})
		put(t, f, "one")
		synctest.Wait()
		if r := verified(t, path, fixed); r.Anchor != Matches {
			t.Errorf("after one row: %+v", r)
		}
		asked := k.asked.Load()
		for range 100 {
			put(t, f, "more")
		}
		synctest.Wait()
		if n := k.asked.Load(); n != asked {
			t.Errorf("the keychain was asked %d times in a burst", n-asked)
		}
		if r := verified(t, path, fixed); !r.OK() || r.Anchor != Behind {
			t.Errorf("in the burst: %+v", r)
		}
		time.Sleep(headPause)
		synctest.Wait()
		if r := verified(t, path, fixed); r.Anchor != Matches {
			t.Errorf("after the burst: %+v", r)
		}
		end(t, f)
	})
}

// K7: without a keychain rows are appended all the same and there is no head;
// one that is unlocked later signs again.
func TestLockedKeychain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	synctest.Test(t, func(t *testing.T) {
		k := &chest{keys: keys{"one"}}
		k.locked.Store(true)
		f, _ := start(t, path, Options{Keys: k, Label: "test"})
		put(t, f, "one")
		synctest.Wait()
		if r := verified(t, path, fixed); !r.OK() || r.Anchor != None {
			t.Errorf("locked: %+v", r)
		}
		k.locked.Store(false)
		put(t, f, "two")
		end(t, f)
	})
	if r := verified(t, path, fixed); !r.OK() || r.Anchor != Matches {
		t.Errorf("unlocked: %+v", r)
	}
}

// A keychain that is locked while rows are cut off does not hide it: before the
// head is replaced for the first time, the old one is held against the file as
// it was at the start.
func TestCutOffBehindALock(t *testing.T) {
	path := written(t)
	rows := bytes.SplitAfter(content(t, path), []byte("\n"))
	write(t, path, bytes.Join(rows[:1], nil))
	k := &chest{keys: keys{"one"}}
	k.locked.Store(true)
	f, r := start(t, path, Options{Keys: k, Label: "test"})
	if r.Anchor != None {
		t.Errorf("%+v", r)
	}
	k.locked.Store(false)
	put(t, f, "other two", "other three", "four")
	end(t, f)
	if r := verified(t, path, fixed); r.OK() || r.Anchor != Mismatch {
		t.Errorf("%+v", r)
	}
}

// K7: a host whose secrets are in memory only has another key after each start.
// It cannot check the old head, says so, and begins a new one.
func TestAnotherKey(t *testing.T) {
	path := written(t)
	opts := Options{Keys: keys{"two"}, Label: "test"}
	f, r := start(t, path, opts)
	if !r.OK() || r.Anchor != None {
		t.Errorf("%+v", r)
	}
	put(t, f, "four")
	end(t, f)
	if r := verified(t, path, opts); !r.OK() || r.Anchor != Matches {
		t.Errorf("%+v", r)
	}
}

// Rows that a crash left without a head get one at the next start, before any
// other row comes.
func TestHeadCatchesUp(t *testing.T) {
	path := written(t)
	ahead := content(t, path)
	rows := bytes.SplitAfter(ahead, []byte("\n"))
	short := filepath.Join(t.TempDir(), "rows.jsonl")
	write(t, short, rows[0])
	f, _ := start(t, short, fixed)
	end(t, f)
	write(t, short, ahead)
	if r := verified(t, short, fixed); !r.OK() || r.Anchor != Behind {
		t.Errorf("after the crash: %+v", r)
	}
	f, _ = start(t, short, fixed)
	end(t, f)
	if r := verified(t, short, fixed); !r.OK() || r.Anchor != Matches {
		t.Errorf("after the start: %+v", r)
	}
}
