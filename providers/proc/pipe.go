package proc

import (
	"errors"
	"os"
	"sync"
)

// pipe is one side of the connection: two one-way pipes.
type pipe struct {
	r, w *os.File
	once sync.Once
	err  error
}

func (p *pipe) Read(b []byte) (int, error)  { return p.r.Read(b) }
func (p *pipe) Write(b []byte) (int, error) { return p.w.Write(b) }

// Close closes both directions, once.
func (p *pipe) Close() error {
	p.once.Do(func() { p.err = errors.Join(p.w.Close(), p.r.Close()) })
	return p.err
}

// openPipe makes both sides.
func openPipe() (mine, theirs *pipe, err error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, inR.Close(), inW.Close())
	}
	return &pipe{r: outR, w: inW}, &pipe{r: inR, w: outW}, nil
}
