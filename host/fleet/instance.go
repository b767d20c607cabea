package fleet

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"browserhost"
)

// The crash loop of AIP-63 L6: so many failures in so long a time.
const (
	maxFailures   = 3
	failureWindow = 300 * time.Second
	// settled is how long a browser must live before its start counts as a
	// success. One that answers and dies at once is a failed launch.
	settled = 10 * time.Second
	// healthTime bounds one look at a browser's health (AIP-63 L4).
	healthTime = 5 * time.Second
	// stopTime bounds an orderly end: politely, by force, by sweep.
	stopTime = 20 * time.Second
)

// instanceKey names one process: a provider's, with or without a window.
type instanceKey struct {
	provider string
	headed   bool
}

func (k instanceKey) String() string {
	if k.headed {
		return k.provider + "-headed"
	}
	return k.provider
}

func (k instanceKey) compare(o instanceKey) int { return cmp.Compare(k.String(), o.String()) }

// instance supervises the browser of one key. It is made when first asked for
// and stays, so that it remembers failures.
type instance struct {
	fleet    *Fleet
	key      instanceKey
	provider browserhost.Provider

	mu       sync.Mutex
	state    browserhost.State // changed by become alone
	reason   string            // why the last one ended or failed; safe to show
	attempt  *attempt          // the start or stop in flight; nil in any other state
	run      *run              // nil unless healthy or degraded
	failures []time.Time       // of starts, not yet forgiven
	usedAt   time.Time         // by any session
}

// attempt is one start or stop that others wait for.
type attempt struct {
	began time.Time
	done  chan struct{} // closed when it ended
	err   error         // why a start failed; read after done
}

// run is one process from healthy to gone.
type run struct {
	of      *instance
	browser browserhost.Instance
	wall    browserhost.EgressPort // the process-wide proxy: refuses everything (K10)
	began   time.Time
	quit    chan struct{} // closed when a stop begins
	holds   int           // sessions, open or opening; guarded by of.mu
}

// instance returns the supervisor of a key, making it when it is new.
func (f *Fleet) instance(p browserhost.Provider, headed bool) *instance {
	key := instanceKey{p.Manifest().ID, headed}
	f.mu.Lock()
	defer f.mu.Unlock()
	i, ok := f.instances[key]
	if !ok {
		i = &instance{fleet: f, key: key, provider: p, state: browserhost.Absent}
		f.instances[key] = i
	}
	return i
}

// become changes the state along the table's edges only (AIP-63 L1).
func (i *instance) become(states ...browserhost.State) {
	for _, s := range states {
		if !i.state.CanBecome(s) {
			panic("fleet: " + string(i.state) + " cannot become " + string(s))
		}
		i.fleet.opts.Log.Info("instance", "provider", i.key.provider, "from", string(i.state), "to", string(s), "reason", i.reason)
		i.state = s
	}
}

// acquire returns a running browser and holds it; the caller releases it. Of
// any number of callers one starts the browser and the rest wait for the same
// start (AIP-63 L2). A caller waits for the rest of the budget or of its own
// context, whichever is less, and then gets browser:starting (AIP-63 L10); the
// start goes on.
func (i *instance) acquire(ctx context.Context) (*run, error) {
	for {
		i.mu.Lock()
		switch i.state {
		case browserhost.Healthy, browserhost.Degraded:
			r := i.run
			r.holds++
			i.usedAt = i.fleet.opts.Now()
			i.mu.Unlock()
			return r, nil
		case browserhost.CrashLooping:
			err := i.crashLooping()
			i.mu.Unlock()
			return nil, err
		case browserhost.Absent, browserhost.Stopped:
			if err := i.begin(); err != nil {
				i.mu.Unlock()
				return nil, err
			}
		}
		a, state := i.attempt, i.state
		i.mu.Unlock()
		if a == nil { // begin found a crash loop
			continue
		}
		left := time.NewTimer(browserhost.LaunchBudget - i.fleet.opts.Now().Sub(a.began))
		select {
		case <-a.done:
			left.Stop()
			if a.err != nil {
				return nil, a.err
			}
		case <-left.C:
			return nil, starting(state)
		case <-ctx.Done():
			left.Stop()
			return nil, starting(state)
		}
	}
}

// begin starts the browser, with i.mu held.
func (i *instance) begin() error {
	now := i.fleet.opts.Now()
	i.failures = slices.DeleteFunc(i.failures, func(t time.Time) bool { return now.Sub(t) >= failureWindow })
	if len(i.failures) >= maxFailures {
		i.become(browserhost.Starting, browserhost.CrashLooping) // AIP-63 L6: without a spawn
		return nil
	}
	f := i.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return browserhost.Errorf(browserhost.CodeNotReady, "the host is stopping").
			With("state", string(i.state)).State(browserhost.NotStarted)
	}
	if f.processes >= browserhost.MaxBrowsers {
		return browserhost.Errorf(browserhost.CodeBusy, "%d browsers run already", browserhost.MaxBrowsers).State(browserhost.NotStarted)
	}
	f.processes++
	i.become(browserhost.Starting)
	a := &attempt{began: now, done: make(chan struct{})}
	i.attempt = a
	f.tasks.Go(func() { i.launch(a) })
	return nil
}

