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

// page is a piece of a chain on its way through inspect.
type page struct {
	piece
	buf   [pieceSize]byte
	lines []line
	ready chan struct{} // closed when lines are complete
}

var pages = sync.Pool{New: func() any { return new(page) }}

// inspect walks through a chain. The line with the number mark is the one whose
// digest is wanted. Pages are examined side by side, since each line says itself
// what the hash of the one before should be; the links are compared in order.
func inspect(ctx context.Context, in io.Reader, path string, mark int64) (findings, error) {
	w := walk{path: path, mark: mark}
	read := make(chan *page, runtime.GOMAXPROCS(0))
	stop := make(chan struct{})
	var failed error // of the reader; set before read is closed
	var all sync.WaitGroup
	defer all.Wait()
	defer close(stop)
	all.Go(func() {
		defer close(read)
		for r := (reader{in: in}); ; {
			p := pages.Get().(*page)
			p.ready = make(chan struct{})
			if p.piece, failed = r.next(p.buf[:]); failed != nil {
				return
			}
			select {
			case read <- p:
				all.Go(p.examine)
			case <-stop:
				return
			}
		}
	})
	for p := range read {
		if err := ctx.Err(); err != nil {
			return w.findings, err
		}
		<-p.ready
		if p.torn {
			w.end(p.odd, p.size)
			return w.findings, nil
		}
		for i := range p.lines {
			w.step(&p.lines[i])
		}
		pages.Put(p)
	}
	if !errors.Is(failed, io.EOF) {
		return w.findings, failed
	}
	w.end(digest{}, 0)
	return w.findings, nil
}

// examine reads the lines of a page.
func (p *page) examine() {
	p.lines = p.lines[:0]
	if p.size > 0 {
		p.lines = append(p.lines, line{digest: p.odd, form: isLong})
	}
	plain := bytes.IndexByte(p.piece.lines, 0) < 0 // a NUL is of no row: rather the trace of a power cut
	for rest := p.piece.lines; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		p.lines = append(p.lines, lineOf(rest[:end], plain))
		rest = rest[end+1:]
	}
	close(p.ready)
}

// lineOf reads a line, at a glance where that is enough.
func lineOf(text []byte, plain bool) line {
	l := line{digest: digestOf(text)}
	if plain {
		var ok bool
		if l.members, ok = glance(text); ok && len(text) <= MaxRow {
			return l
		}
	}
	var err error
	l.members, err = study(text)
	switch {
	case len(text) > MaxRow:
		l.form = isLong
	case errors.Is(err, errMember):
		l.form = isOdd
	case err != nil:
		l.form = isNone
	}
	return l
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
func (w *walk) step(l *line) {
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
