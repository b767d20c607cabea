// Package demo plays the main job of Browser Host once, with real parts only:
// an owner with a real Chromium who is signed in to a site, a host, and two
// agents that speak MCP. It acts as the owner in process, through the desk,
// and as the agents through the official MCP client. Everything lives in
// temporary directories and is gone afterwards.
//
// The steps are a story in which each one checks what a person would want to
// see with their own eyes; the last one searches every byte that was kept or
// answered for the value of the owner's cookie.
package demo

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"
)

// Options choose how the demo is told.
type Options struct {
	JSON    bool     // one object per step: step, ok, detail
	Version string   // of this program
	Args    []string // the arguments that start this demo again, for a process on a private bus

	// before is called ahead of each step, by a test that breaks one.
	before func(step string, s *story)
}

// limit bounds the whole demo.
const limit = 4 * time.Minute

// result is one line of the demo for programs.
type result struct {
	Step   string `json:"step"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Run plays the demo, printing each step to out as it ends, and reports
// whether every step held. Where gnome-keyring is installed it runs on a
// private session bus, so that the person's own keyring is never asked.
func Run(ctx context.Context, out io.Writer, opts Options) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dir := os.Getenv(onBus)
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "bh-demo-"); err != nil { // short: a socket lies below it
			return false, err
		}
		defer os.RemoveAll(dir)
		if havePrivateBus() {
			code, err := runOnBus(ctx, out, dir, opts.Args)
			return code == 0, err
		}
	}
	s := &story{dir: dir, version: opts.Version, log: slog.New(slog.NewTextHandler(&logFile{dir: dir}, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	ok := play(ctx, out, opts, s)
	if err := s.end(); err != nil {
		return false, fmt.Errorf("after the demo: %w", err)
	}
	return ok, nil
}

// play runs the steps in order. After one that fails the rest are not run,
// and are told as such.
func play(ctx context.Context, out io.Writer, opts Options, s *story) bool {
	began := time.Now()
	var failed string
	for i, step := range steps {
		r := result{Step: step.name, Detail: "not reached: " + failed + " failed"}
		if failed == "" {
			if !opts.JSON {
				fmt.Fprintf(out, "%d. %s\n", i+1, step.title)
			}
			if opts.before != nil {
				opts.before(step.name, s)
			}
			detail, err := step.do(s, ctx)
			r.OK, r.Detail = err == nil, detail
			if err != nil {
				r.Detail, failed = err.Error(), step.name
			}
		}
		tell(out, opts.JSON, r)
	}
	if opts.JSON {
		return failed == ""
	}
	if failed != "" {
		fmt.Fprintf(out, "\nFAILED at %q after %s.\n", failed, time.Since(began).Round(100*time.Millisecond))
		return false
	}
	fmt.Fprintf(out, "\nAll %d steps held, in %s.\n", len(steps), time.Since(began).Round(100*time.Millisecond))
	return true
}

func tell(out io.Writer, asJSON bool, r result) {
	if asJSON {
		line, err := json.Marshal(r)
		if err == nil {
			fmt.Fprintf(out, "%s\n", line)
		}
		return
	}
	mark := "ok  "
	if !r.OK {
		mark = "FAIL"
	}
	fmt.Fprintf(out, "   %s %s\n", mark, r.Detail)
}
