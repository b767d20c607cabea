// Package requests is the desk on which agents lay what they would like to be
// lent, and where they come back to ask. Nothing here can allow anything: a
// request is answered by whoever holds the owner's door, who does the lending
// elsewhere and then tells the queue how it ended (AIP-63 C7).
//
// A request says which sites, and why in the agent's own words. It has no field
// for where the sign-in comes from, where it goes, for whom or how long: those
// are the owner's (S1.43). Requests live in memory and are answerable for ten
// minutes.
package requests

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"browserhost"
	"browserhost/consent/domains"
)

// Status is where a request stands.
type Status string

// The statuses. All but Pending are final.
const (
	Pending   Status = "pending"
	Allowed   Status = "allowed"
	Denied    Status = "denied"
	Expired   Status = "expired"
	Withdrawn Status = "withdrawn"
)

// Bounds of the queue.
const (
	Answerable   = 10 * time.Minute // how long a request waits for its answer
	MaxPerDevice = 3                // pending requests of one device
	MaxPending   = 32               // pending requests of all
	maxKept      = 256              // requests that are remembered, ended ones included
	maxReason    = 300              // characters
	maxDomains   = 16
)

// Request is the record of S1.43.
type Request struct {
	ID        string               `json:"id"`   // opaque
	Code      string               `json:"code"` // "K7-204": for saying aloud, no secret
	DeviceID  browserhost.DeviceID `json:"deviceId"`
	Kind      string               `json:"kind"` // "browser.grant"
	Domains   []string             `json:"domains"`
	Reason    string               `json:"reason"` // the agent's words: untrusted
	CreatedAt string               `json:"createdAt"`
	ExpiresAt string               `json:"expiresAt"`
	Status    Status               `json:"status"`
	DecidedAt string               `json:"decidedAt,omitzero"`
	GrantID   browserhost.GrantID  `json:"grantId,omitzero"`
	Digest    string               `json:"digest"` // SHA-256 over what the owner is shown
}

// Options complete a queue.
type Options struct {
	Now     func() time.Time // nil means time.Now
	Changed func(Request)    // told of each new request and each change, without a lock held; must return soon
}

// Queue holds requests. It is safe for concurrent use.
type Queue struct {
	opts Options

	mu     sync.Mutex
	closed bool
	list   []*entry // oldest first
}

type entry struct {
	Request
	ended chan struct{} // closed when the status is final
	timer *time.Timer
}

// New makes an empty queue.
func New(opts Options) *Queue {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Queue{opts: opts}
}

// File lays down a request, or returns the one that the device has pending for
// the same sites: asking twice shows the owner one question. A name that could
// not be granted refuses the whole request (AIP-63 C2); too many waiting
// requests are rate_limited.
func (q *Queue) File(_ context.Context, actor browserhost.Actor, names []string, reason string) (Request, error) {
	names, err := domains.CheckAll(names)
	if err != nil {
		return Request{}, err
	}
	if len(names) > maxDomains {
		return Request{}, browserhost.Errorf(browserhost.CodeInputInvalid, "a request names at most %d sites", maxDomains).With("field", "domains")
	}
	reason = clean(reason)
	if reason == "" {
		return Request{}, browserhost.Errorf(browserhost.CodeInputInvalid, "a request says why").With("field", "reason")
	}
	if !actor.Device.Valid() {
		return Request{}, browserhost.Errorf(browserhost.CodeUnauthorised, "only a paired device can ask")
	}
	q.mu.Lock()
	mine, all := 0, 0
	for _, e := range q.list {
		if e.Status != Pending {
			continue
		}
		all++
		if e.DeviceID != actor.Device {
			continue
		}
		mine++
		if sameSet(e.Domains, names) {
			q.mu.Unlock()
			return e.Request, nil
		}
	}
	if q.closed || mine >= MaxPerDevice || all >= MaxPending {
		q.mu.Unlock()
		return Request{}, browserhost.Errorf(browserhost.CodeRateLimited, "too many requests wait for the owner").With("retryAfter", int(Answerable.Seconds()))
	}
	e := q.add(actor.Device, names, reason)
	r := e.Request
	q.mu.Unlock()
	q.tell(r)
	return r, nil
}

// add makes the entry. The lock is held.
func (q *Queue) add(device browserhost.DeviceID, names []string, reason string) *entry {
	if len(q.list) >= maxKept {
		if i := slices.IndexFunc(q.list, func(e *entry) bool { return e.Status != Pending }); i >= 0 {
			q.list = slices.Delete(q.list, i, i+1)
		}
	}
	now := q.opts.Now()
	e := &entry{
		Request: Request{
			ID: "req_" + rand.Text(), Code: q.code(), DeviceID: device, Kind: "browser.grant", Domains: names, Reason: reason,
			CreatedAt: browserhost.FormatTime(now), ExpiresAt: browserhost.FormatTime(now.Add(Answerable)), Status: Pending,
		},
		ended: make(chan struct{}),
	}
	e.Digest = e.digest()
	id := e.ID
	e.timer = time.AfterFunc(Answerable, func() { q.finish(id, Expired, "") })
	q.list = append(q.list, e)
	return e
}

