//go:build !linux

package proc

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	gonet "github.com/shirou/gopsutil/v4/net"
	"github.com/shirou/gopsutil/v4/process"
)

// processes lists what runs of this user.
func processes(ctx context.Context) ([]seen, error) {
	pids, err := process.PidsWithContext(ctx)
	if err != nil {
		return nil, err
	}
	me, err := (&process.Process{Pid: int32(os.Getpid())}).UsernameWithContext(ctx)
	if err != nil {
		return nil, err
	}
	var out []seen
	for _, pid := range pids {
		p := &process.Process{Pid: pid}
		if user, err := p.UsernameWithContext(ctx); err != nil || user != me || ended(p) {
			continue // gone, or not ours
		}
		s := seen{pid: int(pid)}
		s.args, _ = p.CmdlineSliceWithContext(ctx)
		s.env, err = p.EnvironWithContext(ctx)
		s.hidden = err != nil || len(s.env) == 0
		out = append(out, s)
	}
	return out, ctx.Err()
}

// ended reports whether the process only waits for its parent to ask how it ended.
func ended(p *process.Process) bool {
	status, err := p.Status()
	return err == nil && slices.Contains(status, process.Zombie)
}

// end kills processes and waits for their end. There is no event to wait for
// here that works for processes of others, so it looks.
func end(ctx context.Context, left []seen, _ func(key string) bool) (int, error) {
	for n, s := range left {
		p, err := process.NewProcessWithContext(ctx, int32(s.pid))
		if err != nil {
			continue // gone
		}
		p.KillWithContext(ctx)
		if err := awaitOne(ctx, p); err != nil {
			return n, err
		}
	}
	return len(left), nil
}

// await waits until the processes have ended, for a time.
func await(ctx context.Context, within time.Duration, left []seen) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, s := range left {
		if p, err := process.NewProcessWithContext(ctx, int32(s.pid)); err == nil {
			awaitOne(ctx, p)
		}
	}
	return nil
}

func awaitOne(ctx context.Context, p *process.Process) error {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		if alive, err := p.IsRunningWithContext(ctx); err != nil || !alive || ended(p) {
			return ctx.Err()
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func parentOf(pid int) (int, error) {
	parent, err := (&process.Process{Pid: int32(pid)}).Ppid()
	return int(parent), err
}

// Began tells two processes with the same number apart: it is when the process
// started, in whatever unit the system counts.
func Began(pid int) (string, error) {
	at, err := (&process.Process{Pid: int32(pid)}).CreateTime()
	return strconv.FormatInt(at, 10), err
}

// HasTerminal is not known here, so nobody is taken for a person at one.
func HasTerminal(int) bool { return false }

// Command is the name of a process's program, without its directory, and its
// arguments, the program included.
func Command(pid int) (name string, args []string, err error) {
	p := &process.Process{Pid: int32(pid)}
	if args, err = p.CmdlineSlice(); err != nil {
		return "", nil, err
	}
	if exe, err := p.Exe(); err == nil {
		return filepath.Base(exe), args, nil
	}
	name, err = p.Name()
	return name, args, err
}

// holder is the process that holds the first TCP socket that matches.
func holder(match func(connection) bool) (int, error) {
	all, err := gonet.Connections("tcp")
	if err != nil {
		return 0, err
	}
	for _, c := range all {
		if c.Pid > 0 && match(connection{address(c.Laddr), address(c.Raddr), c.Status == "LISTEN"}) {
			return int(c.Pid), nil
		}
	}
	return 0, errNobody
}

// address reads one end; "*" is every address.
func address(a gonet.Addr) netip.AddrPort {
	ip, err := netip.ParseAddr(a.IP)
	if err != nil {
		ip = netip.IPv6Unspecified()
	}
	return plain(netip.AddrPortFrom(ip, uint16(a.Port)))
}
