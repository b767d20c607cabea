package narrow

import (
	"context"
	"errors"
	"slices"
	"time"

	"browserhost"
	"browserhost/consent/ledger"
)

// The outcomes of a revoke, in the words of the ledger.
const (
	Deleted       = "deleted"
	None          = "none"
	NotApplicable = "not-applicable"
	Unavailable   = "unavailable"
)

// Revoked is what became of a grant and of all that was made of it.
type Revoked struct {
	ID       browserhost.GrantID
	Local    string // Deleted, or None when there was nothing left
	Remote   string // NotApplicable; Unavailable when a remote sink could not be asked
	Pages    int    // closed
	Rotation bool   // the key of the jar still has to be replaced: the keychain is locked (S1.45)
}

// ending is a revoke that is on its way.
type ending struct {
	by     browserhost.Actor
	reason string
	held   bool // there was something to delete
	pages  int
}

const (
	letGo   = browserhost.CallTime    // for a lending that was cut to return
	endTime = browserhost.LaunchLimit // for the whole of a revoke
)

// Revoke ends a grant. When it returns without an error nothing of the grant is
// left: it is refused, its lendings are cut, its pages are closed, its sealed
// file is deleted, and the key that could open a copy of it is replaced, or
// waits for the keychain (AIP-63 C8, S1.45). An error means that a part is not
// done yet; the grant is refused all the same, and calling again, [Lender.Expire]
// or the next start go on.
//
// A grant that has ended already is not ended twice: None, and no row. For an
// agent a grant of another device is the same as one that never was,
// CodeConsentRequired (AIP-63 C12); for the owner an unknown one is
// CodeNotFound. It does not depend on the caller's patience.
func (l *Lender) Revoke(ctx context.Context, by browserhost.Actor, id browserhost.GrantID) (Revoked, error) {
	g, ok := l.opts.Jar.Grant(id)
	if !owner(by) && (!ok || !g.Serves(by.Device)) {
		return Revoked{ID: id}, browserhost.Errorf(browserhost.CodeConsentRequired, "there is no such grant").With("domain", nil)
	}
	if !ok {
		return Revoked{ID: id}, browserhost.Errorf(browserhost.CodeNotFound, "there is no such grant")
	}
	out, err := l.end(ctx, []browserhost.GrantID{id}, ending{by: by})
	if err != nil {
		return Revoked{ID: id}, err
	}
	return out[0], nil
}

// owner reports whether somebody on the owner's side of the host acts.
func owner(by browserhost.Actor) bool {
	return by.Kind == browserhost.Human || by.Kind == browserhost.System
}

// RevokeDevice ends every grant of a device that was removed, and refuses it
// from now on, whatever is granted to it later (AIP-63 C13, S1.51). It returns
// the grants that it ended.
func (l *Lender) RevokeDevice(ctx context.Context, by browserhost.Actor, device browserhost.DeviceID) ([]Revoked, error) {
	if !owner(by) {
		return nil, browserhost.Errorf(browserhost.CodeUnauthorised, "only the owner removes a device")
	}
	if !device.Valid() {
		return nil, browserhost.Errorf(browserhost.CodeInputInvalid, "that is not the id of a device")
	}
	l.mu.Lock()
	l.removed[device] = true
	l.mu.Unlock()
	ids := l.pick(func(g browserhost.Grant, half bool) bool {
		return g.DeviceID == device && (g.RevokedAt == "" || half)
	})
	return l.end(ctx, ids, ending{by: by, reason: "the device was removed"})
}

// pick lists the grants that want takes; half says that a grant is marked and
// not finished.
func (l *Lender) pick(want func(g browserhost.Grant, half bool) bool) []browserhost.GrantID {
	all := l.opts.Jar.Grants()
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []browserhost.GrantID
	for _, g := range all {
		if want(g, l.endings[g.ID] != nil) {
			ids = append(ids, g.ID)
		}
	}
	return ids
}

// end revokes grants, or finishes what an earlier attempt began. The order is
// what makes it safe to die anywhere: first what refuses, then what deletes,
// then what reports (D6).
func (l *Lender) end(ctx context.Context, ids []browserhost.GrantID, why ending) ([]Revoked, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	defer l.take(ids)()
	var out []Revoked
	var grants []browserhost.Grant
	var errs error
	for _, id := range ids {
		g, todo, err := l.mark(ctx, id, why)
		switch {
		case err != nil:
			errs = errors.Join(errs, err)
		case todo:
			grants = append(grants, g)
		default:
			out = append(out, Revoked{id, None, NotApplicable, 0, l.opts.Jar.Pending()})
		}
	}
	if len(grants) == 0 {
		return out, errs
	}
	failed := l.clear(ctx, grants)
	rotation, rotateErr := l.rotate(ctx)
	for _, g := range grants {
		if err := errors.Join(failed[g.ID], rotateErr); err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		r, err := l.report(ctx, g)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		r.Rotation = rotation
		out = append(out, r)
	}
	return out, errs
}

