package chain

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
)

// Report is what checking a chain found.
type Report struct {
	Records int    // rows before the first fault
	Head    string // hash of the last line, in hex; "" when there is none
	Torn    int    // bytes after the last newline
	Remains []int  // lines, from 1, that a crash had cut short and a later start closed
	Bad     *Bad   // the first fault; nil when there is none
	Anchor  string // what the kept head says: Matches, None, Behind, Mismatch or Truncated
}

// What the head that is kept beside the file says of it.
const (
	Matches   = "ok"        // it is the head of this file
	None      = "none"      // there is none, or none that this host's secret can check (K7)
	Behind    = "behind"    // it is an earlier row of this file, as after a crash
	Mismatch  = "mismatch"  // it is forged, or the row it names is another one
	Truncated = "truncated" // it is further than the file
)

// OK reports whether nothing was changed and nothing is cut short. A head that
// is behind or missing is no fault.
func (r Report) OK() bool {
	return r.Bad == nil && r.Torn == 0 && r.Anchor != Mismatch && r.Anchor != Truncated
}

// Bad is the first fault of a chain: the line that is not as it was written,
// as near as the lines around it tell.
type Bad struct {
	Seq  int64 // the number that the row should have
	Line int   // from 1
	Why  string
}

// Verify checks the chain at path, which may be open elsewhere: every line,
// every link, and the head that is kept beside the file. Under a writer it may
// find a last line that is not complete yet; [File.Verify] does not.
func Verify(ctx context.Context, path string, opts Options) (Report, error) {
	return verify(ctx, path, opts, func() int64 { return math.MaxInt64 })
}

// Verify checks the rows that were appended so far, as the function of that
// name does, while others are being added.
func (c *File) Verify(ctx context.Context) (Report, error) {
	return verify(ctx, c.path, c.opts, func() int64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.size
	})
}

// verify reads the head before it asks how far to read: so the head is never
// further than what is read.
func verify(ctx context.Context, path string, opts Options, size func() int64) (Report, error) {
	kept := readHead(path)
	f, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	found, err := inspect(ctx, io.LimitReader(f, size()), path, kept.seq())
	if err := errors.Join(err, f.Close()); err != nil {
		return Report{}, err
	}
	found.report.Anchor, _ = kept.judge(ctx, opts, found)
	return found.report, nil
}
