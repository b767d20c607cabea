package egress

import (
	"sync"
	"time"
)

// reporter lets each decision through once a minute, and at most hostsAtOnce
// different ones: a page that makes names up cannot fill the owner's log.
type reporter struct {
	mu     sync.Mutex
	minute time.Time
	told   map[Decision]struct{}
}

func (r *reporter) first(d Decision, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := now.Truncate(time.Minute); !m.Equal(r.minute) {
		r.minute, r.told = m, map[Decision]struct{}{}
	}
	if _, ok := r.told[d]; ok || len(r.told) >= hostsAtOnce {
		return false
	}
	r.told[d] = struct{}{}
	return true
}
