package policy

import (
	"context"
	"math"
	"sync"
	"time"

	"browserhost"
)

// rate is one bucket: how much it holds and how fast it fills.
type rate struct{ burst, perSecond float64 }

// The rates per device and tool (contract B, K38). A call that opens an
// address or starts a process also draws from the tighter bucket.
var (
	everyCall    = rate{burst: 100, perSecond: 50}
	openAddress  = rate{burst: 20, perSecond: 5}
	startProcess = rate{burst: 5, perSecond: 0.1}
)

// maxBuckets bounds the memory of a limiter. Full buckets are forgotten first:
// they say nothing.
const maxBuckets = 4096

// LimiterOptions complete a [Limiter].
type LimiterOptions struct {
	// Scale multiplies every rate; 0 switches the limiter off, which is what
	// the bench does (limits.rateScale).
	Scale float64
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Starts reports whether a launch would start a process: a launch that
	// finds its browser running is not counted as one. Nil counts every launch.
	Starts func(call *browserhost.Call) bool
}

// Limiter keeps one device from flooding the host. It is safe for concurrent use.
type Limiter struct {
	opts LimiterOptions

	mu      sync.Mutex
	buckets map[key]*bucket
}

type key struct {
	device browserhost.DeviceID
	name   string // a tool, or an operation that has a bucket of its own
}

type bucket struct {
	rate  rate
	level float64
	at    time.Time
}

// NewLimiter returns a limiter whose buckets are full.
func NewLimiter(opts LimiterOptions) *Limiter {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Limiter{opts: opts, buckets: map[key]*bucket{}}
}

// Link refuses a call that comes too fast with CodeRateLimited, retryable,
// with the seconds to wait in cause.retryAfter. Nothing has happened then.
func (l *Limiter) Link(next browserhost.Handler) browserhost.Handler {
	return browserhost.HandlerFunc(func(ctx context.Context, call *browserhost.Call) (*browserhost.Result, error) {
		if wait := l.take(call); wait > 0 {
			e := browserhost.Errorf(browserhost.CodeRateLimited, "too many calls").With("retryAfter", int(math.Ceil(wait.Seconds())))
			return nil, refusal(call.Operation, e)
		}
		return next.ServeTool(ctx, call)
	})
}

// take draws one token of every bucket that the call concerns, or of none, and
// returns how long to wait until it could.
func (l *Limiter) take(call *browserhost.Call) time.Duration {
	if l.opts.Scale <= 0 {
		return 0
	}
	keys, rates := []key{{call.Actor.Device, call.Tool}}, []rate{everyCall}
	switch op := call.Operation; {
	case op == browserhost.OpNavigate, op == browserhost.OpNewPage && call.Args.URL != "":
		keys, rates = append(keys, key{call.Actor.Device, "open"}), append(rates, openAddress)
	case op == browserhost.OpLaunch && (l.opts.Starts == nil || l.opts.Starts(call)):
		keys, rates = append(keys, key{call.Actor.Device, "launch"}), append(rates, startProcess)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.opts.Now()
	var wait time.Duration
	var drawn []*bucket
	for i, k := range keys {
		b := l.bucket(k, rates[i], now)
		drawn, wait = append(drawn, b), max(wait, b.missing())
	}
	if wait > 0 {
		return wait
	}
	for _, b := range drawn {
		b.level--
	}
	return 0
}

// bucket returns a bucket, filled up to now.
func (l *Limiter) bucket(k key, r rate, now time.Time) *bucket {
	b, ok := l.buckets[k]
	if !ok {
		if len(l.buckets) >= maxBuckets {
			l.forget(now)
		}
		r = rate{burst: r.burst * l.opts.Scale, perSecond: r.perSecond * l.opts.Scale}
		b = &bucket{rate: r, level: max(1, r.burst), at: now}
		l.buckets[k] = b
	}
	b.fill(now)
	return b
}

// forget drops the buckets that have nothing to remember, or, when every one
// has, the one that is fullest.
func (l *Limiter) forget(now time.Time) {
	var fullest key
	level := -1.0
	for k, b := range l.buckets {
		b.fill(now)
		switch part := b.level / b.rate.burst; {
		case part >= 1:
			delete(l.buckets, k)
		case part > level:
			fullest, level = k, part
		}
	}
	if len(l.buckets) >= maxBuckets {
		delete(l.buckets, fullest)
	}
}

func (b *bucket) fill(now time.Time) {
	if d := now.Sub(b.at); d > 0 {
		b.level = min(max(1, b.rate.burst), b.level+d.Seconds()*b.rate.perSecond)
		b.at = now
	}
}

// missing is how long until the bucket holds one token.
func (b *bucket) missing() time.Duration {
	if b.level >= 1 {
		return 0
	}
	return time.Duration(math.Ceil((1 - b.level) / b.rate.perSecond * float64(time.Second)))
}
