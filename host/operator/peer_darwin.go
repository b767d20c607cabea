package operator

import (
	"context"
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// peer is the process at the other end of a connection, as it was when it
// connected.
type peer struct {
	uid, pid int
	began    unix.Timeval // when the process started; zero when it was gone already
}

func supported() error { return nil }

// peerOf asks the kernel who connected, and remembers when that process
// started: a number with another start is another process.
func peerOf(conn *net.UnixConn) (*peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &peer{}
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err != nil {
			failed = err
			return
		}
		p.uid = int(cred.Uid)
		p.pid, failed = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	})
	p.began = began(p.pid)
	return p, errors.Join(err, failed)
}

func began(pid int) unix.Timeval {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return unix.Timeval{}
	}
	return info.Proc.P_starttime
}

// alive reports whether the process that connected still runs. What was learnt
// about its number before is then true of it.
func (p *peer) alive() bool {
	return p.began != unix.Timeval{} && p.began == began(p.pid)
}

// ended waits until the process has ended. The kernel tells; only ctx is looked
// at once a second.
func (p *peer) ended(ctx context.Context) error {
	queue, err := unix.Kqueue()
	if err != nil {
		return err
	}
	defer unix.Close(queue)
	want := unix.Kevent_t{Ident: uint64(p.pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT}
	if _, err := unix.Kevent(queue, []unix.Kevent_t{want}, nil, nil); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	for p.alive() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		got := make([]unix.Kevent_t, 1)
		if n, err := unix.Kevent(queue, nil, got, &unix.Timespec{Sec: 1}); n > 0 {
			return nil
		} else if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return nil
}

func (p *peer) close() {}
