package chain

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/hex"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

const (
	headPause = 100 * time.Millisecond // between two heads, so that rows in a burst share one
	maxHead   = 1 << 10                // bytes of a head's file
	headTime  = 5 * time.Second        // for the keychain, each time it is asked
)

// head is what is kept beside a chain.
type head struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
	Key  string `json:"key"` // tells keys apart and nothing about them
	MAC  string `json:"mac"`
}

// sign completes a head.
func (h *head) sign(ctx context.Context, opts Options) error {
	ctx, cancel := context.WithTimeout(ctx, headTime)
	defer cancel()
	key, err := opts.Keys.MAC(ctx, opts.Label, []byte("key"))
	if err != nil {
		return err
	}
	mac, err := opts.Keys.MAC(ctx, opts.Label, fmt.Appendf(nil, "%d %s", h.Seq, h.Hash))
	if err != nil {
		return err
	}
	h.Key, h.MAC = hex.EncodeToString(key[:min(len(key), 8)]), hex.EncodeToString(mac)
	return nil
}

// kept is the head as a file gives it; nil when there is none.
type kept struct {
	head
	damaged bool
}

func headPath(path string) string { return path + ".head" }

// readHead reads the head that is kept beside the chain at path.
func readHead(path string) *kept {
	f, err := os.Open(headPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &kept{damaged: true}
	}
	defer f.Close()
	var k kept
	text, err := io.ReadAll(io.LimitReader(f, maxHead))
	k.damaged = err != nil || json.Unmarshal(text, &k.head, json.RejectUnknownMembers(true)) != nil || k.Seq < 0
	return &k
}

// seq is the number of the row that the head names, -1 when there is none.
func (k *kept) seq() int64 {
	if k == nil || k.damaged {
		return -1
	}
	return k.Seq
}

// judge compares the head with a file. The error says that the keychain could
// not be asked; the answer is None then, and may be another one later. A head
// under another key says nothing here: the owner changed the keychain, or keeps
// secrets in memory only (K7).
func (k *kept) judge(ctx context.Context, opts Options, found findings) (string, error) {
	if k == nil || opts.Keys == nil {
		return None, nil
	}
	if k.damaged {
		return Mismatch, nil
	}
	own := head{Seq: k.Seq, Hash: k.Hash}
	if err := own.sign(ctx, opts); err != nil {
		return None, err
	}
	lines := found.lines
	if found.report.Torn > 0 {
		lines--
	}
	switch {
	case own.Key != k.Key:
		return None, nil
	case !hmac.Equal([]byte(own.MAC), []byte(k.MAC)):
		return Mismatch, nil
	case k.Seq >= lines:
		return Truncated, nil
	case k.Hash != found.marked.String():
		return Mismatch, nil
	case k.Seq < lines-1:
		return Behind, nil
	}
	return Matches, nil
}

// keeper keeps the head of an open chain up to date, behind the back of whoever
// appends: a keychain may take its time.
type keeper struct {
	path string
	opts Options

	old   *kept // what there was at the start, until it is judged; see replaceable
	found findings
	fault bool

	mu   sync.Mutex
	want head // the newest durable row; Hash "" while there is none

	more, stop, done chan struct{}
}

func newKeeper(path string, opts Options, old *kept, found findings) *keeper {
	k := &keeper{
		path: path, opts: opts, old: old, found: found,
		more: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go k.run()
	return k
}

// note says which row is the last durable one.
func (k *keeper) note(seq int64, last digest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if seq < k.want.Seq {
		return
	}
	k.want = head{Seq: seq, Hash: last.String()}
	select {
	case k.more <- struct{}{}:
	default:
	}
}

// close keeps the head a last time and ends the keeper.
func (k *keeper) close() {
	close(k.stop)
	<-k.done
}

func (k *keeper) run() {
	defer close(k.done)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-k.more:
			k.keep()
		case <-k.stop:
			k.keep()
			return
		}
		pause.Reset(headPause)
		select {
		case <-pause.C:
		case <-k.stop:
			k.keep()
			return
		}
	}
}

// keep writes the newest head. One that cannot be written stays behind.
func (k *keeper) keep() {
	k.mu.Lock()
	h := k.want
	k.mu.Unlock()
	ctx := context.Background()
	if h.Hash == "" || !k.replaceable(ctx) || h.sign(ctx, k.opts) != nil {
		return
	}
	text, err := json.Marshal(h)
	if err != nil || replace(headPath(k.path), bytes.NewReader(text)) != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.want.Seq == h.Seq {
		k.want.Hash = ""
	}
}

// replaceable reports whether the head of the last time may go: one that does
// not fit the file is the proof that rows were changed or cut off, and stays
// until the owner takes it away.
func (k *keeper) replaceable(ctx context.Context) bool {
	if k.old != nil {
		state, err := k.old.judge(ctx, k.opts, k.found)
		if err != nil {
			return false
		}
		k.fault = state == Mismatch || state == Truncated
		k.old = nil
	}
	return !k.fault
}
