package cdp

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"slices"
	"sync"

	"browserhost"

	cdproto "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	pagecmd "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
)

// Why a page is gone.
const (
	goneClosed  = "closed"
	goneCrashed = "crashed"
	goneLost    = "browser_lost"
	goneContext = "context_closed"
)

// The size of every page. Chromium's own default without a screen is 780 by 493.
const (
	viewWidth  = 1280
	viewHeight = 720
)

// maxInflight bounds the requests that one page is followed in.
const maxInflight = 1024

// page is one tab.
type page struct {
	driver  *driver
	session session
	target  target.ID
	walker  *walker
	acting  chan struct{} // holds one token: acts on a page take turns
	ready   chan struct{} // closed when the page is set up
	gone    chan struct{}
	ended   sync.Once

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change below
	err      error         // of setting up
	why      string        // of being gone
	url      string
	title    string
	frame    cdproto.FrameID  // the main frame
	doc      document         // in the main frame
	heading  cdproto.LoaderID // a navigation under way; "" = none
	statuses map[cdproto.LoaderID]int
	dialog   *browserhost.Dialog
	inflight map[network.RequestID]int // what was asked for and not answered yet, by the number of its start
	requests int                       // started so far
	children []birth                   // pages that this page opened and that are there, oldest first
	births   int                       // so far
	worldID  string                    // the walker's world in doc; "" = not made yet
}

// newPage knows a page that the browser has just made and holds back.
func newPage(d *driver, info *target.Info, s session) *page {
	p := &page{
		driver:   d,
		session:  s,
		target:   info.TargetID,
		acting:   make(chan struct{}, 1),
		ready:    make(chan struct{}),
		gone:     make(chan struct{}),
		changed:  make(chan struct{}),
		url:      clipBytes(info.URL, browserhost.MaxURL),
		title:    clipRunes(info.Title, browserhost.MaxTitle),
		frame:    cdproto.FrameID(info.TargetID),
		statuses: map[cdproto.LoaderID]int{},
		inflight: map[network.RequestID]int{},
	}
	p.walker = newWalker(p)
	return p
}

// setUp makes the page ready in one go and lets it run. It does not wait: it is
// called where events come from.
func (p *page) setUp() {
	calls, err := p.session.start(
		cmd(pagecmd.Enable, pagecmd.EnableParams{}),
		cmd(pagecmd.GetFrameTree, none),
		cmd(pagecmd.SetLifecycleEventsEnabled, pagecmd.SetLifecycleEventsEnabledParams{Enabled: true}),
		cmd(network.Enable, network.EnableParams{MaxTotalBufferSize: new(int64(0)), MaxResourceBufferSize: new(int64(0))}),
		cmd(runtime.Enable, none),
		// A hidden page must go on working, and look as any other.
		cmd(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}),
		cmd(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: viewWidth, Height: viewHeight, DeviceScaleFactor: 1}),
		cmd(emulation.SetScrollbarsHidden, emulation.SetScrollbarsHiddenParams{Hidden: true}),
		// The owner's screen shows no file dialog that a page asked for.
		cmd(pagecmd.SetInterceptFileChooserDialog, pagecmd.SetInterceptFileChooserDialogParams{Enabled: true, Cancel: new(true)}),
		cmd(runtime.RunIfWaitingForDebugger, none),
	)
	p.driver.browser.tasks.Go(func() {
		for i, c := range calls {
			v, _, callErr := p.await(context.Background(), c, true)
			if err = errors.Join(err, callErr); callErr == nil && i == 1 {
				tree, treeErr := decode[pagecmd.GetFrameTreeResult](pagecmd.CommandGetFrameTree, v)
				if err = errors.Join(err, treeErr); treeErr == nil && tree.FrameTree != nil && tree.FrameTree.Frame != nil {
					p.begin(tree.FrameTree.Frame)
				}
			}
		}
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(p.ready)
	})
}

// begin notes the first document, unless a later one came already.
func (p *page) begin(f *cdproto.Frame) {
	p.change(func() {
		if p.doc.loader == "" {
			p.frame, p.doc = f.ID, document{loader: f.LoaderID}
		}
	})
}

