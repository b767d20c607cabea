package chain

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
)

// findings are what a walk through a file found, the kept head aside.
type findings struct {
	report Report
	lines  int64  // all of them, one that is cut short included
	last   digest // of the last of them
	marked digest // of the line that was asked for; zero when there is none
}

// line is what one line says without its neighbours.
type line struct {
	digest
	members
	form form
}

type form uint8

const (
	isRow  form = iota
	isOdd       // a JSON object whose members are not those of a chain
	isNone      // no JSON object
	isLong      // longer than any row
)

// inspect walks through a chain. The line with the number mark is the one whose
// digest is wanted. Lines are hashed side by side, since each says itself what
// the hash of the one before should be; the links are compared in order.
func inspect(ctx context.Context, in io.Reader, path string, mark int64) (findings, error) {
	w := walk{path: path, mark: mark}
	type task struct {
		piece
		lines chan []line
	}
	tasks := make(chan task, runtime.GOMAXPROCS(0))
	stop := make(chan struct{})
	var failed error // of the reader; read when tasks is closed
	var all sync.WaitGroup
	defer all.Wait()
	defer close(stop)
	all.Go(func() {
		defer close(tasks)
		for r := (reader{in: in}); ; {
			buf := buffers.Get().(*[pieceSize]byte)
			p, err := r.next(buf[:])
			if err != nil {
				if !errors.Is(err, io.EOF) {
					failed = err
				}
				return
			}
			t := task{p, make(chan []line, 1)}
			select {
			case tasks <- t:
			case <-stop:
				return
			}
			all.Go(func() {
				t.lines <- examine(p)
				buffers.Put(buf)
			})
		}
	})
	for t := range tasks {
		if err := ctx.Err(); err != nil {
			return w.findings, err
		}
		if t.torn {
			w.end(t.odd, t.size)
			return w.findings, nil
		}
		for _, l := range <-t.lines {
			w.step(l)
		}
	}
	if failed != nil {
		return w.findings, failed
	}
	w.end(digest{}, 0)
	return w.findings, nil
}

// examine reads the lines of a piece.
func examine(p piece) []line {
	if p.lines == nil {
		return []line{{digest: p.odd, form: isLong}}
	}
	out := make([]line, 0, bytes.Count(p.lines, []byte{'\n'}))
	for text := range bytes.Lines(p.lines) {
		text = text[:len(text)-1]
		l := line{digest: digestOf(text)}
		var err error
		l.members, err = read(text)
		switch {
		case len(text) > MaxRow:
			l.form = isLong
		case errors.Is(err, errMember):
			l.form = isOdd
		case err != nil:
			l.form = isNone
		}
		out = append(out, l)
	}
	return out
}

// walk follows the links from line to line and stops judging at the first fault.
type walk struct {
	findings
	path string
	mark int64
	open question // what is not clear about the last line
}

// question is what only the next line can answer.
type question uint8

const (
	none   question = iota
	remain          // it is no JSON object: the remains of a crash, or damage?
	doubt           // its prev does not fit: was it changed, or the line before it?
)

// step looks at the next line.
func (w *walk) step(l line) {
	n, before := w.lines, w.last
	w.add(l.digest)
	if w.report.Bad != nil {
		return
	}
	linked := l.form == isRow && (l.has&hasPrev != 0) == (n > 0) && l.prev == before
	w.settle(n-1, before, linked)
	switch {
	case w.report.Bad != nil:
	case l.form == isLong:
		w.blame(n, "it is longer than any row")
	case l.form == isOdd:
		w.blame(n, "a member of the chain is malformed")
	case l.form == isNone:
		w.open = remain
	case l.has&hasSeq == 0 || l.seq != n:
		w.blame(n, "its number is wrong: rows before it are missing, or were added")
	case !linked:
		w.open = doubt
	}
}

func (w *walk) add(d digest) {
	if w.lines == w.mark {
		w.marked = d
	}
	w.lines, w.last = w.lines+1, d
}

// settle answers what was not clear about line n, knowing whether the next one
// holds its hash.
func (w *walk) settle(n int64, sum digest, vouched bool) {
	switch w.open {
	case remain:
		if vouched || w.putAside(n, sum) {
			w.report.Remains = append(w.report.Remains, int(n)+1)
		} else {
			w.blame(n, "it is not a JSON object")
		}
	case doubt:
		if vouched && n > 0 { // n is as it was written, so the line before it is not
			w.blame(n-1, "the row after it holds another hash")
		} else {
			w.blame(n, "it does not hold the hash of the row before it")
		}
	}
	w.open = none
}

func (w *walk) blame(n int64, why string) {
	w.report.Bad = &Bad{Seq: n, Line: int(n) + 1, Why: why}
}

// end takes the bytes after the last newline, if there are any, and completes
// the report. Of two lines of which one was changed the last one is trusted:
// far more of the other one can have changed than of its prev.
func (w *walk) end(torn digest, size int64) {
	if w.report.Bad == nil {
		w.settle(w.lines-1, w.last, w.open == doubt)
	}
	rows := w.lines
	if w.report.Bad != nil {
		rows = w.report.Bad.Seq
	}
	for _, line := range w.report.Remains {
		if int64(line) <= rows {
			w.report.Records--
		}
	}
	w.report.Records += int(rows)
	if size > 0 {
		w.report.Torn = int(size)
		w.add(torn)
	}
	w.report.Head = w.last.String()
}

// putAside reports whether line n is what a start found cut short, to the byte.
func (w *walk) putAside(n int64, sum digest) bool {
	f, err := os.Open(tornPath(w.path, n))
	if err != nil {
		return false
	}
	defer f.Close()
	p, err := (&reader{in: f}).next(make([]byte, pieceSize))
	return err == nil && p.torn && p.odd == sum
}
