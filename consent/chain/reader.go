package chain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"browserhost"
)

// pieceSize is how much of a file is read at once. It is more than a row.
const pieceSize = 2 * MaxRow

// piece is a part of a chain: either whole lines, or one line that is odd,
// being longer than any row or without its newline.
type piece struct {
	lines []byte // whole lines, newlines included
	odd   digest // of the odd line
	size  int64  // of the odd line
	torn  bool   // it has no newline
}

// reader cuts a file into pieces. It holds two of them at most, whatever the
// file is.
type reader struct {
	in   io.Reader
	rest []byte // begins the next piece
}

// next returns the next piece, whose lines are in buf, of pieceSize bytes;
// io.EOF after the last one.
func (r *reader) next(buf []byte) (piece, error) {
	n := copy(buf, r.rest)
	r.rest = r.rest[:0]
	for {
		m, err := r.in.Read(buf[n:])
		n += m
		if end := bytes.LastIndexByte(buf[:n], '\n') + 1; end > 0 {
			r.rest = append(r.rest, buf[end:n]...)
			return piece{lines: buf[:end]}, nil
		}
		switch {
		case err == io.EOF && n == 0:
			return piece{}, io.EOF
		case err == io.EOF:
			return piece{odd: digestOf(buf[:n]), size: int64(n), torn: true}, nil
		case err != nil:
			return piece{}, err
		case n == len(buf):
			return r.long(buf)
		}
	}
}

// long reads to the end of a line that began with buf.
func (r *reader) long(buf []byte) (piece, error) {
	h := sha256.New()
	h.Write(buf)
	p := piece{size: int64(len(buf))}
	for {
		n, err := r.in.Read(buf)
		end := bytes.IndexByte(buf[:n], '\n')
		if end >= 0 {
			r.rest = append(r.rest, buf[end+1:n]...)
			n = end
		}
		h.Write(buf[:n])
		p.size += int64(n)
		switch {
		case end >= 0:
		case err == io.EOF:
			p.torn = true
		case err != nil:
			return piece{}, err
		default:
			continue
		}
		h.Sum(p.odd[:0])
		return p, nil
	}
}

// Lines yields the lines of the chain at path as they are stored, without their
// newlines; what they say is not checked. A line is valid until the next one.
// In the place of one that is longer than [MaxRow], and of a last one that is
// cut short, there is an error, and reading goes on. A file that cannot be read
// further, or the end of ctx, is the last error.
func Lines(ctx context.Context, path string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		in, buf := reader{in: f}, make([]byte, pieceSize)
		for {
			p, err := in.next(buf)
			if errors.Is(err, io.EOF) {
				return
			}
			if err := errors.Join(err, ctx.Err()); err != nil {
				yield(nil, err)
				return
			}
			for line := range bytes.Lines(p.lines) {
				if !give(yield, bytes.TrimSuffix(line, []byte("\n"))) {
					return
				}
			}
			if p.size > 0 && !yield(nil, p.err()) {
				return
			}
		}
	}
}

func give(yield func([]byte, error) bool, line []byte) bool {
	if len(line) > MaxRow {
		return yield(nil, piece{size: int64(len(line))}.err())
	}
	return yield(line, nil)
}

// err says what is odd about a line.
func (p piece) err() error {
	why := fmt.Sprintf("a line of %d bytes is longer than a row", p.size)
	if p.torn {
		why = fmt.Sprintf("the last line is cut short after %d bytes", p.size)
	}
	return browserhost.Errorf(browserhost.CodeInputInvalid, "%s", why)
}
