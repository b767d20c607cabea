// Package proc starts processes that must not outlive this one, marks them so
// that a later run can find what was left, and answers questions about other
// processes of this computer. It does not know that they are browsers.
//
// A started process carries its key twice: as an argument, for people who look
// at a process list, and in its environment, which what it starts inherits and
// which nobody types by accident. [Sweep] goes by the second, and by the first
// only where the second cannot be read (AIP-63 L8). On Linux the kernel also
// ends the process when this one is gone, however it went; elsewhere the end of
// the pipe tells it.
package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"time"
)

// The marker of our processes.
const (
	Flag     = "--browserhost-instance="
	Variable = "BROWSERHOST_INSTANCE"
)

// Times of [Process.Stop] and after the end of a process.
const (
	grace   = 5 * time.Second        // from being asked to end to being killed (AIP-63 L5)
	lastBit = 250 * time.Millisecond // for the last of stderr, when something else still holds it open
)

// Spec describes a process.
type Spec struct {
	Path string   // absolute
	Args []string // without the marker, which comes before them
	Env  []string // NAME=value; nil = the environment of this process. The marker is added
	Dir  string   // working directory; "" = this process's
	Key  string   // the instance key: 1 to 128 letters, digits, dots, dashes, underscores
}

var keyForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// Process is one running process with a pipe to it: it reads its file
// descriptor 3 and writes its file descriptor 4. Its standard input and output
// are empty; the end of its standard error is kept. It is safe for concurrent use.
type Process struct {
	key  string
	cmd  *exec.Cmd
	pipe *pipe
	tail *tail
	done chan struct{}
	exit string // read after done
}

// Start starts a process. It does not end with ctx, which bounds only the
// start; it ends with [Process.Stop] or with this process.
func Start(ctx context.Context, s Spec) (*Process, error) {
	if !keyForm.MatchString(s.Key) {
		return nil, fmt.Errorf("proc: %q is no key; the process could not be found again", s.Key)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	env := s.Env
	if env == nil {
		env = os.Environ()
	}
	mine, theirs, err := openPipe()
	if err != nil {
		return nil, err
	}
	said, says, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, mine.Close(), theirs.Close())
	}
	p := &Process{key: s.Key, pipe: mine, tail: &tail{}, done: make(chan struct{})}
	p.cmd = exec.Command(s.Path, append([]string{Flag + s.Key}, s.Args...)...)
	p.cmd.Env = append(env[:len(env):len(env)], Variable+"="+s.Key)
	p.cmd.Dir = s.Dir
	p.cmd.Stderr = says
	p.cmd.SysProcAttr = attributes()
	p.cmd.ExtraFiles = []*os.File{theirs.r, theirs.w}

	started := make(chan error)
	go p.run(started, said)
	err = <-started
	theirs.Close()
	says.Close()
	if err != nil {
		mine.Close()
		return nil, err
	}
	return p, nil
}

// run starts the process and waits for its end, all on one thread: to the
// kernel it is the thread that is the parent, and its end would be the
// process's.
func (p *Process) run(started chan<- error, stderr *os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer stderr.Close()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		io.Copy(p.tail, stderr)
	}()
	awaitEnd(p.cmd.Process)
	p.cmd.Wait()
	stderr.SetReadDeadline(time.Now().Add(lastBit))
	<-heard
	p.exit = p.cmd.ProcessState.String()
	close(p.done)
}

// Pipe is the connection to the process. The first Close closes both directions.
func (p *Process) Pipe() io.ReadWriteCloser { return p.pipe }

// PID is the process's number. Another process may have it after Done.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended, and on Linux its group with it.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit is how the process ended, for instance "exit status 1" or "signal:
// killed". Read it after Done.
func (p *Process) Exit() string { return p.exit }

// Stderr is the end of what the process wrote there: at most 20 lines of at
// most 16 KiB together, oldest first. It may say anything, paths included.
func (p *Process) Stderr() []string { return p.tail.lines() }

// Stop ends the process, its group and everything else with its key: asked by
// SIGTERM unless force is set, killed after five seconds or when ctx ends, then
// swept. It returns how many had to be swept: 0 when all has gone with the
// process or within a second of it, and when called again (AIP-63 L5).
func (p *Process) Stop(ctx context.Context, force bool) (swept int, err error) {
	defer p.pipe.Close()
	if !force {
		terminate(p.cmd.Process)
		asked, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		select {
		case <-p.done:
		case <-asked.Done():
		}
	}
	select {
	case <-p.done:
	default:
		kill(p.cmd.Process)
		select {
		case <-p.done:
		case <-time.After(grace): // it hangs in the kernel; the sweep says so
		}
	}
	return sweep(context.WithoutCancel(ctx), leaveTime, func(key string) bool { return key == p.key })
}
