package proc

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	gonet "github.com/shirou/gopsutil/v4/net"
	"github.com/shirou/gopsutil/v4/process"
)

// Sweep ends every process whose key begins with prefix, and waits until they
// are gone. It returns how many there were (AIP-63 L8). This process is never
// one of them.
func Sweep(ctx context.Context, prefix string) (int, error) {
	if prefix == "" {
		return 0, errors.New("proc: a sweep of every key is not meant")
	}
	found := 0
	for { // until a look finds none: what is being ended may just have started another
		pids, err := marked(ctx, prefix)
		if err != nil || len(pids) == 0 {
			return found, err
		}
		found += len(pids)
		for _, pid := range pids {
			if err := kill(ctx, int(pid)); err != nil {
				return found, err
			}
		}
	}
}

// marked lists the processes of this user whose key begins with prefix.
func marked(ctx context.Context, prefix string) ([]int32, error) {
	all, err := process.PidsWithContext(ctx)
	if err != nil {
		return nil, err
	}
	var out []int32
	for _, pid := range all {
		if int(pid) == os.Getpid() {
			continue
		}
		p := &process.Process{Pid: pid}
		args, _ := p.CmdlineSliceWithContext(ctx) // gone, or not ours to read
		is := slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, Flag+prefix) })
		if !is {
			env, _ := p.EnvironWithContext(ctx)
			is = slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, Variable+"="+prefix) })
		}
		if is && !ended(p) {
			out = append(out, pid)
		}
	}
	return out, ctx.Err()
}

// ended reports whether the process only waits for its parent to ask how it ended.
func ended(p *process.Process) bool {
	status, err := p.Status()
	return err == nil && slices.Contains(status, process.Zombie)
}

// Ancestors lists the parent of a process, its parent, and so on.
func Ancestors(pid int) ([]int, error) {
	var out []int
	for len(out) < 64 {
		p := &process.Process{Pid: int32(pid)}
		parent, err := p.Ppid()
		if err != nil {
			return out, err
		}
		if parent <= 0 || slices.Contains(out, int(parent)) {
			break
		}
		out = append(out, int(parent))
		pid = int(parent)
	}
	return out, nil
}

// Began tells two processes with the same number apart: it is when the process
// started, in whatever unit the system counts.
func Began(pid int) (string, error) {
	at, err := (&process.Process{Pid: int32(pid)}).CreateTime()
	return strconv.FormatInt(at, 10), err
}

// Command is the name of a process's program and its arguments, the program
// included.
func Command(pid int) (name string, args []string, err error) {
	p := &process.Process{Pid: int32(pid)}
	if args, err = p.CmdlineSlice(); err != nil {
		return "", nil, err
	}
	if exe, err := p.Exe(); err == nil {
		return filepath.Base(strings.TrimSuffix(exe, " (deleted)")), args, nil
	}
	name, err = p.Name()
	return name, args, err
}

// OwnerOf is the process at the other end of a loopback TCP connection, given
// as this process sees it: local is our end, remote is its.
func OwnerOf(local, remote netip.AddrPort) (int, error) {
	return connection(func(c gonet.ConnectionStat) bool {
		return is(c.Laddr, remote) && is(c.Raddr, local)
	})
}

// Listener is the process that listens at the address.
func Listener(at netip.AddrPort) (int, error) {
	return connection(func(c gonet.ConnectionStat) bool {
		return c.Status == "LISTEN" && int(c.Laddr.Port) == int(at.Port()) && (is(c.Laddr, at) || c.Laddr.IP == "0.0.0.0" || c.Laddr.IP == "::" || c.Laddr.IP == "*")
	})
}

func connection(match func(gonet.ConnectionStat) bool) (int, error) {
	all, err := gonet.Connections("tcp")
	if err != nil {
		return 0, err
	}
	for _, c := range all {
		if match(c) && c.Pid > 0 {
			return int(c.Pid), nil
		}
	}
	return 0, errors.New("proc: no process of this user holds that end")
}

func is(a gonet.Addr, b netip.AddrPort) bool {
	ip, err := netip.ParseAddr(a.IP)
	return err == nil && ip.Unmap() == b.Addr().Unmap() && a.Port == uint32(b.Port())
}
