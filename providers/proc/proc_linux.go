package proc

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// attributes make the process the head of a group, and let the kernel end it
// when the thread that starts it is gone.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd returns when the process has ended and ends what it left in its
// group. The process is not reaped yet, so that its number, which is the
// group's, means no other.
func awaitEnd(p *os.Process) {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	unix.Kill(-p.Pid, unix.SIGKILL)
}

func terminate(p *os.Process) { p.Signal(syscall.SIGTERM) }

// kill ends the process; awaitEnd sees to its group.
func kill(p *os.Process) { p.Kill() }

// end kills processes, ours or not, and waits for their end. Each is held by a
// handle that cannot come to mean another process, and looked at once more
// before it is killed. It returns how many it killed.
func end(ctx context.Context, left []seen, is func(key string) bool) (int, error) {
	var held []*handle
	defer func() {
		for _, h := range held {
			h.Close()
		}
	}()
	heads := map[int]bool{}
	for _, s := range left {
		heads[s.pid] = true
	}
	for _, s := range left {
		h, err := hold(s.pid)
		if err != nil {
			return len(held), err
		}
		if h == nil {
			continue
		}
		now, ok := look(s.pid)
		if !ok || !now.carries(is) && !(now.group == s.group && heads[s.group]) {
			h.Close()
			continue
		}
		held = append(held, h)
		if err := unix.PidfdSendSignal(h.fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return len(held), err
		}
	}
	for _, h := range held {
		if err := h.gone(ctx); err != nil {
			return len(held), err
		}
	}
	return len(held), nil
}

// await waits until the processes have ended, for a time.
func await(ctx context.Context, within time.Duration, left []seen) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, s := range left {
		h, err := hold(s.pid)
		if err != nil {
			return err
		}
		if h == nil {
			continue
		}
		err = h.gone(ctx)
		h.Close()
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// handle means one process for as long as it is open.
type handle struct {
	*os.File
	fd int
}

// hold opens a handle of a process; nil when there is none of that number.
func hold(pid int) (*handle, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil, nil
	case err != nil:
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return &handle{os.NewFile(uintptr(fd), "process"), fd}, nil
}

// gone waits until the process has ended, or ctx has, after which there is no
// more waiting on this handle.
func (h *handle) gone(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { h.SetReadDeadline(time.Unix(1, 0)) })()
	c, err := h.SyscallConn()
	if err != nil {
		return err
	}
	err = c.Read(func(uintptr) bool { return h.ended() }) // looks, then waits until there is news
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	return err
}

// ended looks without waiting.
func (h *handle) ended() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
}
