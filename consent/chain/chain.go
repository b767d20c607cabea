// Package chain keeps an append-only file of JSON lines in which every line
// holds the hash of the line before it, so that a change, a missing line or
// one too many can be seen afterwards.
//
// A row is any JSON object. The file gives it three members: seq, its number
// from 0; at, when it was written, unless the row says so itself; and prev, the
// SHA-256 of the exact bytes of the line before, which the first row lacks. The
// hash is of bytes as stored: there is no canonical form.
//
// The end of a file cannot prove itself, so the number and hash of the last
// durable row are kept a second time beside it, under a MAC of the host's
// secret where there is a keychain. One process writes at a time; the
// operating system holds the lock.
package chain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"browserhost"
)

// MaxRow is the length of the longest line, in bytes, without its newline.
const MaxRow = 64 << 10

// Options complete a chain.
type Options struct {
	Keys  browserhost.Keys // for the MAC of the head; nil leaves it out
	Label string           // separates this chain's MAC from others under the same keys
	Now   func() time.Time // nil means time.Now
}

// File is an open chain. It is safe for concurrent use. After a failed write or
// a failed fsync every further call fails: what is on the disk is not known
// any more, and nothing may be built on it.
type File struct {
	path string
	opts Options
	file *os.File

	mu     sync.Mutex // guards what follows
	next   int64
	head   string // hash of the last row; "" when there is none
	broken error

	syncing sync.Mutex // held during an fsync, so that many callers share one
	durable int64      // rows that are on the disk; guarded by mu
}

// Open opens or makes the chain at path, takes its lock, and checks it whole.
// A last line that was cut short stays where it is, closed with a newline, and
// is reported (K36). A chain with a fault is opened all the same, so that the
// host can go on recording; the report says what is wrong.
func Open(ctx context.Context, path string, opts Options) (*File, Report, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, Report{}, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, Report{}, err
	}
	c := &File{path: path, opts: opts, file: f}
	report, err := c.begin(ctx)
	if err != nil {
		f.Close()
		return nil, report, err
	}
	return c, report, nil
}

func (c *File) begin(ctx context.Context) (Report, error) {
	if err := lock(c.file); err != nil {
		return Report{}, fmt.Errorf("another process writes %s: %w", filepath.Base(c.path), err)
	}
	if err := c.file.Chmod(0o600); err != nil {
		return Report{}, err
	}
	report, err := verify(ctx, c.file, c.path, c.opts)
	if err != nil {
		return report, err
	}
	if report.Torn > 0 {
		if _, err := c.file.Write([]byte("\n")); err != nil {
			return report, err
		}
		// The remains count as a line: its bytes are part of the chain now.
		if err := c.file.Sync(); err != nil {
			return report, err
		}
	}
	c.next, c.head = int64(report.lines), report.last
	c.durable = c.next
	return report, syncDir(filepath.Dir(c.path))
}

// Append writes one row in one piece and returns its number and its hash. The
// row is on the disk only after [File.Durable]. A row that is no JSON object,
// has one of the chain's own members seq and prev, or is too long is refused
// with input_invalid, and nothing is written.
func (c *File) Append(ctx context.Context, row any) (int64, string, error) {
	if err := ctx.Err(); err != nil {
		return 0, "", err
	}
	body, err := json.Marshal(row)
	if err != nil {
		return 0, "", browserhost.Hide(browserhost.CodeInternal, err, "a record cannot be written as JSON")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return 0, "", c.broken
	}
	line, err := c.seal(body)
	if err != nil {
		return 0, "", err
	}
	if _, err := c.file.Write(line); err != nil {
		return 0, "", c.fail(err)
	}
	seq := c.next
	c.next++
	c.head = hash(line[:len(line)-1])
	return seq, c.head, nil
}

// seal adds the chain's members to an encoded row, and the newline.
func (c *File) seal(body []byte) ([]byte, error) {
	own, err := members(body)
	if err != nil || own.Seq != nil || own.Prev != nil {
		return nil, browserhost.Hide(browserhost.CodeInputInvalid, err, "a record is not one JSON object without seq and prev")
	}
	out := make([]byte, 0, len(body)+160)
	out = append(out, bytes.TrimSuffix(body, []byte("}"))...)
	add := func(name, value string) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, `"`+name+`":`+value...)
	}
	add("seq", fmt.Sprint(c.next))
	if own.At == nil {
		add("at", `"`+browserhost.FormatTime(c.opts.Now())+`"`)
	}
	if c.head != "" {
		add("prev", `"`+c.head+`"`)
	}
	out = append(out, '}', '\n')
	if len(out)-1 > MaxRow {
		return nil, browserhost.Errorf(browserhost.CodeInputInvalid, "a record is longer than %d bytes", MaxRow)
	}
	return out, nil
}

// fail keeps the reason and gives the error that every call gets from now on.
func (c *File) fail(err error) error {
	c.broken = browserhost.Hide(browserhost.CodeInternal, err, "the record cannot be written; nothing is done without it")
	return c.broken
}

// Durable waits until every row appended so far is on the disk, and then keeps
// the head beside the file. Callers that come together share one fsync. That
// the head could not be kept is no error: verifying tells of it.
func (c *File) Durable(ctx context.Context) error {
	c.mu.Lock()
	want := c.next
	c.mu.Unlock()

	c.syncing.Lock()
	defer c.syncing.Unlock()
	c.mu.Lock()
	upTo, head, done, broken := c.next, c.head, c.durable >= want, c.broken
	c.mu.Unlock()
	if broken != nil || done {
		return broken
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := c.file.Sync()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		return c.fail(err)
	}
	c.durable = upTo
	c.keepHead(ctx, upTo-1, head)
	return nil
}

// Close makes everything durable and lets the lock go.
func (c *File) Close() error {
	err := c.Durable(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		c.broken = browserhost.Hide(browserhost.CodeInternal, os.ErrClosed, "the record is closed")
	}
	return errors.Join(err, c.file.Close())
}

// own are the chain's members of a row.
type own struct {
	Seq  *int64         `json:"seq"`
	At   *string        `json:"at"`
	Prev *string        `json:"prev"`
	Rest jsontext.Value `json:",unknown"`
}

func members(line []byte) (own, error) {
	var m own
	if len(line) == 0 || line[0] != '{' || line[len(line)-1] != '}' {
		return m, errors.New("not a JSON object")
	}
	return m, json.Unmarshal(line, &m)
}

func hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

var _ browserhost.Appender = (*File)(nil)
var _ io.Closer = (*File)(nil)
