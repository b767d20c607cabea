// Package requests is the desk on which agents lay what they would like to be
// lent, and where they come back to ask. Nothing here can allow anything: a
// request is answered at the owner's door, by whoever has done the lending
// there, with [Queue.Decide]. What agents reach has File, Get and Wait only
// (AIP-63 C7).
//
// A request says which sites, and why in the agent's own words. It has no field
// for where the sign-in comes from, where it goes, for whom or how long: those
// are the owner's (S1.43). Requests live in memory and are answerable for ten
// minutes; nobody answering means no.
package requests

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"browserhost"
	"browserhost/consent/domains"
)

// Bounds of the queue.
const (
	Answerable   = 10 * time.Minute // how long a request waits for its answer
	MaxPerDevice = 3                // pending requests of one device
	MaxPending   = 32               // pending requests of all
	maxKept      = 256              // requests that are remembered, ended ones included
	maxReason    = 300              // characters
)

// Options complete a queue.
type Options struct {
	Provider string           // whose sessions would be signed in; "" means "chrome"
	Now      func() time.Time // nil means time.Now

	// Changed is told of each new request and each change of one, one at a time
	// and in their order. It may use the queue, and should return soon.
	Changed func(Request)
}

// Queue holds requests. It is safe for concurrent use.
type Queue struct {
	opts Options

	mu      sync.Mutex
	closed  bool
	list    []*entry  // oldest first
	news    []Request // of which Changed is to be told
	telling bool
}

type entry struct {
	Request
	expires time.Time
	ended   chan struct{} // closed when the status is final
	timer   *time.Timer
}

// view is a copy that the caller may keep and change.
func (e *entry) view() Request {
	r := e.Request
	r.Domains = slices.Clone(r.Domains)
	return r
}

// New makes an empty queue.
func New(opts Options) *Queue {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Provider == "" {
		opts.Provider = "chrome"
	}
	return &Queue{opts: opts}
}

// File lays down a request of the actor's device, or returns the one that it
// has pending for the same sites: asking twice shows the owner one question. A
// name that could not be granted refuses the whole request (AIP-63 C2); too many
// waiting ones are rate_limited.
func (q *Queue) File(ctx context.Context, actor browserhost.Actor, names []string, reason string) (Request, error) {
	names, err := domains.CheckAll(names)
	if err != nil {
		return Request{}, err
	}
	reason = clean(reason)
	if reason == "" {
		return Request{}, browserhost.Errorf(browserhost.CodeInputInvalid, "reason: a request says why").With("field", "reason")
	}
	if !actor.Device.Valid() {
		return Request{}, browserhost.Errorf(browserhost.CodeUnauthorised, "only a paired device can ask")
	}
	if err := ctx.Err(); err != nil {
		return Request{}, err
	}
	var r Request
	q.do(func() {
		if q.closed {
			err = browserhost.Errorf(browserhost.CodeNotReady, "the host is stopping")
			return
		}
		var pending, own int
		for _, e := range q.list {
			if e.Status != Pending {
				continue
			}
			pending++
			if e.DeviceID != actor.Device {
				continue
			}
			own++
			if same(e.Domains, names) {
				r = e.view()
				return
			}
		}
		if own >= MaxPerDevice || pending >= MaxPending {
			err = browserhost.Errorf(browserhost.CodeRateLimited, "too many requests wait for the owner's answer").
				With("retryAfter", int(Answerable.Seconds()))
			return
		}
		r = q.add(actor.Device, names, reason).view()
	})
	return r, err
}

// same reports whether two lists without repetitions name the same sites.
func same(a, b []string) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

// add makes an entry, in place of the oldest ended one when there are many. The
// lock is held.
func (q *Queue) add(device browserhost.DeviceID, names []string, reason string) *entry {
	if len(q.list) >= maxKept {
		i := slices.IndexFunc(q.list, func(e *entry) bool { return e.Status != Pending }) // there is one: MaxPending < maxKept
		q.list = slices.Delete(q.list, i, i+1)
	}
	code := newCode()
	for slices.ContainsFunc(q.list, func(e *entry) bool { return e.Code == code }) {
		code = newCode()
	}
	now := q.opts.Now()
	e := &entry{
		Request: Request{
			ID: "req_" + rand.Text(), Code: code, DeviceID: device, Kind: "browser.grant", Domains: names, Provider: q.opts.Provider, Reason: reason,
			CreatedAt: browserhost.FormatTime(now), ExpiresAt: browserhost.FormatTime(now.Add(Answerable)), Status: Pending,
		},
		expires: now.Add(Answerable),
		ended:   make(chan struct{}),
	}
	e.Digest = e.digest()
	e.timer = time.AfterFunc(Answerable, func() { q.do(func() { q.finish(e, Expired, "") }) })
	q.list = append(q.list, e)
	q.news = append(q.news, e.view())
	return e
}

