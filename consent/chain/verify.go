package chain

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"browserhost"
)

// Report is what verifying found.
type Report struct {
	Records int    // whole, valid rows before the first fault
	Head    string // hash of the last line
	Torn    int    // bytes after the last newline
	Bad     *Bad   // the first fault; nil when there is none
	Remains []int  // lines (from 1) that were cut short by a crash and closed later
	Anchor  string // "ok", "none", "behind", "mismatch" or "truncated"

	lines int
	last  string
}

// OK reports whether nothing was changed. A head that is behind is what a
// crash between a row and its head leaves, and one that is missing is what a
// host without a keychain leaves; neither is a fault.
func (r Report) OK() bool {
	return r.Bad == nil && r.Torn == 0 && r.Anchor != Mismatch && r.Anchor != Truncated
}

// What became of the head that is kept beside the file.
const (
	Matches   = "ok"        // it is the head of this file
	None      = "none"      // there is none, or no key to check it with
	Behind    = "behind"    // it is an earlier row of this file
	Mismatch  = "mismatch"  // it is forged, or of another file
	Truncated = "truncated" // it is further than the file
)

// Bad is the first fault of a chain.
type Bad struct {
	Seq  int64  // the number that the row should have
	Line int    // from 1
	Why  string // "not a JSON object", "wrong seq", "prev is not the hash of the line before", …
}

// Verify checks the chain at path without locking it: every row, every link,
// and the head that is kept beside it.
func Verify(ctx context.Context, path string, opts Options) (Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	return verify(ctx, f, path, opts)
}

func verify(ctx context.Context, f io.Reader, path string, opts Options) (Report, error) {
	r, anchor := Report{}, readAnchor(ctx, path, opts)
	atAnchor := "" // hash of the row that the kept head names
	for line, err := range lines(ctx, f) {
		if t, ok := errors.AsType[*torn](err); ok {
			r.Torn, r.last = t.length, hash(line)
			r.lines++
			break
		}
		if err != nil {
			return r, err
		}
		r.check(line)
		if anchor.Seq == int64(r.lines-1) {
			atAnchor = r.last
		}
	}
	r.Head = r.last
	r.Anchor = anchor.judge(int64(r.lines), atAnchor)
	return r, nil
}

// check looks at the next line. What a crash cut short and a later start closed
// is no fault of the chain: the line after it holds its hash (K36).
func (r *Report) check(line []byte) {
	number := r.lines
	before := r.last
	r.lines, r.last = r.lines+1, hash(line)
	if r.Bad != nil {
		return
	}
	bad := func(why string) { r.Bad = &Bad{Seq: int64(number), Line: number + 1, Why: why} }
	m, err := members(line)
	switch {
	case err != nil:
		r.Remains = append(r.Remains, number+1)
		return
	case m.Seq == nil || *m.Seq != int64(number):
		bad("its number is wrong")
	case m.Prev == nil && before != "", m.Prev != nil && *m.Prev != before:
		// The line before is not what it was, or its successor is forged. The
		// earlier one is named: from there on nothing is proven.
		bad("the record after it holds another hash of it")
		if number > 0 {
			r.Bad.Seq, r.Bad.Line = int64(number-1), number
		}
	default:
		r.Records++
	}
}

type torn struct{ length int }

func (t *torn) Error() string { return fmt.Sprintf("the last line is cut short: %d bytes", t.length) }

// Lines yields the lines of the chain at path as they are stored, without
// their newlines. A line is valid until the next one. A last line without a
// newline ends the sequence with an error.
func Lines(ctx context.Context, path string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		for line, err := range lines(ctx, f) {
			if !yield(line, err) {
				return
			}
		}
	}
}

func lines(ctx context.Context, f io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := bufio.NewReaderSize(f, MaxRow+1)
		for {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			line, err := in.ReadSlice('\n')
			switch {
			case err == nil:
				if !yield(bytes.TrimSuffix(line, []byte("\n")), nil) {
					return
				}
			case errors.Is(err, io.EOF) && len(line) == 0:
				return
			case errors.Is(err, io.EOF):
				yield(line, &torn{len(line)})
				return
			case errors.Is(err, bufio.ErrBufferFull):
				yield(nil, browserhost.Errorf(browserhost.CodeInputInvalid, "a line is longer than %d bytes", MaxRow))
				return
			default:
				yield(nil, err)
				return
			}
		}
	}
}
