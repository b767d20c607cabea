package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// maxTyped is more than any subject has.
const maxTyped = 8 << 10

// confirm tells the person at the terminal what will happen and returns what
// they typed, which must be the subject. Nothing else can answer: no flag, no
// variable, no pipe (S1.44, AIP-63 C4). Without a terminal it returns "", and
// the host, which looks for itself, refuses and records the attempt.
func (p *program) confirm(subject string, tell func(io.Writer) error) (string, error) {
	tty, err := openTerminal()
	if err != nil {
		return "", nil
	}
	defer tty.Close()
	if err := tell(tty); err != nil {
		return "", err
	}
	fmt.Fprintf(tty, "To go on, type %s\n> ", clean(subject))
	line, err := bufio.NewReader(io.LimitReader(tty, maxTyped)).ReadString('\n')
	if typed := strings.TrimRight(line, "\r\n"); err == nil && typed == subject {
		return typed, nil
	}
	return "", failed("", "that is not %s; nothing was changed", clean(subject))
}

// atTerminal reports whether a person could be asked.
func atTerminal() bool {
	tty, err := openTerminal()
	if err != nil {
		return false
	}
	tty.Close()
	return true
}