// mark writes into the list of grants that this one has ended. From then on
// nothing is lent under it, also after a crash. todo is false for a grant that
// ended completely before.
func (l *Lender) mark(ctx context.Context, id browserhost.GrantID, why ending) (g browserhost.Grant, todo bool, err error) {
	g, ok := l.opts.Jar.Grant(id)
	if !ok {
		return g, false, browserhost.Errorf(browserhost.CodeNotFound, "there is no such grant")
	}
	if g.RevokedAt != "" {
		l.mu.Lock()
		defer l.mu.Unlock()
		return g, l.endings[id] != nil, nil
	}
	why.held = l.opts.Jar.Sealed(id)
	g.RevokedAt = browserhost.FormatTime(l.opts.Now())
	if err := l.opts.Jar.Put(ctx, g); err != nil {
		return g, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endings[id] = &why
	return g, true, nil
}

// clear takes the material out of everything that runs, and from the disk. It
// returns what could not be cleared.
func (l *Lender) clear(ctx context.Context, grants []browserhost.Grant) map[browserhost.GrantID]error {
	failed := map[browserhost.GrantID]error{}
	for _, g := range grants {
		failed[g.ID] = l.cut(ctx, g.ID)
	}
	evicted := map[browserhost.DeviceID]error{}
	for _, g := range grants {
		for _, device := range l.holders(g) {
			err, done := evicted[device]
			if !done {
				var pages int
				pages, err = l.opts.Warm.Evict(ctx, device, reasonRevoked)
				evicted[device] = err
				l.note(g.ID, func(e *ending) { e.pages += pages })
			}
			failed[g.ID] = errors.Join(failed[g.ID], err)
		}
		failed[g.ID] = errors.Join(failed[g.ID], l.opts.Jar.Delete(ctx, g.ID))
	}
	return failed
}

// cut ends the lendings of a grant and waits until they have returned.
func (l *Lender) cut(ctx context.Context, id browserhost.GrantID) error {
	l.mu.Lock()
	var met []*loan
	for made := range l.loans {
		if slices.Contains(made.grants, id) {
			made.lost = true
			made.cut()
			met = append(met, made)
		}
	}
	l.mu.Unlock()
	patience := time.NewTimer(letGo)
	defer patience.Stop()
	for _, made := range met {
		select {
		case <-made.over:
		case <-patience.C:
			return browserhost.Errorf(browserhost.CodeTimeout, "a browser that was being opened did not stop in time")
		case <-ctx.Done():
			return browserhost.Hide(browserhost.CodeTimeout, ctx.Err(), "the revoke could not be finished in time")
		}
	}
	return nil
}

// holders are the devices that may have the grant's material in a browser.
func (l *Lender) holders(g browserhost.Grant) []browserhost.DeviceID {
	if g.DeviceID != "" {
		return []browserhost.DeviceID{g.DeviceID}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []browserhost.DeviceID
	for device := range l.lent[g.ID] {
		all = append(all, device)
	}
	slices.Sort(all)
	return all
}

// rotate replaces the key of the jar, so that no copy of what was deleted can
// be opened. A locked keychain makes it wait and fails nothing (S1.45).
func (l *Lender) rotate(ctx context.Context) (pending bool, err error) {
	err = l.opts.Jar.Rotate(ctx)
	if err != nil && l.opts.Jar.Pending() {
		l.opts.Log.Warn("the key of the sealed sign-ins waits to be replaced", "error", err)
		return true, nil
	}
	return false, err
}

// report writes the row of a grant that is gone (S1.47).
func (l *Lender) report(ctx context.Context, g browserhost.Grant) (Revoked, error) {
	var e ending
	l.note(g.ID, func(known *ending) { e = *known })
	r := Revoked{ID: g.ID, Local: None, Remote: NotApplicable, Pages: e.pages}
	if e.held || e.pages > 0 {
		r.Local = Deleted
	}
	if slices.ContainsFunc(g.Sinks, func(s browserhost.Sink) bool { return s.Kind == "remote" }) {
		r.Remote = Unavailable
	}
	_, err := l.opts.Ledger.Append(ctx, ledger.Record{
		Event: ledger.Revoke, Actor: ledger.ActorOf(e.by), GrantID: g.ID, SessionID: g.SessionID, Domains: g.Domains,
		Derived: &ledger.Derived{Local: r.Local, Remote: r.Remote}, Reason: e.reason,
	})
	if err != nil {
		return r, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.endings, g.ID)
	delete(l.lent, g.ID)
	return r, nil
}

// note changes or reads what is known of an ending, with the lock held.
func (l *Lender) note(id browserhost.GrantID, f func(*ending)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.endings[id]; e != nil {
		f(e)
	}
}

// take waits until nobody else ends one of the grants, and returns the way to
// let go. All ids are taken together, so two callers cannot wait for each other.
func (l *Lender) take(ids []browserhost.GrantID) (release func()) {
	mine := make(chan struct{})
	for {
		l.mu.Lock()
		var other chan struct{}
		for _, id := range ids {
			if c := l.turns[id]; c != nil {
				other = c
			}
		}
		if other == nil {
			break
		}
		l.mu.Unlock()
		<-other
	}
	for _, id := range ids {
		l.turns[id] = mine
	}
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, id := range ids {
			delete(l.turns, id)
		}
		close(mine)
	}
}