// usable waits until the page is set up, and fails when it is gone or a dialog
// holds it.
func (p *page) usable(ctx context.Context) error {
	if p.isGone() {
		return errPageGone
	}
	if p.held() != nil {
		return errDialog
	}
	select {
	case <-p.ready:
	case <-p.gone:
		return errPageGone
	case <-ctx.Done():
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// turn waits until no other act is going on in the page, and holds that until
// done is called.
func (p *page) turn(ctx context.Context) (done func(), err error) {
	select {
	case p.acting <- struct{}{}:
	case <-p.gone:
		return nil, errPageGone
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := p.usable(ctx); err != nil {
		<-p.acting
		return nil, err
	}
	return func() { <-p.acting }, nil
}

// change changes the page's state and wakes who waits for that.
func (p *page) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// held gives the dialog that holds the page, nil when none does.
func (p *page) held() *browserhost.Dialog {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dialog
}

// wait waits for the answer of a call; nil means that it is there. It gives up
// when the page is gone, and unless patient, when a dialog opens: until
// somebody answers that, the browser answers nothing.
func (p *page) wait(ctx context.Context, c *call, patient bool) error {
	for {
		p.mu.Lock()
		dialog, changed := p.dialog, p.changed
		p.mu.Unlock()
		select {
		case <-c.done:
			return nil
		default:
		}
		if dialog != nil && !patient {
			return errDialog
		}
		select {
		case <-c.done:
			return nil
		case <-changed:
		case <-p.gone:
			return errPageGone
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// await waits as wait does and returns the answer. A call that is given up is
// forgotten; sent says whether the browser may have seen it.
func (p *page) await(ctx context.Context, c *call, patient bool) (result jsontext.Value, sent bool, err error) {
	if err := p.wait(ctx, c, patient); err != nil {
		return nil, p.session.conn.forget(c), err
	}
	return c.result, true, sessionGone(c.err)
}

// sessionGone recognises the answer of a browser that does not know a page any more.
func sessionGone(err error) error {
	if e, ok := errors.AsType[*protocolError](err); ok && e.Code == -32001 {
		return errors.Join(errPageGone, err)
	}
	return err
}

// ask runs a command that has no effect on the page. While a dialog holds the
// page, nothing is asked.
func (p *page) ask(ctx context.Context, c command) (jsontext.Value, error) {
	if p.held() != nil {
		return nil, errDialog
	}
	calls, err := p.session.start(c)
	if err != nil {
		return nil, err
	}
	v, _, err := p.await(ctx, calls[0], false)
	return v, err
}

// shown turns an inner error into one that an agent may see.
func (p *page) shown(err error, state browserhost.Execution) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errPageGone), errors.Is(err, errLost):
		why := p.GoneReason()
		if errors.Is(err, errLost) {
			why = goneLost
		}
		return goneError(why).State(state)
	case errors.Is(err, errDialog):
		if e := p.dialogError(); e != nil {
			return e.State(state)
		}
		return shown(context.DeadlineExceeded, state) // it closed meanwhile, and took the time
	}
	return shown(err, state)
}

// dialogError says that a dialog holds the page and what it says; nil when
// none does.
func (p *page) dialogError() *browserhost.Error {
	d := p.held()
	if d == nil {
		return nil
	}
	return browserhost.Errorf(browserhost.CodeDialogOpen, "a dialog of the page is open").
		With("dialog", map[string]any{"type": d.Type, "message": d.Message})
}

// Info is what the page is now; it asks the browser for nothing.
func (p *page) Info() browserhost.PageInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	return browserhost.PageInfo{URL: p.url, Title: p.title}
}

// Gone is closed when the page is closed, crashed or lost.
func (p *page) Gone() <-chan struct{} { return p.gone }

// GoneReason says why the page is gone, "" while it is there.
func (p *page) GoneReason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// finish ends the page, once; the first reason is the true one.
func (p *page) finish(why string) {
	p.ended.Do(func() {
		p.driver.remove(p)
		p.driver.browser.forget(p)
		p.mu.Lock()
		p.why = why
		p.mu.Unlock()
		close(p.gone)
	})
}

// birth is a page that another one opened as its n-th, counted from 1.
type birth struct {
	page *page
	n    int
}

// opened notes a page that this one opened, and forgets those that are gone.
func (p *page) opened(child *page) {
	p.change(func() {
		p.children = slices.DeleteFunc(p.children, func(b birth) bool { return b.page.isGone() })
		p.births++
		p.children = append(p.children, birth{child, p.births})
	})
}

func (p *page) isGone() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// retitle notes a new title.
func (p *page) retitle(title string) {
	p.change(func() { p.title = clipRunes(title, browserhost.MaxTitle) })
}

// Snapshot walks the page. A document that is replaced during the walk is
// walked anew, within reason: looking has no effect.
func (p *page) Snapshot(ctx context.Context, opts browserhost.SnapshotOptions) (browserhost.Snapshot, error) {
	if err := p.usable(ctx); err != nil {
		return browserhost.Snapshot{}, p.shown(err, "")
	}
	for try := 0; ; try++ {
		s, err := p.walker.snapshot(ctx, opts)
		if errors.Is(err, errDocumentGone) && try < 3 {
			continue
		}
		return s, p.shown(err, "")
	}
}

// Close closes the page without asking it (no beforeunload), and waits until
// it is gone.
func (p *page) Close(ctx context.Context) error {
	if p.isGone() {
		return goneError(p.GoneReason()).State(browserhost.NotStarted)
	}
	root := p.driver.browser.root
	calls, err := root.start(cmd(target.CloseTarget, target.CloseTargetParams{TargetID: p.target}))
	if err != nil {
		return p.shown(err, browserhost.NotStarted)
	}
	_, sent, err := p.await(ctx, calls[0], true)
	if err != nil && !errors.Is(err, errPageGone) {
		return p.shown(err, unlessRefused(err, sent))
	}
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
		return p.shown(ctx.Err(), browserhost.OutcomeUnknown)
	}
}

// clipBytes cuts s at a character boundary to at most n bytes.
func clipBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}

// clipRunes cuts s to at most n characters.
func clipRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