// digest binds an answer to what was shown.
func (r Request) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", r.ID, r.DeviceID, r.Domains, r.Reason))
	return hex.EncodeToString(sum[:])
}

// letters of a code are those that nobody confuses when they are said aloud.
const letters = "ABCDEFGHJKMNPQRTUVWXY"

// code makes a short name that no waiting request has. The lock is held.
func (q *Queue) code() string {
	for {
		c := fmt.Sprintf("%c%d-%03d", letters[number(len(letters))], 2+number(8), number(1000))
		if !slices.ContainsFunc(q.list, func(e *entry) bool { return e.Code == c }) {
			return c
		}
	}
}

func number(below int) int {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(below)))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return int(n.Int64())
}

// Get returns a request of the device. One of another device is not there
// (AIP-63 C12).
func (q *Queue) Get(device browserhost.DeviceID, id string) (Request, error) {
	e, err := q.of(device, id)
	if err != nil {
		return Request{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.Request, nil
}

// Wait returns when the request has its answer or ctx ends, with the request
// as it stands then.
func (q *Queue) Wait(ctx context.Context, device browserhost.DeviceID, id string) (Request, error) {
	e, err := q.of(device, id)
	if err != nil {
		return Request{}, err
	}
	select {
	case <-e.ended:
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return e.Request, nil
}

func (q *Queue) of(device browserhost.DeviceID, id string) (*entry, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.list {
		if e.ID == id && e.DeviceID == device {
			return e, nil
		}
	}
	return nil, browserhost.Errorf(browserhost.CodeNotFound, "there is no such request")
}

// Find returns any request: for the owner. The code is as good as the id.
func (q *Queue) Find(id string) (Request, bool) {
	for _, r := range q.List() {
		if r.ID == id || strings.EqualFold(r.Code, id) {
			return r, true
		}
	}
	return Request{}, false
}

// List returns every request that is remembered, oldest first.
func (q *Queue) List() []Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]Request, 0, len(q.list))
	for _, e := range q.list {
		out = append(out, e.Request)
	}
	return out
}

// Decide ends a pending request as Allowed, with the grant that was made, or as
// Denied. One that has ended already is input_invalid, and stays as it is.
func (q *Queue) Decide(id string, status Status, grant browserhost.GrantID) (Request, error) {
	r, ok := q.Find(id)
	if !ok {
		return r, browserhost.Errorf(browserhost.CodeNotFound, "there is no such request")
	}
	if status != Allowed && status != Denied || (status == Allowed) != (grant != "") {
		return r, browserhost.Errorf(browserhost.CodeInputInvalid, "a request is allowed with a grant, or denied without one")
	}
	r, changed := q.finish(r.ID, status, grant)
	if !changed {
		return r, browserhost.Errorf(browserhost.CodeInputInvalid, "the request is already %s", string(r.Status)).With("status", string(r.Status))
	}
	return r, nil
}

// WithdrawDevice ends what a removed device has waiting (AIP-63 C13).
func (q *Queue) WithdrawDevice(device browserhost.DeviceID) {
	for _, r := range q.List() {
		if r.DeviceID == device && r.Status == Pending {
			q.finish(r.ID, Withdrawn, "")
		}
	}
}

// Close withdraws what is pending and takes no more.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	for _, r := range q.List() {
		if r.Status == Pending {
			q.finish(r.ID, Withdrawn, "")
		}
	}
}

// finish moves a pending request to its end and wakes who waits.
func (q *Queue) finish(id string, status Status, grant browserhost.GrantID) (Request, bool) {
	q.mu.Lock()
	i := slices.IndexFunc(q.list, func(e *entry) bool { return e.ID == id })
	if i < 0 {
		q.mu.Unlock()
		return Request{}, false
	}
	e := q.list[i]
	if e.Status != Pending {
		defer q.mu.Unlock()
		return e.Request, false
	}
	e.timer.Stop()
	e.Status, e.GrantID, e.DecidedAt = status, grant, browserhost.FormatTime(q.opts.Now())
	close(e.ended)
	r := e.Request
	q.mu.Unlock()
	q.tell(r)
	return r, true
}

func (q *Queue) tell(r Request) {
	if q.opts.Changed != nil {
		q.opts.Changed(r)
	}
}

func sameSet(a, b []string) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

// clean keeps a reason to one readable line.
func clean(s string) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)), " ")
	if long := []rune(s); len(long) > maxReason {
		s = string(long[:maxReason])
	}
	return s
}
