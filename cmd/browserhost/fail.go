package main

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"strings"

	"browserhost"
	"browserhost/cmd/internal/wire"
	"browserhost/host/operator"
)

// The exit codes beside 0.
const (
	exitFailed      = 1 // refused, or it did not work
	exitEnvironment = 2 // the command, or what is around it, is wrong
)

// mistake is an error with what belongs to the edge: the exit code and the
// next step for a person.
type mistake struct {
	error
	exit int
	hint string
}

func (m *mistake) Unwrap() error { return m.error }

// usage is an error of how the program was called.
func usage(err error) error {
	return &mistake{browserhost.Hide(browserhost.CodeInputInvalid, err, err.Error()), exitEnvironment, "browserhost --help"}
}

// environment is an error of what is around the program; nil stays nil.
func environment(err error) error {
	if err == nil {
		return nil
	}
	return &mistake{err, exitEnvironment, "browserhost doctor"}
}

// failed is an error with a next step.
func failed(hint, format string, args ...any) error {
	return &mistake{browserhost.Errorf(browserhost.CodeInputInvalid, format, args...), exitFailed, hint}
}

// errReported is for a command that has printed a bad result: only its exit
// code is left.
var errReported = errors.New("reported")

// explain turns any error into what is shown of it: code, words, exit code and
// next step.
func explain(err error) (*browserhost.Error, int, string) {
	exit, hint := exitFailed, ""
	if m, ok := errors.AsType[*mistake](err); ok {
		exit, hint = m.exit, m.hint
	}
	if taken, ok := errors.AsType[*wire.PortTaken](err); ok { // K1
		return browserhost.Hide(browserhost.CodeUpstream, err, taken.Error()), exitEnvironment, "stop that program, or choose another port with --listen 127.0.0.1:PORT"
	}
	if running, ok := errors.AsType[*wire.Running](err); ok { // K37
		return browserhost.Hide(browserhost.CodeUpstream, err, running.Error()), exitEnvironment, "browserhost status, or browserhost stop"
	}
	if errors.Is(err, operator.ErrNoHost) {
		return browserhost.Hide(browserhost.CodeNotFound, err, "no host is running"), exitEnvironment, "start it with: browserhost serve"
	}
	e, ok := errors.AsType[*browserhost.Error](err)
	if !ok {
		code := browserhost.CodeInternal
		if exit == exitEnvironment {
			code = browserhost.CodeInputInvalid
		}
		return browserhost.Hide(code, err, err.Error()), exit, hint
	}
	if hint == "" {
		hint = hints[e.Code]
	}
	if e.Cause["setting"] == "operator.cli" {
		hint = "only your settings file decides that: operator.cli: confirm"
	}
	return e, exit, hint
}

// hints are the next steps after an answer of the host.
var hints = map[browserhost.Code]string{
	browserhost.CodeKeyring:      "browserhost doctor",
	browserhost.CodeInternal:     "look at what browserhost serve prints",
	browserhost.CodeUnauthorised: "run it yourself, in a terminal that no agent drives, and type what it asks for",
	browserhost.CodeBusy:         "try again",
}

// fail shows an error and returns the exit code: words and hint on stderr, and
// with --json also the envelope of every other door on stdout (AIP-63 T3).
func (p *program) fail(err error) int {
	if errors.Is(err, errReported) {
		return exitFailed
	}
	e, exit, hint := explain(err)
	fmt.Fprintf(p.err, "browserhost: %s%s\n", clean(e.Message), missing(e))
	if hint != "" {
		p.hint("%s", hint)
	}
	if p.json {
		out, err := json.Marshal(browserhost.Failure(e))
		if err == nil {
			fmt.Fprintf(p.out, "%s\n", out)
		}
	}
	return exit
}

// missing lists what a refused command lacked, all of it (AIP-63 C4).
func missing(e *browserhost.Error) string {
	list, _ := e.Cause["missing"].([]any)
	var names []string
	for _, item := range list {
		switch item {
		case "terminal":
			names = append(names, "a terminal")
		case "confirm":
			names = append(names, "what it is about, typed by you")
		}
	}
	if typed, ok := e.Cause["missing"].([]string); ok {
		names = slices.Concat(names, typed)
	}
	if len(names) == 0 {
		return ""
	}
	return "; missing: " + strings.Join(names, ", ")
}
