package fleet

import (
	"context"
	"time"

	"browserhost"
)

// watch follows a running browser until it is gone or stopped.
func (i *instance) watch(r *run) {
	tick := time.NewTicker(browserhost.ReapTick)
	defer tick.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-r.browser.Lost():
			i.lost(r)
			return
		case <-tick.C:
			i.look(r)
			i.reap(r)
		}
	}
}

// look asks for the browser's health and follows it between healthy and degraded.
func (i *instance) look(r *run) {
	ctx, cancel := context.WithTimeout(i.fleet.life, healthTime)
	defer cancel()
	h := r.browser.Health(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.run != r {
		return
	}
	switch {
	case h.State == browserhost.Healthy && i.state == browserhost.Degraded:
		i.reason = ""
		i.become(browserhost.Healthy)
	case h.State != browserhost.Healthy && i.state == browserhost.Healthy:
		i.reason = h.Reason
		i.become(browserhost.Degraded)
	}
}

// reap stops a browser that is too old, idle or unused (S3.20).
func (i *instance) reap(r *run) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if _, err := i.end(ctx, ending{only: r, why: func() string { return i.overdue(r) }}); err != nil {
		i.fleet.opts.Log.Error("a browser did not stop in order", "provider", i.key.provider, "err", err)
	}
}

// overdue says why a browser should be stopped, "" when it should not, with i.mu held.
func (i *instance) overdue(r *run) string {
	now := i.fleet.opts.Now()
	switch {
	case now.Sub(r.began) >= browserhost.InstanceLife:
		return goneLifetime
	case now.Sub(i.usedAt) >= browserhost.InstanceIdle:
		return goneIdle
	}
	return r.unused()
}

// unused gives the reason to stop a run that no session holds, with i.mu held.
func (r *run) unused() string {
	if r.holds == 0 {
		return goneClosed
	}
	return ""
}

// use notes that somebody worked in the browser.
func (i *instance) use() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.usedAt = i.fleet.opts.Now()
}

// release gives back what acquire held.
func (i *instance) release(r *run) {
	i.mu.Lock()
	defer i.mu.Unlock()
	r.holds--
}

// lost is the end of a browser that nobody stopped. The next call that needs
// one starts it anew, under another boot id (AIP-63 L12).
func (i *instance) lost(r *run) {
	i.mu.Lock()
	if i.run != r {
		i.mu.Unlock()
		return
	}
	now := i.fleet.opts.Now()
	if now.Sub(r.began) >= settled {
		i.failures = nil
	} else {
		i.failures = append(i.failures, now)
	}
	i.fleet.opts.Log.Error("a browser was lost", "provider", i.key.provider, "err", r.browser.LostReason())
	i.reason = "the browser was lost"
	if i.state == browserhost.Healthy {
		i.become(browserhost.Degraded)
	}
	i.become(browserhost.Stopping)
	a := &attempt{began: now, done: make(chan struct{})}
	i.attempt, i.run = a, nil
	i.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if _, err := i.finish(ctx, r, a, goneLost, true); err != nil {
		i.fleet.opts.Log.Error("what a lost browser left could not be swept", "provider", i.key.provider, "err", err)
	}
}
