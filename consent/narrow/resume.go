package narrow

import (
	"context"
	"errors"
	"time"

	"browserhost"
	"browserhost/consent/ledger"
)

// Expire ends, as the system, the grants whose time is up, and goes on with
// revokes that could not be finished. It returns when the next grant expires,
// zero when none will.
func (l *Lender) Expire(ctx context.Context) (next time.Time, err error) {
	_, half := l.end(ctx, l.pick(func(_ browserhost.Grant, half bool) bool { return half }), ending{})
	err = errors.Join(half, l.expire(ctx, func(browserhost.Grant) bool { return true }))
	for _, g := range l.opts.Jar.Grants() {
		if g.RevokedAt != "" || g.ExpiresAt == "" {
			continue
		}
		at, bad := time.Parse(time.RFC3339, g.ExpiresAt)
		if bad == nil && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next, err
}

// expire ends those grants of which wants is true and whose time is up (D31).
func (l *Lender) expire(ctx context.Context, wants func(browserhost.Grant) bool) error {
	now := l.opts.Now()
	ids := l.pick(func(g browserhost.Grant, _ bool) bool {
		return g.RevokedAt == "" && !g.Active(now) && wants(g)
	})
	_, err := l.end(ctx, ids, ending{by: system("expiry"), reason: "its time was up"})
	return err
}

// Resume makes the list of grants and the ledger tell the same story after the
// host ended at any point (S1.45). A revoke that was begun is finished; one
// that the ledger knows holds, whatever list was put back; a grant that was
// written down and never given is closed in the ledger; a key that waits to be
// replaced is replaced if the keychain can be used; and what expired meanwhile
// is ended. Call it once, before anything is lent.
func (l *Lender) Resume(ctx context.Context) error {
	book, err := l.read(ctx)
	if err != nil {
		return err
	}
	var errs error
	for _, g := range l.opts.Jar.Grants() {
		switch ended := book.ended[g.ID]; {
		case g.RevokedAt != "" && !ended:
			l.mu.Lock() // Expire, below, goes on with it
			l.endings[g.ID] = &ending{by: system("resume"), reason: "a revoke that was cut short was finished", held: true}
			l.mu.Unlock()
		case g.RevokedAt == "" && ended:
			errs = errors.Join(errs, l.enforce(ctx, g))
		}
		delete(book.given, g.ID)
	}
	for _, r := range book.order {
		if book.given[r.GrantID] {
			delete(book.given, r.GrantID)
			errs = errors.Join(errs, l.close(ctx, r))
		}
	}
	if l.opts.Jar.Pending() {
		_, err := l.rotate(ctx)
		errs = errors.Join(errs, err)
	}
	_, err = l.Expire(ctx)
	return errors.Join(errs, err)
}

// book is what the ledger says about grants.
type book struct {
	order []ledger.Record // rows of grants
	given map[browserhost.GrantID]bool
	ended map[browserhost.GrantID]bool
}

// read reads the whole ledger. Lines that a crash cut short are passed over:
// what they said did not happen (K36).
func (l *Lender) read(ctx context.Context) (book, error) {
	b := book{given: map[browserhost.GrantID]bool{}, ended: map[browserhost.GrantID]bool{}}
	var broken error
	rows := 0
	for r, err := range ledger.Read(ctx, l.opts.LedgerPath) {
		if err != nil {
			broken = err
			continue
		}
		rows++
		switch r.Event {
		case ledger.Grant:
			b.order = append(b.order, r)
			b.given[r.GrantID] = true
		case ledger.Revoke:
			b.ended[r.GrantID] = true
			delete(b.given, r.GrantID)
		}
	}
	if err := ctx.Err(); err != nil {
		return b, browserhost.Hide(browserhost.CodeTimeout, err, "the ledger could not be read in time")
	}
	if broken != nil && rows == 0 {
		return b, browserhost.Hide(browserhost.CodeInternal, broken, "the ledger cannot be read")
	}
	return b, nil
}

// enforce ends a grant that the ledger says is revoked: an older list of grants
// was put back.
func (l *Lender) enforce(ctx context.Context, g browserhost.Grant) error {
	l.opts.Log.Warn("a revoked grant was in the list again; it stays revoked", "grant", g.ID)
	g.RevokedAt = browserhost.FormatTime(l.opts.Now())
	return errors.Join(l.opts.Jar.Put(ctx, g), l.opts.Jar.Delete(ctx, g.ID))
}

// close writes that a grant of the ledger lends nothing: the host ended after
// the row and before the grant was given, or its list was lost.
func (l *Lender) close(ctx context.Context, given ledger.Record) error {
	_, err := l.opts.Ledger.Append(ctx, ledger.Record{
		Event: ledger.Revoke, Actor: ledger.ActorOf(system("resume")), GrantID: given.GrantID, SessionID: given.SessionID, Domains: given.Domains,
		Derived: &ledger.Derived{Local: None, Remote: NotApplicable}, Reason: "nothing is lent under it: the host ended before it was given, or it was lost",
	})
	return err
}

func system(via string) browserhost.Actor {
	return browserhost.Actor{Kind: browserhost.System, Via: via}
}
