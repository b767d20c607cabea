package proc

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	sweepTime = 10 * time.Second // bounds a sweep; a killed process is gone in milliseconds
	leaveTime = time.Second      // what is left of a stopped process may go by itself, which is no sweep
)

// Sweep ends every process of this user whose key begins with prefix, with the
// groups that they lead, and waits until they are gone. It returns how many
// there were (AIP-63 L8). This process is never one of them, and neither is one
// whose arguments merely speak of a key (AIP-63 L5).
func Sweep(ctx context.Context, prefix string) (int, error) {
	if prefix == "" {
		return 0, errors.New("proc: a sweep of every key is not meant")
	}
	return sweep(ctx, 0, func(key string) bool { return strings.HasPrefix(key, prefix) })
}

// sweep ends what carries a wanted key and has not gone by itself within leave.
func sweep(ctx context.Context, leave time.Duration, is func(key string) bool) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	found := 0
	for { // until a look finds none: what is being ended may just have started another
		left, err := marked(ctx, is)
		if err != nil || len(left) == 0 {
			return found, err
		}
		if leave > 0 {
			if err := await(ctx, leave, left); err != nil {
				return found, err
			}
			leave = 0
			continue
		}
		n, err := end(ctx, left, is)
		found += n
		if err != nil {
			return found, err
		}
	}
}

// seen is what the system shows of a process that runs.
type seen struct {
	pid, group int // group is 0 where there are none
	args, env  []string
	hidden     bool // the environment cannot be read
}

// carries reports whether the process carries a wanted key itself.
func (s seen) carries(is func(key string) bool) bool {
	if s.hidden {
		return slices.ContainsFunc(s.args, func(a string) bool {
			key, ok := strings.CutPrefix(a, Flag)
			return ok && is(key)
		})
	}
	return slices.ContainsFunc(s.env, func(e string) bool {
		key, ok := strings.CutPrefix(e, Variable+"=")
		return ok && is(key)
	})
}

// marked lists the processes that carry a wanted key, and those in a group
// whose head does: a browser's children write over their environment.
func marked(ctx context.Context, is func(key string) bool) ([]seen, error) {
	all, err := processes(ctx)
	if err != nil {
		return nil, err
	}
	heads := map[int]bool{}
	for _, s := range all {
		if s.pid != os.Getpid() && s.group == s.pid && s.carries(is) {
			heads[s.pid] = true
		}
	}
	return slices.DeleteFunc(all, func(s seen) bool {
		return s.pid == os.Getpid() || !s.carries(is) && !heads[s.group]
	}), nil
}
