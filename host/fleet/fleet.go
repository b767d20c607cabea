// Package fleet is the end of the line: it keeps the browsers, and every call
// that looks at one or acts on one ends here.
//
// Four things live in it, each inside the one before:
//
//   - an instance, one running browser process, supervised: it starts once
//     however many callers ask for it, walks only the edges of the state table
//     and is stopped when it idles, ages or is no longer used;
//   - a session, one device's own context in an instance, with its own way out
//     (an egress listener). A device has at most an anonymous and a signed-in
//     one. Devices share the process and nothing else;
//   - a page, one tab, under an id that only its device can name;
//   - a tombstone, what is left of a page or session: the reason why it went.
//
// Ids ("b1", "p3") are counted per device, so that the id of another device
// and an id that never was get the same answer.
package fleet

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"browserhost"
)

// Options are what a fleet is made of. Providers is in order of preference:
// the first serves a launch that names none.
type Options struct {
	Providers []browserhost.Provider
	Egress    browserhost.Egress
	HostID    string                             // begins every instance key, so that a sweep finds this host's processes
	Sweep     func(context.Context) (int, error) // ends what an earlier run of this host left; called before the first launch (AIP-63 L8)
	Now       func() time.Time                   // time.Now when nil
	Log       *slog.Logger                       // for the owner; never seen by an agent
}

// Fleet implements [browserhost.Handler] for every operation on browsers. It
// is safe for concurrent use. Call Close once, at the end.
type Fleet struct {
	opts  Options
	life  context.Context // ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup // goroutines of instances and pages

	sweep sync.Mutex // held while sweeping
	swept bool       // guarded by sweep

	mu        sync.Mutex // guards what follows, and every session, device and page
	closed    bool
	processes int // browsers that start, run or stop: at most MaxBrowsers
	opening   int // pages asked for and not yet counted
	instances map[instanceKey]*instance
	devices   map[browserhost.DeviceID]*device
}

// New makes a fleet that runs nothing yet.
func New(opts Options) *Fleet {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	life, end := context.WithCancel(context.Background())
	return &Fleet{
		opts: opts, life: life, end: end,
		instances: map[instanceKey]*instance{},
		devices:   map[browserhost.DeviceID]*device{},
	}
}

// row says how one operation is served: on the fleet, on a session or on a
// page, and which capability of the provider the call needs (AIP-63 T3).
type row struct {
	fleet   func(*Fleet, context.Context, *browserhost.Call) (*browserhost.Result, error)
	session func(*Fleet, context.Context, *browserhost.Call, *session) (*browserhost.Result, error)
	page    func(*Fleet, context.Context, *browserhost.Call, *page) (*browserhost.Result, error)
	needs   func(*browserhost.Call) string
	observe string // what to observe when the outcome is unknown (contract F)
}

// table is the only place where an operation becomes something that a browser does.
var table = map[browserhost.Operation]row{
	browserhost.OpTargets:      {fleet: (*Fleet).serveTargets},
	browserhost.OpBrowsers:     {fleet: (*Fleet).serveBrowsers},
	browserhost.OpPages:        {fleet: (*Fleet).servePages},
	browserhost.OpSnapshot:     {page: (*Fleet).serveSnapshot},
	browserhost.OpScreenshot:   {page: (*Fleet).serveScreenshot, needs: needsFullPage},
	browserhost.OpLaunch:       {fleet: (*Fleet).serveLaunch, observe: "browsers"},
	browserhost.OpNewPage:      {session: (*Fleet).serveNewPage, observe: "pages"},
	browserhost.OpNavigate:     {page: (*Fleet).serveNavigate, observe: "pages"},
	browserhost.OpClick:        {page: (*Fleet).serveClick, observe: "snapshot"},
	browserhost.OpInputText:    {page: (*Fleet).serveInputText, observe: "snapshot"},
	browserhost.OpClosePage:    {page: (*Fleet).serveClosePage, observe: "pages"},
	browserhost.OpCloseBrowser: {session: (*Fleet).serveCloseBrowser, observe: "browsers"},
}

