package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// stat is what the kernel counts of a process.
type stat struct {
	state                byte // R, S, D, Z, …
	parent, group, start int  // start in ticks since the computer's
	terminal             int  // 0: none
}

// parseStat reads a line of /proc/<pid>/stat. The second field is the program's
// name in parentheses and may hold anything, parentheses too.
func parseStat(text string) (stat, error) {
	end := strings.LastIndex(text, ") ")
	if end < 0 {
		return stat{}, errors.New("proc: not a stat line")
	}
	f := strings.Fields(text[end+2:]) // state ppid pgrp session tty_nr … starttime, the 20th
	if len(f) < 20 || len(f[0]) != 1 {
		return stat{}, errors.New("proc: a short stat line")
	}
	s := stat{state: f[0][0]}
	for field, to := range map[int]*int{1: &s.parent, 2: &s.group, 4: &s.terminal, 19: &s.start} {
		n, err := strconv.Atoi(f[field])
		if err != nil {
			return stat{}, fmt.Errorf("proc: a stat line: %w", err)
		}
		*to = n
	}
	return s, nil
}

func statOf(pid int) (stat, error) {
	text, err := os.ReadFile(file(pid, "stat"))
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(text))
}

func file(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

// numbers lists all processes, lowest number first.
func numbers() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(0)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			out = append(out, pid)
		}
	}
	slices.SortFunc(out, cmp.Compare[int])
	return out, nil
}

// processes lists what runs of this user.
func processes(ctx context.Context) ([]seen, error) {
	pids, err := numbers()
	if err != nil {
		return nil, err
	}
	var out []seen
	for _, pid := range pids {
		if s, ok := look(pid); ok {
			out = append(out, s)
		}
	}
	return out, ctx.Err()
}

// look sees one process; not one that is gone, only waits to be reaped, or is
// another user's.
func look(pid int) (seen, bool) {
	st, err := statOf(pid)
	if err != nil || st.state == 'Z' || st.state == 'X' || userOf(pid) != os.Getuid() {
		return seen{}, false
	}
	s := seen{pid: pid, group: st.group}
	s.args, _ = stringsOf(pid, "cmdline")
	s.env, err = stringsOf(pid, "environ")
	s.hidden = err != nil || len(s.env) == 0
	return s, true
}

// userOf is the real user of a process; -1 when it is gone.
func userOf(pid int) int {
	text, err := os.ReadFile(file(pid, "status"))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Uid:" {
			if uid, err := strconv.Atoi(f[1]); err == nil {
				return uid
			}
		}
	}
	return -1
}

// stringsOf reads a file of strings that each end with a zero byte.
func stringsOf(pid int, name string) ([]string, error) {
	text, err := os.ReadFile(file(pid, name))
	if err != nil || len(text) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), nil
}

func parentOf(pid int) (int, error) {
	s, err := statOf(pid)
	return s.parent, err
}

// Began tells two processes with the same number apart: it is when the process
// started, in whatever unit the system counts.
func Began(pid int) (string, error) {
	s, err := statOf(pid)
	return strconv.Itoa(s.start), err
}

// HasTerminal reports whether the process has a controlling terminal.
func HasTerminal(pid int) bool {
	s, err := statOf(pid)
	return err == nil && s.terminal != 0
}

// Command is the name of a process's program, without its directory, and its
// arguments, the program included.
func Command(pid int) (name string, args []string, err error) {
	if args, err = stringsOf(pid, "cmdline"); err != nil {
		return "", nil, err
	}
	if exe, err := os.Readlink(file(pid, "exe")); err == nil {
		return filepath.Base(strings.TrimSuffix(exe, " (deleted)")), args, nil
	}
	text, err := os.ReadFile(file(pid, "comm")) // another user's, or the kernel's
	return strings.TrimSpace(string(text)), args, err
}