// Get returns a request of the device. One of another device is not_found, as
// is one that never was (AIP-63 C12).
func (q *Queue) Get(device browserhost.DeviceID, id string) (Request, error) {
	_, r, err := q.of(device, id)
	return r, err
}

// Wait returns when the request has its answer or ctx ends, in which case it
// returns the request as it stands then and no error. It finds what Get finds.
func (q *Queue) Wait(ctx context.Context, device browserhost.DeviceID, id string) (Request, error) {
	e, _, err := q.of(device, id)
	if err != nil {
		return Request{}, err
	}
	select {
	case <-e.ended:
	case <-ctx.Done():
	}
	var r Request
	q.do(func() { r = e.view() })
	return r, nil
}

func (q *Queue) of(device browserhost.DeviceID, id string) (found *entry, r Request, err error) {
	q.do(func() {
		for _, e := range q.list {
			if e.ID == id && e.DeviceID == device {
				found, r = e, e.view()
				return
			}
		}
		err = unknown()
	})
	return found, r, err
}

func unknown() error {
	return browserhost.Errorf(browserhost.CodeNotFound, "there is no such request")
}

// Find returns any request, for the owner, by its id or by its code.
func (q *Queue) Find(id string) (r Request, ok bool) {
	q.do(func() {
		if e := q.find(id); e != nil {
			r, ok = e.view(), true
		}
	})
	return r, ok
}

// find is Find with the lock held; nil when there is none.
func (q *Queue) find(id string) *entry {
	for _, e := range q.list {
		if e.ID == id || strings.EqualFold(e.Code, id) {
			return e
		}
	}
	return nil
}

// List returns every request that is remembered, oldest first.
func (q *Queue) List() (out []Request) {
	q.do(func() {
		out = make([]Request, 0, len(q.list))
		for _, e := range q.list {
			out = append(out, e.view())
		}
	})
	return out
}

// Decide writes down the owner's answer: Allowed with the grant that was made,
// or Denied. It makes no grant. A request that has ended already stays as it is
// and is input_invalid, with its status in the cause.
func (q *Queue) Decide(id string, status Status, grant browserhost.GrantID) (r Request, err error) {
	if status != Allowed && status != Denied || (status == Allowed) != (grant != "") {
		return r, browserhost.Errorf(browserhost.CodeInputInvalid, "a request is allowed with a grant, or denied without one")
	}
	q.do(func() {
		e := q.find(id)
		if e == nil {
			err = unknown()
			return
		}
		if !q.finish(e, status, grant) {
			err = browserhost.Errorf(browserhost.CodeInputInvalid, "the request is already %s", string(e.Status)).With("status", string(e.Status))
		}
		r = e.view()
	})
	return r, err
}

// WithdrawDevice ends what a removed device has waiting (AIP-63 C13).
func (q *Queue) WithdrawDevice(device browserhost.DeviceID) {
	q.do(func() {
		for _, e := range q.list {
			if e.DeviceID == device {
				q.finish(e, Withdrawn, "")
			}
		}
	})
}

// Close withdraws what is pending and takes no more. Who waits is woken.
func (q *Queue) Close() {
	q.do(func() {
		q.closed = true
		for _, e := range q.list {
			q.finish(e, Withdrawn, "")
		}
	})
}

// finish moves a pending request to its end and wakes who waits. It reports
// false for one that has ended. The lock is held.
func (q *Queue) finish(e *entry, status Status, grant browserhost.GrantID) bool {
	if e.Status != Pending {
		return false
	}
	e.timer.Stop()
	e.Status, e.GrantID, e.DecidedAt = status, grant, browserhost.FormatTime(q.opts.Now())
	e.DecidedBy = browserhost.System
	if status == Allowed || status == Denied {
		e.DecidedBy = browserhost.Human
	}
	close(e.ended)
	q.news = append(q.news, e.view())
	return true
}

// do runs f with the lock held and then tells of what has changed. Before f it
// ends what is over its time by the clock: a computer that slept wakes its
// timers late, and what the owner sees then can no longer be answered.
func (q *Queue) do(f func()) {
	q.mu.Lock()
	now := q.opts.Now()
	for _, e := range q.list {
		if e.Status == Pending && !now.Before(e.expires) {
			q.finish(e, Expired, "")
		}
	}
	f()
	for len(q.news) > 0 && !q.telling {
		r := q.news[0]
		q.news = q.news[1:]
		if q.opts.Changed == nil {
			continue
		}
		q.telling = true
		q.mu.Unlock()
		q.opts.Changed(r)
		q.mu.Lock()
		q.telling = false
	}
	q.mu.Unlock()
}
