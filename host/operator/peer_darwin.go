package operator

import (
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

func (p *peer) close() {}