func needsFullPage(call *browserhost.Call) string {
	if call.Args.FullPage {
		return "fullPageScreenshot"
	}
	return ""
}

// ServeTool serves one call. Errors of an effect always carry an execution
// state; one whose outcome is unknown also names what to observe first
// (S3.29, S3.31). Nothing is repeated.
func (f *Fleet) ServeTool(ctx context.Context, call *browserhost.Call) (*browserhost.Result, error) {
	r, ok := table[call.Operation]
	if !ok {
		return nil, browserhost.Errorf(browserhost.CodeNotFound, "no browser does %q", string(call.Operation))
	}
	limit := browserhost.CallTime
	if call.Operation == browserhost.OpLaunch {
		limit = browserhost.LaunchBudget + browserhost.CallTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	res, err := f.serve(ctx, r, call)
	if err != nil {
		return nil, f.explain(r, call, err)
	}
	return res, nil
}

func (f *Fleet) serve(ctx context.Context, r row, call *browserhost.Call) (*browserhost.Result, error) {
	var s *session
	var p *page
	var err error
	switch {
	case r.page != nil:
		if p, err = f.page(call.Actor.Device, call.Args.PageID); err != nil {
			return nil, err
		}
		s = p.session
	case r.session != nil:
		if s, err = f.session(call.Actor.Device, call.Args.BrowserID); err != nil {
			return nil, err
		}
	default:
		return r.fleet(f, ctx, call)
	}
	if r.needs != nil {
		if name := r.needs(call); name != "" && !has(s.run.of.provider.Manifest().Capabilities, name) {
			return nil, unsupported(name)
		}
	}
	s.run.of.use()
	defer s.run.of.use()
	if p == nil {
		return r.session(f, ctx, call, s)
	}
	res, err := r.page(f, ctx, call, p)
	if err != nil && browserhost.CodeOf(err) == browserhost.CodeTargetGone {
		err = f.whyGone(p, err)
	}
	return res, err
}

// explain gives an error what contract F asks of it.
func (f *Fleet) explain(r row, call *browserhost.Call, err error) error {
	e := typed(err)
	if e.Code == browserhost.CodeInternal {
		f.opts.Log.Error("a browser call failed", "operation", call.Operation, "err", err)
	}
	if !browserhost.ActionOf(call.Operation).Effect {
		return e
	}
	if e.Execution == "" {
		e.Execution = browserhost.OutcomeUnknown // whoever cannot say so has not proved that nothing happened (S3.30)
	}
	e.State(e.Execution)
	if e.Execution == browserhost.OutcomeUnknown && r.observe != "" {
		e.With("recovery", Recovery{Reason: "the effect may have happened", SuggestedCall: suggest(r.observe, call)})
	}
	return e
}

// Sweep ends what an earlier run of this host left behind, once; later calls
// return 0. The first launch calls it when nobody did before (AIP-63 L8).
func (f *Fleet) Sweep(ctx context.Context) (int, error) {
	f.sweep.Lock()
	defer f.sweep.Unlock()
	if f.swept || f.opts.Sweep == nil {
		return 0, nil
	}
	n, err := f.opts.Sweep(ctx)
	f.swept = err == nil
	return n, err
}

// Close stops every browser and waits until nothing of the fleet runs. It
// returns how many leftover processes were ended. Calls that come later are
// answered with browser:not_ready.
func (f *Fleet) Close(ctx context.Context) (swept int, err error) {
	f.mu.Lock()
	f.closed = true
	all := make([]*instance, 0, len(f.instances))
	for _, i := range f.instances {
		all = append(all, i)
	}
	f.mu.Unlock()
	f.end()
	slices.SortFunc(all, func(a, b *instance) int { return a.key.compare(b.key) })
	for _, i := range all {
		n, stopErr := i.end(ctx, ending{why: because(goneHost)})
		swept += n
		err = errors.Join(err, stopErr)
	}
	done := make(chan struct{})
	go func() { f.tasks.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	return swept, err
}
