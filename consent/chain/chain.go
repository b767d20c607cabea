// Package chain keeps an append-only file of JSON lines in which every line
// holds the hash of the line before it, so that a changed, a missing and an
// added line can be seen afterwards (AIP-63 C10).
//
// A row is any JSON object. The file gives it three members: seq, its number
// from 0; at, when it was written, unless the row says so itself; and prev, the
// SHA-256 of the exact bytes of the line before, which the first row lacks. The
// hash is of bytes as stored: there is no canonical form, and a row never holds
// a NUL or a newline.
//
// The end of a file cannot prove itself, so the number and the hash of the last
// durable row are kept a second time in PATH.head, under a MAC of the host's
// secret where there is a keychain. Who can put both files back to an earlier
// state, or remove the head, is not caught by it.
//
// A row that a crash cut short is never taken out: its bytes are closed with a
// newline and hashed like any line, and a copy of what was found goes to
// PATH.torn-N, where N is the number of the line (K36). One process writes at a
// time; the operating system holds the lock.
package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"browserhost"
)

// MaxRow is the length of the longest line, in bytes, without its newline.
const MaxRow = 64 << 10

var (
	// ErrLocked says that another process, or another File of this one, has the
	// chain open.
	ErrLocked = errors.New("the record is open elsewhere")
	// ErrBroken is in every error of a File after a write or an fsync failed.
	ErrBroken = errors.New("a write to the record failed")
)

// Options complete a chain.
type Options struct {
	Keys  browserhost.Keys // for the MAC of the head; nil: no head is kept or checked
	Label string           // separates this chain's MAC from others under the same keys
	Now   func() time.Time // nil means time.Now
}

// File is an open chain. It is safe for concurrent use. After a failed write or
// a failed fsync every further call fails with [ErrBroken]: what is on the disk
// is not known any more, and nothing may be built on it.
type File struct {
	path string
	opts Options
	disk disk
	head *keeper // nil when no head is kept

	mu      sync.Mutex    // guards what follows
	next    int64         // lines written
	size    int64         // bytes written
	last    digest        // of the last line
	durable int64         // lines that are on the disk
	round   chan struct{} // the fsync under way; nil when there is none
	broken  error         // why nothing can be written any more

	closing sync.Once
}

// disk is what a chain asks of its file.
type disk interface {
	io.WriteCloser
	Sync() error
}

// Append writes one row in one piece and returns its number and its hash, in
// hex. The row is on the disk only after [File.Durable]. What is no JSON
// object, has a member seq or prev of its own, or is longer than [MaxRow] is
// refused with input_invalid, and nothing is written.
func (c *File) Append(ctx context.Context, row any) (int64, string, error) {
	if err := ctx.Err(); err != nil {
		return 0, "", err
	}
	body, err := encode(row)
	if err != nil {
		return 0, "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return 0, "", unusable(c.broken)
	}
	line, err := body.seal(c.next, c.opts.Now(), c.last)
	if err != nil {
		return 0, "", err
	}
	if _, err := c.disk.Write(line); err != nil {
		c.broken = fmt.Errorf("%w: %w", ErrBroken, err)
		return 0, "", unusable(c.broken)
	}
	seq := c.next
	c.next++
	c.size += int64(len(line))
	c.last = digestOf(line[:len(line)-1])
	return seq, c.last.String(), nil
}

// Durable waits until every row appended so far is on the disk. Callers that
// come together share one fsync: one of them runs it, and the others may give up
// waiting. The head follows on its own: neither a slow keychain nor one that
// cannot be asked holds up a row, and a head that stays behind is no error.
func (c *File) Durable(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for want := c.next; c.broken != nil || c.durable < want; {
		if c.broken != nil {
			return unusable(c.broken)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.round == nil {
			c.sync()
			continue
		}
		round := c.round
		c.mu.Unlock()
		select {
		case <-round:
		case <-ctx.Done():
		}
		c.mu.Lock()
	}
	return nil
}

// sync is one round: an fsync for every row written before it. The lock is held,
// but not during the fsync itself.
func (c *File) sync() {
	round := make(chan struct{})
	c.round = round
	rows, last := c.next, c.last
	c.mu.Unlock()
	err := c.disk.Sync()
	c.mu.Lock()
	c.round = nil
	close(round)
	if err != nil {
		c.broken = cmp.Or(c.broken, fmt.Errorf("%w: %w", ErrBroken, err))
		return
	}
	c.durable = rows
	if c.head != nil {
		c.head.note(rows-1, last)
	}
}

// Close makes everything durable, keeps the head and lets the lock go. What is
// called afterwards fails. Closing again does nothing.
func (c *File) Close() error {
	var err error
	c.closing.Do(func() {
		err = c.Durable(context.Background())
		c.mu.Lock()
		if c.broken == nil {
			c.broken = os.ErrClosed
		}
		round := c.round
		c.mu.Unlock()
		if round != nil {
			<-round
		}
		if c.head != nil {
			c.head.close()
		}
		err = errors.Join(err, c.disk.Close())
	})
	return err
}

// unusable is what a caller is told. Each gets an error of its own, since
// callers add to theirs.
func unusable(err error) error {
	return browserhost.Hide(browserhost.CodeInternal, err, "the record cannot be written, and nothing is done without it")
}

var _ browserhost.Appender = (*File)(nil)
