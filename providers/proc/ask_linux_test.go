package proc

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A connection leads to the process that made it, on IPv4, on IPv6, and on a
// socket that serves both; a stranger's end leads to nobody (K1).
func TestOwnerOf(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		t.Run(at, func(t *testing.T) {
			l, err := net.Listen("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			to := l.Addr().(*net.TCPAddr).AddrPort()
			if to.Addr().IsUnspecified() {
				to = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to.Port())
			}
			p, _ := start(t, run+"dial-1", "dial "+to.String())
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			local, remote := c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
			if pid, err := OwnerOf(local, remote); pid != p.PID() || err != nil {
				t.Errorf("the owner is %d, %v; want %d", pid, err, p.PID())
			}
			if pid, err := OwnerOf(remote, local); pid != os.Getpid() || err != nil {
				t.Errorf("seen from there the owner is %d, %v; want %d", pid, err, os.Getpid())
			}
			if pid, err := OwnerOf(local, netip.AddrPortFrom(remote.Addr(), 1)); err == nil {
				t.Errorf("nobody's end is held by %d", pid)
			}
			if pid, err := Listener(to); pid != os.Getpid() || err != nil {
				t.Errorf("the listener is %d, %v; want %d", pid, err, os.Getpid())
			}
		})
	}
}

// A child's ancestors begin with this process and end with the first.
func TestAncestors(t *testing.T) {
	p, _ := start(t, run+"line-1", "plain")
	up, err := Ancestors(p.PID())
	if err != nil || len(up) < 2 || up[0] != os.Getpid() || up[1] != os.Getppid() {
		t.Errorf("the ancestors are %v, %v; want %d, %d, …", up, err, os.Getpid(), os.Getppid())
	}
	if slices.Contains(up, p.PID()) {
		t.Error("it is its own ancestor")
	}
	p.Stop(t.Context(), true)
	if up, err := Ancestors(p.PID()); err == nil {
		t.Errorf("a process that is gone has the ancestors %v", up)
	}
}

// What runs is known by name, arguments and beginning; what is gone is not.
func TestCommand(t *testing.T) {
	p, _ := start(t, run+"name-1", "plain")
	name, args, err := Command(p.PID())
	if want := []string{exe(), Flag + run + "name-1"}; err != nil || name != filepath.Base(exe()) || !slices.Equal(args, want) {
		t.Errorf("%q %q, %v", name, args, err)
	}
	q, _ := start(t, run+"name-2", "plain")
	began, err := Began(p.PID())
	again, _ := Began(p.PID())
	mine, _ := Began(os.Getpid())
	if err != nil || began == "" || began != again || began == mine {
		t.Errorf("it began at %q, then at %q, and this process at %q: %v", began, again, mine, err)
	}
	q.Stop(t.Context(), true)
	if _, _, err := Command(q.PID()); err == nil {
		t.Error("a process that is gone has a name")
	}
	if _, err := Began(q.PID()); err == nil {
		t.Error("a process that is gone began")
	}
}

// A terminal is the controlling one, not any that is open.
func TestHasTerminal(t *testing.T) {
	master, slave := terminal(t)
	defer master.Close()
	defer slave.Close()
	for _, owns := range []bool{true, false} {
		in, keep, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe())
		cmd.Env = append(os.Environ(), role+"=plain")
		cmd.Stdin = slave
		cmd.ExtraFiles = []*os.File{in, w}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: owns}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in.Close()
		w.Close()
		if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if got := HasTerminal(cmd.Process.Pid); got != owns {
			t.Errorf("HasTerminal = %v for a process that owns one: %v", got, owns)
		}
		keep.Close()
		cmd.Wait()
		r.Close()
	}
	if HasTerminal(1 << 30) {
		t.Error("nobody has a terminal")
	}
}

// terminal opens a pair of ends of a new terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// A program's name cannot pass for the rest of its line.
func TestParseStat(t *testing.T) {
	rest := " S 7 42 42 34816 42 0 0 0 0 0 0 0 0 0 20 0 1 0 9001 0"
	for _, name := range []string{"sh", "a) Z 1 1 1 1", "((", ""} {
		s, err := parseStat("123 (" + name + ")" + rest)
		if want := (stat{state: 'S', parent: 7, group: 42, terminal: 34816, start: 9001}); err != nil || s != want {
			t.Errorf("%q: %+v, %v", name, s, err)
		}
	}
	for _, bad := range []string{"", "1 (x) S 1", "1 (x)" + strings.Replace(rest, "7", "x", 1)} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("1 (init) S 0 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 5 1 1")
	f.Fuzz(func(t *testing.T, line string) {
		if s, err := parseStat(line); err != nil && s != (stat{}) {
			t.Errorf("%q: an error and %+v", line, s)
		}
	})
}

func FuzzParseSocket(f *testing.F) {
	f.Add("   0: 0100007F:22B7 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1234 1")
	f.Add("   0: 00000000000000000000000001000000:0050 0000000000000000FFFF00000100007F:1F90 01 0:0 0:0 0 0 0 77 1")
	f.Fuzz(func(t *testing.T, line string) {
		c, inode, err := parseSocket(line)
		if err == nil && (inode == "" || !c.local.IsValid() || !c.remote.IsValid()) {
			t.Errorf("%q: %+v, %q", line, c, inode)
		}
	})
}

// The kernel's way to write addresses, IPv4 within IPv6 included.
func TestParseSocket(t *testing.T) {
	c, inode, err := parseSocket("  1: 0000000000000000FFFF00000100007F:1F90 0100007F:0050 0A 0:0 0:0 0 0 0 77 1")
	want := connection{netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("127.0.0.1:80"), true}
	if err != nil || inode != "77" || c != want {
		t.Errorf("%+v, %q, %v", c, inode, err)
	}
}
