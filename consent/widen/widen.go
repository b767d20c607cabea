// Package widen is the half of consent that makes grants. Only the owner's side
// of the host holds a [Widener]; no package that an agent's call passes through
// can name it (AIP-63 C7).
//
// A grant is made in one order. Everything that can be refused is refused
// first, with nothing done. Then the row is in the ledger and on the disk; then
// the cookies of the named sites are read, and of no other; then they are
// sealed; and only then does the grant exist (AIP-63 C1, C10). Whatever stops
// this on the way leaves no grant and nothing sealed, and a second row that
// says so.
package widen

import (
	"context"
	"log/slog"
	"time"

	"browserhost"
	"browserhost/consent/extract"
	"browserhost/consent/jar"
	"browserhost/consent/ledger"
	"browserhost/consent/presence"
)

// Warm takes new material to the sessions that its device has open. In the host
// it is consent/narrow's lender, so that a revoke sees this lending too.
type Warm interface {
	Seed(ctx context.Context, m browserhost.Material) (browserhost.Counts, error)
}

// Options are what a widener is made of. Now is time.Now when nil; a nil Log
// logs nothing.
type Options struct {
	Ledger   *ledger.Ledger
	Jar      *jar.Jar
	Keys     browserhost.Keys         // for the hashes of cookie names
	Profiles func() []extract.Profile // lists the owner's browser profiles and opens none (K3)
	Secrets  extract.Secrets          // where browsers keep their keys
	Warm     Warm
	Now      func() time.Time
	Log      *slog.Logger
}

// Widener makes grants. It is safe for concurrent use.
type Widener struct{ opts Options }

// New makes a widener.
func New(opts Options) *Widener {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Widener{opts}
}

// Source is one browser profile of the owner, by name.
type Source struct {
	Ref     string // "chrome/Default": how the other methods name it
	Browser string
	Profile string
}

// Site is what a profile holds for one site.
type Site = presence.Site

// Sources lists the profiles. It opens nothing (K3, S5).
func (w *Widener) Sources(context.Context) ([]Source, error) {
	out := []Source{}
	for _, f := range w.found() {
		out = append(out, Source{f.ref, f.profile.Browser, f.profile.Name})
	}
	return out, nil
}

// Preview counts what a profile holds for the sites, or, without sites, for
// every site that it has a cookie of. No value is read and no keychain asked
// (AIP-63 C5, S1.39). Sites are read as the owner types them (K44).
func (w *Widener) Preview(ctx context.Context, source string, sites []string) ([]Site, error) {
	f, err := w.choose(source)
	if err != nil {
		return nil, err
	}
	var names []string
	if len(sites) > 0 {
		if names, err = fromOwner(sites); err != nil {
			return nil, err
		}
	}
	return presence.Count(ctx, f.profile, names)
}
