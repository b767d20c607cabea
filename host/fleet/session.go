package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"browserhost"
)

// slotKey names a place for one session: a device has two per instance.
type slotKey struct {
	instance instanceKey
	signedIn bool
}

// device is what the fleet keeps about one device, guarded by Fleet.mu.
type device struct {
	slots    map[slotKey]*slot
	pages    map[string]*page
	sessions map[string]*session
	gone     tombstones
	nextB    int
	nextP    int
	opening  int // pages asked for and not yet counted
}

// slot holds at most one session. Whoever opens or closes it has the turn.
type slot struct {
	turn chan struct{} // capacity 1: full while somebody has the turn
	s    *session      // guarded by Fleet.mu
}

// take waits for the turn.
func (s *slot) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slot) give() { <-s.turn }

// session is one device's context: a jar, pages and a way out of its own (K10).
type session struct {
	id       string
	device   browserhost.DeviceID
	slot     slotKey
	run      *run
	driver   browserhost.Driver
	port     browserhost.EgressPort
	domains  []string // the granted sites of a signed-in session; guarded by Fleet.mu
	opened   time.Time
	pages    []*page       // guarded by Fleet.mu
	doubtful int           // pages that may have been opened; guarded by Fleet.mu
	gone     chan struct{} // closed when the session ended
}

// device finds or makes the device's record, with f.mu held.
func (f *Fleet) device(id browserhost.DeviceID) *device {
	d, ok := f.devices[id]
	if !ok {
		d = &device{slots: map[slotKey]*slot{}, pages: map[string]*page{}, sessions: map[string]*session{}}
		f.devices[id] = d
	}
	return d
}

func (f *Fleet) slot(id browserhost.DeviceID, key slotKey) *slot {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.device(id)
	s, ok := d.slots[key]
	if !ok {
		s = &slot{turn: make(chan struct{}, 1)}
		d.slots[key] = s
	}
	return s
}

// session finds a device's session. The answer for another device's id and for
// an id that never was is the same (AIP-63 C12).
func (f *Fleet) session(id browserhost.DeviceID, browserID string) (*session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.devices[id]
	if ok {
		if s, ok := d.sessions[browserID]; ok {
			return s, nil
		}
		if why, ok := d.gone.reason(browserID); ok {
			return nil, goneBrowser(why)
		}
	}
	return nil, browserhost.Errorf(browserhost.CodeStaleBrowser, "there is no such browser").State(browserhost.NotStarted)
}

// lend describes the session that a launch opens.
type lend struct {
	device   browserhost.DeviceID
	material *browserhost.Material // nil for an anonymous session
}

// open returns the device's session in an instance, opening it when there is
// none. counts says what became of the lent cookies of a new session.
func (f *Fleet) open(ctx context.Context, i *instance, l lend) (s *session, was bool, counts browserhost.Counts, err error) {
	place := f.slot(l.device, slotKey{i.key, l.material != nil})
	if err := place.take(ctx); err != nil {
		return nil, false, counts, starting(browserhost.Starting)
	}
	defer place.give()
	f.mu.Lock()
	s = place.s
	f.mu.Unlock()
	if s != nil && l.material != nil && !covered(s.domains, l.material.Domains) {
		if counts, s, err = f.widen(ctx, s, *l.material); err != nil {
			return nil, false, counts, err
		}
	}
	if s != nil {
		return s, true, counts, nil // AIP-63 L2: as it is, nothing changed
	}
	r, err := i.acquire(ctx)
	if err != nil {
		return nil, false, counts, err
	}
	s, counts, err = f.attach(ctx, r, l)
	if err != nil {
		i.release(r)
		return nil, false, counts, err
	}
	if !f.register(place, s) {
		i.release(r)
		f.dismantle(ctx, s)
		return nil, false, counts, browserhost.Errorf(browserhost.CodeTargetGone, "the browser was lost while it was opened").
			With("reason", goneLost).State(browserhost.NotStarted)
	}
	return s, false, counts, nil
}

