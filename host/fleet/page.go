package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"browserhost"
)

// Why a page or session went. The first four are words of [browserhost.Page].
const (
	goneClosed   = "closed"
	goneCrashed  = "crashed"
	goneLost     = "browser_lost"
	goneContext  = "context_closed"
	goneIdle     = "idle"
	goneLifetime = "lifetime"
	goneHost     = "host_stopping"
	goneRevoked  = "grant_revoked" // contract G
	goneWidened  = "grant_changed"
)

// maxTombstones bounds what is remembered per device. An older id is still
// known to be gone, only its reason is forgotten.
const maxTombstones = 256

// tombstones remember why ids went, newest maxTombstones of them.
type tombstones struct {
	order []string
	why   map[string]string
}

func (t *tombstones) add(id, why string) {
	if _, known := t.why[id]; known {
		return // the first reason is the true one
	}
	if t.why == nil {
		t.why = map[string]string{}
	}
	if len(t.order) == maxTombstones {
		delete(t.why, t.order[0])
		t.order = t.order[1:]
	}
	t.order = append(t.order, id)
	t.why[id] = why
}

func (t *tombstones) reason(id string) (string, bool) {
	why, ok := t.why[id]
	return why, ok
}

// page is one tab under the id that its device knows.
type page struct {
	id      string
	tab     browserhost.Page
	session *session
	opener  string // the page whose act opened it, where that was seen
}

// page finds a device's page. A page that went answers browser:target_gone with
// the reason and is never rebound (AIP-63 L12); an id of another device answers
// as one that never was (AIP-63 C12).
func (f *Fleet) page(id browserhost.DeviceID, pageID string) (*page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.devices[id]
	if !ok {
		return nil, stalePage()
	}
	if p, ok := d.pages[pageID]; ok {
		select {
		case <-p.tab.Gone():
			f.mournLocked(p)
		default:
			return p, nil
		}
	}
	if why, ok := d.gone.reason(pageID); ok {
		return nil, gonePage(why)
	}
	if n, ok := number(pageID); ok && n <= d.nextP {
		return nil, gonePage(goneClosed)
	}
	return nil, stalePage()
}

// number reads the count out of a page id, in the one way it is written.
func number(pageID string) (int, bool) {
	if len(pageID) < 2 || pageID[0] != 'p' {
		return 0, false
	}
	n, err := strconv.Atoi(pageID[1:])
	return n, err == nil && n > 0 && pageID == fmt.Sprintf("p%d", n)
}

// adopt gives a tab its id; a tab that has one keeps it. It returns nil when
// the session has ended.
func (f *Fleet) adopt(s *session, tab browserhost.Page, opener string) *page {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.devices[s.device]
	if d.sessions[s.id] != s {
		return nil
	}
	for _, p := range s.pages {
		if p.tab == tab {
			return p
		}
	}
	d.nextP++
	p := &page{id: fmt.Sprintf("p%d", d.nextP), tab: tab, session: s, opener: opener}
	d.pages[p.id] = p
	s.pages = append(s.pages, p)
	f.tasks.Go(func() {
		select {
		case <-s.gone:
		case <-tab.Gone():
			f.mu.Lock()
			defer f.mu.Unlock()
			f.mournLocked(p)
		}
	})
	return p
}

// mournLocked buries a page that its browser reports gone, with f.mu held.
func (f *Fleet) mournLocked(p *page) {
	f.buryPageLocked(p, cmp.Or(p.tab.GoneReason(), goneClosed))
}

func (f *Fleet) buryPageLocked(p *page, why string) {
	d := f.devices[p.session.device]
	if d.pages[p.id] != p {
		return
	}
	delete(d.pages, p.id)
	d.gone.add(p.id, why)
	p.session.pages = slices.DeleteFunc(p.session.pages, func(q *page) bool { return q == p })
}

// survey adopts what is open in a session and returns it in order of age.
// Seeing what is open settles what was doubtful.
func (f *Fleet) survey(s *session) []*page {
	for _, tab := range s.driver.Pages() {
		select {
		case <-tab.Gone():
		default:
			f.adopt(s, tab, "")
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.doubtful = 0
	return slices.Clone(s.pages)
}

// reserve makes room for one page or says that there is none (contract B).
// done gives the room back: the page, if it came, is counted by then.
func (f *Fleet) reserve(s *session) (done func(doubtful bool), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	host, own := f.opening, 0
	for id, d := range f.devices {
		n := 0
		for _, t := range d.sessions {
			n += len(t.pages) + t.doubtful
		}
		host += n
		if id == s.device {
			own = n + d.opening
		}
	}
	switch {
	case own >= browserhost.MaxPagesPerDevice:
		return nil, browserhost.Errorf(browserhost.CodeBusy, "%d pages are open already; close one first", browserhost.MaxPagesPerDevice).
			State(browserhost.NotStarted)
	case host >= browserhost.MaxPagesPerHost:
		return nil, browserhost.Errorf(browserhost.CodeBusy, "the host has all the pages that it can keep").State(browserhost.NotStarted)
	}
	d := f.devices[s.device]
	f.opening++
	d.opening++
	return func(doubtful bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.opening--
		d.opening--
		if doubtful {
			s.doubtful++
		}
	}, nil
}

func stalePage() error {
	return browserhost.Errorf(browserhost.CodeStalePage, "there is no such page").State(browserhost.NotStarted)
}

func gonePage(why string) error {
	return browserhost.Errorf(browserhost.CodeTargetGone, "the page is gone").With("reason", why).State(browserhost.NotStarted)
}

// goneBrowser answers a call on a session that ended. Opening a page where a
// grant was revoked is a matter of consent (contract G).
func goneBrowser(why string) error {
	if why == goneRevoked {
		return browserhost.Errorf(browserhost.CodeConsentRequired, "the sign-in that this browser used was revoked").
			With("domain", nil).With("reason", why).State(browserhost.NotStarted)
	}
	return browserhost.Errorf(browserhost.CodeStaleBrowser, "the browser is gone").With("reason", why).State(browserhost.NotStarted)
}

// whyGone adds the true reason to a driver's target_gone: the tombstone's.
func (f *Fleet) whyGone(p *page, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-p.tab.Gone():
		f.mournLocked(p)
	default:
	}
	why, ok := f.devices[p.session.device].gone.reason(p.id)
	if !ok {
		return err
	}
	return typed(err).With("reason", why)
}
