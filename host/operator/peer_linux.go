package operator

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// peer is the process at the other end of a connection, as it was when it
// connected.
type peer struct {
	uid, pid int
	fd       int // a pidfd of the process; -1 when it was gone already
}

func supported() error { return nil }

// peerOf asks the kernel who connected. While the pidfd is held and answers,
// the number of the process cannot be another's.
func peerOf(conn *net.UnixConn) (*peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &peer{fd: -1}
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			failed = err
			return
		}
		p.uid, p.pid = int(cred.Uid), int(cred.Pid)
		pidfd, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if errors.Is(err, unix.ENOPROTOOPT) { // Linux before 6.5
			pidfd, err = unix.PidfdOpen(p.pid, 0)
		}
		if err == nil {
			p.fd = pidfd
		}
	})
	return p, errors.Join(err, failed)
}

// alive reports whether the process that connected still runs. What was learnt
// about its number before is then true of it.
func (p *peer) alive() bool {
	if p.fd < 0 {
		return false
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, 0)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n == 0 // readable is ended
		}
	}
}

// ended waits until the process has ended. Afterwards p knows nothing more.
func (p *peer) ended(ctx context.Context) error {
	if p.fd < 0 {
		return nil
	}
	if err := unix.SetNonblock(p.fd, true); err != nil { // lets the runtime wait for it
		return err
	}
	file := os.NewFile(uintptr(p.fd), "pidfd")
	p.fd = -1
	defer file.Close()
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err == nil && n > 0
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (p *peer) close() {
	if p.fd >= 0 {
		unix.Close(p.fd)
	}
}