// attach makes the context, its own way out first, and lends it its cookies
// before any page is there (S4.9).
func (f *Fleet) attach(ctx context.Context, r *run, l lend) (*session, browserhost.Counts, error) {
	var none browserhost.Counts
	label, domains := "anonymous", []string(nil)
	if l.material != nil {
		label, domains = "signed-in", slices.Clone(l.material.Domains)
	}
	port, err := f.opts.Egress.Open(browserhost.EgressRules{Device: l.device, Label: label})
	if err != nil {
		return nil, none, notStarted(err)
	}
	driver, err := r.browser.Attach(ctx, browserhost.AttachOptions{Proxy: port.URL(), Domains: domains})
	if err != nil {
		port.Close()
		return nil, none, notStarted(err)
	}
	s := &session{
		device: l.device, slot: slotKey{r.of.key, l.material != nil}, run: r, driver: driver, port: port,
		domains: domains, opened: f.opts.Now(), gone: make(chan struct{}),
	}
	if l.material == nil {
		return s, none, nil
	}
	jar, ok := driver.(browserhost.CookieJar)
	if !ok {
		f.dismantle(ctx, s)
		return nil, none, unsupported("cookies")
	}
	counts, err := jar.SetCookies(ctx, l.material.Cookies)
	if err != nil {
		f.dismantle(ctx, s)
		return nil, none, notStarted(err)
	}
	return s, counts, nil
}

// register gives a new session its id, unless its browser went meanwhile.
func (f *Fleet) register(place *slot, s *session) bool {
	i := s.run.of
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.run != s.run {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.device(s.device)
	d.nextB++
	s.id = fmt.Sprintf("b%d", d.nextB)
	d.sessions[s.id] = s
	place.s = s
	return true
}

// dismantle closes a context and its way out, whatever the caller's patience.
func (f *Fleet) dismantle(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	err := s.driver.Close(ctx)
	if browserhost.CodeOf(err) == browserhost.CodeTargetGone {
		err = nil
	}
	if portErr := s.port.Close(); portErr != nil {
		f.opts.Log.Warn("an egress listener did not close", "err", portErr)
	}
	return err
}

// bury takes a session and its pages out of the tables, once, and leaves
// tombstones with the reason. It reports how many pages went with it.
func (f *Fleet) bury(s *session, why string) (pages int, mine bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.buryLocked(s, why)
}

func (f *Fleet) buryLocked(s *session, why string) (pages int, mine bool) {
	d := f.devices[s.device]
	if d.sessions[s.id] != s {
		return 0, false
	}
	for _, p := range s.pages {
		delete(d.pages, p.id)
		d.gone.add(p.id, why)
	}
	pages = len(s.pages)
	s.pages = nil
	delete(d.sessions, s.id)
	d.gone.add(s.id, why)
	d.slots[s.slot].s = nil
	close(s.gone)
	return pages, true
}

// detach buries every session of a run that ends and returns their listeners.
func (f *Fleet) detach(r *run, why string) []browserhost.EgressPort {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ports []browserhost.EgressPort
	for _, d := range f.devices {
		for _, s := range d.sessions {
			if s.run == r {
				f.buryLocked(s, why)
				ports = append(ports, s.port)
			}
		}
	}
	return ports
}

// close ends one session: its pages and ids first, so that nobody enters, then
// its context. A context that does not close takes its whole browser with it:
// what was lent must not outlive its session (AIP-63 C8).
func (f *Fleet) close(ctx context.Context, s *session, why string) (pages int, err error) {
	pages, mine := f.bury(s, why)
	if !mine {
		return 0, nil
	}
	i := s.run.of
	err = f.dismantle(ctx, s)
	if err == nil {
		err = disposed(ctx, s)
	}
	if err != nil {
		f.opts.Log.Error("a context did not close; its browser is ended", "provider", i.key.provider, "err", err)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		_, err = i.end(ctx, ending{only: s.run, force: true, why: because(why)})
	}
	i.release(s.run)
	return pages, err
}

// disposed verifies by reading back that a closed context holds nothing: its
// driver must say that it is gone.
func disposed(ctx context.Context, s *session) error {
	jar, ok := s.driver.(browserhost.CookieJar)
	if !ok || !s.slot.signedIn {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTime)
	defer cancel()
	left, err := jar.CookiesLeft(ctx, s.domains)
	if browserhost.CodeOf(err) == browserhost.CodeTargetGone || err == nil && left == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%d cookies are left after the context was closed", left)
}

// covered reports whether every one of want is one of have or lies below it.
func covered(have, want []string) bool {
	for _, w := range want {
		if !slices.ContainsFunc(have, func(h string) bool { return w == h || strings.HasSuffix(w, "."+h) }) {
			return false
		}
	}
	return true
}
