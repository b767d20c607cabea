// Package proc starts processes that must not outlive this one, marks them so
// that a later run can find what was left, and answers questions about other
// processes of this computer. It does not know that they are browsers.
//
// A started process carries its key twice: as an argument, for people who look
// at a process list, and in its environment, which everything that it starts
// inherits. The sweep goes by either (AIP-63 L8). Where the operating system
// can, a process is also told to die with this one (Linux: the parent-death
// signal, which belongs to the thread that started it; that thread is kept).
package proc

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// The marker of our processes.
const (
	Flag     = "--browserhost-instance="
	Variable = "BROWSERHOST_INSTANCE"
)

// Spec describes a process.
type Spec struct {
	Path string   // absolute
	Args []string // without the marker
	Env  []string // NAME=value, beside the environment of this process; a later one wins
	Dir  string   // working directory; "" = this process's
	Key  string   // the instance key; required
}

// Process is one running process with a pipe to it: its file descriptor 3 is
// read by it and 4 is written by it.
type Process struct {
	key  string
	cmd  *exec.Cmd
	pipe pipe
	tail *tail
	done chan struct{}
	exit string // read after done
}

// pipe joins the two ends that stay here.
type pipe struct {
	r, w *os.File
	once *sync.Once
}

func (p pipe) Read(b []byte) (int, error)  { return p.r.Read(b) }
func (p pipe) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p pipe) Close() (err error) {
	p.once.Do(func() { err = errors.Join(p.w.Close(), p.r.Close()) })
	return err
}

// Start starts a process. It does not end with ctx, which bounds only the
// start; it ends with [Process.Stop] or with this process.
func Start(ctx context.Context, s Spec) (*Process, error) {
	if s.Key == "" {
		return nil, errors.New("proc: a process without a key could not be found again")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	theirs, mine, err := pipes()
	if err != nil {
		return nil, err
	}
	p := &Process{key: s.Key, pipe: mine, tail: &tail{}, done: make(chan struct{})}
	p.cmd = exec.Command(s.Path, append([]string{Flag + s.Key}, s.Args...)...)
	p.cmd.Env = append(append(os.Environ(), s.Env...), Variable+"="+s.Key)
	p.cmd.Dir = s.Dir
	p.cmd.Stderr = p.tail
	p.cmd.WaitDelay = 2 * time.Second // a grandchild may hold stderr open
	p.cmd.SysProcAttr = attributes()
	p.cmd.ExtraFiles = theirs

	started := make(chan error)
	go p.run(started)
	err = <-started
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		p.pipe.Close()
		return nil, err
	}
	return p, nil
}

// pipes makes both directions: what the process gets, and what stays here.
func pipes() (theirs []*os.File, mine pipe, err error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, pipe{}, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, pipe{}, err
	}
	return []*os.File{inR, outW}, pipe{outR, inW, &sync.Once{}}, nil
}

// run starts the process and waits for it, on one thread: its death would end
// the process too.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.cmd.Wait()
	p.exit = p.cmd.ProcessState.String()
	close(p.done)
}

// Pipe is the connection to the process.
func (p *Process) Pipe() io.ReadWriteCloser { return p.pipe }

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended; then Exit says how, for instance
// "exit status 1" or "signal: killed".
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit is how the process ended. Read it after Done.
func (p *Process) Exit() string { return p.exit }

// Stderr is the end of what the process wrote there: at most 20 lines.
func (p *Process) Stderr() []string { return p.tail.lines() }

// grace is how long a process may take to end when it is asked to.
const grace = 5 * time.Second

// Stop ends the process and everything with its key: asked first, unless
// force is set, then killed, then swept (AIP-63 L5). It returns how many the
// sweep found, which is 0 after an orderly end, and when called again.
func (p *Process) Stop(ctx context.Context, force bool) (swept int, err error) {
	defer p.pipe.Close()
	if !force {
		terminate(p.cmd.Process)
		select {
		case <-p.done:
		case <-ctx.Done():
		case <-time.After(grace):
		}
	}
	select {
	case <-p.done:
	default:
		killGroup(p.cmd.Process)
		<-p.done
	}
	return Sweep(context.WithoutCancel(ctx), p.key)
}

// tail keeps the last lines of a stream.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const (
	maxTail  = 16 << 10
	maxLines = 20
)

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - maxTail; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.buf))
	if text == "" {
		return nil
	}
	all := strings.Split(text, "\n")
	return all[max(0, len(all)-maxLines):]
}
