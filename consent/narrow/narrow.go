// Package narrow lends what the owner granted, and ends it. Nothing here can
// make a grant, add a site to one or bring one back: whoever holds a [Lender]
// can only use what is there or have less of it afterwards (AIP-63 C7).
//
// All material that leaves the jar goes through [Lender.Lend] or [Lender.Seed],
// for as long as a function runs. That makes one promise possible: when
// [Lender.Revoke] returns, nothing of the grant is on the disk, in a browser,
// or on its way into one (AIP-63 C8). A lending that meets a revoke loses.
//
// A revoke is written down before it is carried out, in the list of grants,
// and again in the ledger when it is done. Between the two the host may die;
// [Lender.Resume] finishes at the next start.
package narrow

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"browserhost"
	"browserhost/consent/jar"
	"browserhost/consent/ledger"
)

// Warm is where lent material lives while it is used: the browsers that run.
type Warm interface {
	// Seed sets the material in the signed-in sessions that its device has open.
	Seed(ctx context.Context, m browserhost.Material) (browserhost.Counts, error)
	// Evict ends the signed-in sessions of a device. When it returns without an
	// error they are gone, and so is what was in them.
	Evict(ctx context.Context, device browserhost.DeviceID, reason string) (pages int, err error)
}

// Options are what a lender is made of. Now is time.Now when nil; a nil Log
// logs nothing.
type Options struct {
	Ledger     *ledger.Ledger
	LedgerPath string // the file behind Ledger, which Resume reads
	Jar        *jar.Jar
	Warm       Warm
	Now        func() time.Time
	Log        *slog.Logger
}

// Lender lends and ends grants. It is safe for concurrent use.
type Lender struct {
	opts Options

	mu      sync.Mutex
	loans   map[*loan]bool
	endings map[browserhost.GrantID]*ending       // marked as revoked and not yet in the ledger
	turns   map[browserhost.GrantID]chan struct{} // closed when the end that is being carried out is over
	lent    map[browserhost.GrantID]map[browserhost.DeviceID]bool
	removed map[browserhost.DeviceID]bool
}

// New makes a lender. Call [Lender.Resume] before the first lending.
func New(opts Options) *Lender {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Lender{
		opts:    opts,
		loans:   map[*loan]bool{},
		endings: map[browserhost.GrantID]*ending{},
		turns:   map[browserhost.GrantID]chan struct{}{},
		lent:    map[browserhost.GrantID]map[browserhost.DeviceID]bool{},
		removed: map[browserhost.DeviceID]bool{},
	}
}

// Grants lists every grant, ended ones included, oldest first: for the owner.
func (l *Lender) Grants() []browserhost.Grant { return l.opts.Jar.Grants() }

// For lists the grants that exist for a device: active ones that serve it. One
// that serves another device is absent, as one that never was (AIP-63 C12,
// S1.50), and a device that was removed has none (AIP-63 C13).
func (l *Lender) For(device browserhost.DeviceID) []browserhost.Grant {
	if l.isRemoved(device) {
		return nil
	}
	now := l.opts.Now()
	return slices.DeleteFunc(l.opts.Jar.Grants(), func(g browserhost.Grant) bool {
		return !g.Serves(device) || !g.Active(now)
	})
}

func (l *Lender) isRemoved(device browserhost.DeviceID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.removed[device]
}
