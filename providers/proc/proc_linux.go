package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes make the process the head of a group, and let the kernel end it
// when the thread that starts it is gone.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func terminate(p *os.Process) { p.Signal(syscall.SIGTERM) }

func killGroup(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL)
	p.Kill()
}

// kill ends a process, ours or not, and waits for its end by a handle that
// cannot come to mean another process.
func kill(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return gone(err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return gone(err)
	}
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return gone(err)
		}
	}
	return ctx.Err()
}

func gone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// HasTerminal reports whether the process has a controlling terminal.
func HasTerminal(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	end := strings.LastIndex(string(text), ") ") // a program's name may hold anything
	if end < 0 {
		return false
	}
	fields := strings.Fields(string(text)[end+2:]) // state ppid pgrp session tty_nr …
	return len(fields) > 4 && fields[4] != "0"
}