// launch is the one start in flight. It outlives the call that asked for it.
func (i *instance) launch(a *attempt) {
	ctx, cancel := context.WithTimeout(i.fleet.life, browserhost.LaunchLimit)
	defer cancel()
	r, err := i.spawn(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	defer close(a.done)
	i.attempt = nil
	if err == nil {
		i.reason, i.run, i.usedAt = "", r, r.began
		i.become(browserhost.Healthy)
		i.fleet.tasks.Go(func() { i.watch(r) })
		return
	}
	i.fleet.processEnded()
	i.fleet.opts.Log.Error("a browser did not start", "provider", i.key.provider, "err", err)
	e := *browserhost.Hide(browserhost.CodeNotReady, err, "the browser did not start")
	if own, ok := errors.AsType[*browserhost.Error](err); ok {
		e = *own
		e.Cause = maps.Clone(own.Cause)
	}
	i.reason = e.Message
	if i.fleet.life.Err() != nil { // our own Close ended it: no failure of the browser
		i.become(browserhost.Stopped)
		a.err = e.With("state", string(i.state)).State(browserhost.NotStarted)
		return
	}
	i.failures = append(i.failures, i.fleet.opts.Now())
	if len(i.failures) >= maxFailures {
		i.become(browserhost.CrashLooping)
		a.err = i.crashLooping()
		return
	}
	i.become(browserhost.Stopped)
	a.err = e.With("state", string(i.state)).State(browserhost.NotStarted)
}

// spawn sweeps, opens the process-wide proxy and launches. On an error nothing is left.
func (i *instance) spawn(ctx context.Context) (*run, error) {
	if _, err := i.fleet.Sweep(ctx); err != nil {
		return nil, err
	}
	wall, err := i.fleet.opts.Egress.Open(browserhost.EgressRules{Label: "process", Nothing: true})
	if err != nil {
		return nil, err
	}
	browser, err := i.provider.Launch(ctx, browserhost.LaunchOptions{
		Key:    i.fleet.opts.HostID + "-" + i.key.String(),
		Headed: i.key.headed,
		Proxy:  wall.URL(),
	})
	if err != nil {
		wall.Close()
		return nil, err
	}
	return &run{of: i, browser: browser, wall: wall, began: i.fleet.opts.Now(), quit: make(chan struct{})}, nil
}

// ending says which run to end and how.
type ending struct {
	only  *run          // nil: whichever runs
	force bool          // without asking politely first
	why   func() string // the reason, for the tombstones; "" means leave it running. Asked with i.mu held
}

func because(why string) func() string { return func() string { return why } }

// end stops the browser. It waits for a start or stop in flight, is idempotent,
// and returns how many leftover processes were swept (AIP-63 L5).
func (i *instance) end(ctx context.Context, e ending) (swept int, err error) {
	for {
		i.mu.Lock()
		if a := i.attempt; a != nil {
			i.mu.Unlock()
			select {
			case <-a.done:
				continue
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		r := i.run
		why := ""
		if r != nil && (e.only == nil || e.only == r) {
			why = e.why()
		}
		if why == "" {
			i.mu.Unlock()
			return 0, nil
		}
		i.failures = nil // it ran until it was stopped: a success
		i.reason = why
		i.become(browserhost.Stopping)
		a := &attempt{began: i.fleet.opts.Now(), done: make(chan struct{})}
		i.attempt, i.run = a, nil
		close(r.quit)
		i.mu.Unlock()
		return i.finish(ctx, r, a, why, e.force)
	}
}

// finish takes a run apart, with the state at stopping.
func (i *instance) finish(ctx context.Context, r *run, a *attempt, why string, force bool) (swept int, err error) {
	ports := i.fleet.detach(r, why)
	swept, err = r.browser.Stop(ctx, force)
	for _, p := range append(ports, r.wall) {
		if closeErr := p.Close(); closeErr != nil {
			i.fleet.opts.Log.Warn("an egress listener did not close", "err", closeErr)
		}
	}
	i.fleet.processEnded()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.attempt = nil
	i.become(browserhost.Stopped)
	close(a.done)
	return swept, err
}

func (f *Fleet) processEnded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.processes--
}

// crashLooping is the error of an instance that is not started again until the
// owner resets it (AIP-63 L6, L7), with i.mu held.
func (i *instance) crashLooping() error {
	return browserhost.Errorf(browserhost.CodeCrashLooping, "the browser failed %d times in a row and is not started again", maxFailures).
		With("state", string(browserhost.CrashLooping)).With("reason", i.reason).State(browserhost.NotStarted)
}

// starting is the answer to a call whose patience ended first. The call opened
// nothing; launch is idempotent, so asking again cannot make a second browser.
func starting(state browserhost.State) error {
	return browserhost.Errorf(browserhost.CodeStarting, "the browser is still %s", state).
		With("state", string(state)).State(browserhost.NotStarted)
}
