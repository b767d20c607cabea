package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"browserhost"
)

func (f *Fleet) serveTargets(ctx context.Context, call *browserhost.Call) (*browserhost.Result, error) {
	return &browserhost.Result{Value: Targets{Targets: f.Providers(ctx, call.Actor)}}, nil
}

func (f *Fleet) serveBrowsers(_ context.Context, call *browserhost.Call) (*browserhost.Result, error) {
	out := Browsers{Browsers: []Browser{}}
	for _, s := range f.sessions(call.Actor.Device) {
		pages := f.survey(s)
		b := Browser{
			BrowserID: s.id, Provider: s.slot.instance.provider, SignedIn: s.slot.signedIn, Sites: f.sites(s), Mode: "control",
			AgeS: int64(f.opts.Now().Sub(s.opened) / time.Second), Pages: len(pages),
		}
		out.Browsers = append(out.Browsers, b)
	}
	return &browserhost.Result{Value: out}, nil
}

func (f *Fleet) servePages(_ context.Context, call *browserhost.Call) (*browserhost.Result, error) {
	sessions := f.sessions(call.Actor.Device)
	if call.Args.BrowserID != "" {
		s, err := f.session(call.Actor.Device, call.Args.BrowserID)
		if err != nil {
			return nil, err
		}
		sessions = []*session{s}
	}
	limit := call.Args.Limit
	if limit == 0 {
		limit = maxListed
	}
	out := Pages{Pages: []ListedPage{}}
	for _, s := range sessions {
		for _, p := range f.survey(s) {
			if len(out.Pages) == limit {
				out.LeftOut++
				continue
			}
			out.Pages = append(out.Pages, ListedPage{PageRef: ref(p), BrowserID: s.id, Opener: p.opener})
		}
	}
	return &browserhost.Result{Value: out}, nil
}

func (f *Fleet) serveSnapshot(ctx context.Context, call *browserhost.Call, p *page) (*browserhost.Result, error) {
	shot, err := p.tab.Snapshot(ctx, browserhost.SnapshotOptions{MaxChars: call.Args.MaxChars, Offset: call.Args.Offset})
	if err != nil {
		return nil, err
	}
	return &browserhost.Result{Value: Snapshot{
		Page: ref(p), Generation: shot.Generation, Text: shot.Text, Elements: shot.Elements, NextOffset: shot.NextOffset, LeftOut: shot.LeftOut,
	}}, nil
}

func (f *Fleet) serveScreenshot(ctx context.Context, call *browserhost.Call, p *page) (*browserhost.Result, error) {
	img, err := p.tab.Screenshot(ctx, browserhost.ScreenshotOptions{Format: call.Args.Format, FullPage: call.Args.FullPage})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(img.Data)
	return &browserhost.Result{
		Value: Screenshot{Page: ref(p), MIME: img.MIME, Width: img.Width, Height: img.Height, Bytes: len(img.Data), SHA256: hex.EncodeToString(sum[:])},
		Image: &img,
	}, nil
}

// serveLaunch opens the device's session, anonymous or, when material is lent,
// signed in. It is idempotent per device and kind (AIP-63 L2).
func (f *Fleet) serveLaunch(ctx context.Context, call *browserhost.Call) (*browserhost.Result, error) {
	if call.Args.SignedIn && call.Material == nil {
		return nil, browserhost.Errorf(browserhost.CodeConsentRequired, "no sign-in was lent").With("domain", nil).State(browserhost.NotStarted)
	}
	if call.Material != nil && call.Material.Device != call.Actor.Device {
		return nil, browserhost.Errorf(browserhost.CodeConsentRequired, "no sign-in was lent").With("domain", nil).State(browserhost.NotStarted) // AIP-63 C12
	}
	p, err := f.provider(call.Args.Provider)
	if err != nil {
		return nil, err
	}
	m := p.Manifest()
	if call.Material != nil && !m.Capabilities.Cookies {
		return nil, unsupported("cookies")
	}
	if want := display(call.Args.Headed); !slices.Contains(m.Display, want) {
		return nil, unsupported(want)
	}
	i := f.instance(p, call.Args.Headed)
	if !i.runs() {
		if d := p.Discover(ctx); !d.Runnable { // S3.40
			return nil, browserhost.Errorf(browserhost.CodeNotReady, "there is no browser to launch").
				With("state", string(browserhost.Absent)).With("why", d.Why).State(browserhost.NotStarted)
		}
	}
	s, was, counts, err := f.open(ctx, i, lend{call.Actor.Device, call.Material})
	if err != nil {
		return nil, notStarted(err)
	}
	out := Launched{
		ExecutionState: browserhost.Completed, BrowserID: s.id, Provider: m.ID, SignedIn: call.Material != nil,
		Sites: f.sites(s), WasAlreadyRunning: was,
	}
	if call.Material != nil {
		out.Cookies = &counts
	}
	return &browserhost.Result{Value: out}, nil
}

func (f *Fleet) serveNewPage(ctx context.Context, call *browserhost.Call, s *session) (*browserhost.Result, error) {
	if err := f.fence(s, call.Args.URL); err != nil {
		return nil, err
	}
	done, err := f.reserve(s)
	if err != nil {
		return nil, err
	}
	began := f.opts.Now()
	tab, nav, err := s.driver.NewPage(ctx, call.Args.URL)
	if err != nil {
		e, ok := errors.AsType[*browserhost.Error](err)
		done(!ok || e.Execution != browserhost.NotStarted) // contract F: counted until it is seen
		return nil, err
	}
	p := f.adopt(s, tab, "")
	done(false)
	if p == nil {
		return nil, f.endedUnder(s)
	}
	out := Acted{ExecutionState: browserhost.Completed, PageID: p.id, Page: new(ref(p))}
	if call.Args.URL != "" {
		f.arrived(&out, nav, began)
	}
	return &browserhost.Result{Value: out}, nil
}

func (f *Fleet) serveNavigate(ctx context.Context, call *browserhost.Call, p *page) (*browserhost.Result, error) {
	if err := f.fence(p.session, call.Args.URL); err != nil {
		return nil, err
	}
	wait := call.Args.Wait
	if wait == "" {
		wait = "load"
	}
	began := f.opts.Now()
	nav, err := p.tab.Navigate(ctx, call.Args.URL, wait)
	if err != nil {
		return nil, err
	}
	out := Acted{ExecutionState: browserhost.Completed, Page: new(ref(p))}
	f.arrived(&out, nav, began)
	return &browserhost.Result{Value: out}, nil
}

// arrived says how far a document got. A failed navigation is completed all
// the same: the browser tried (contract F).
func (f *Fleet) arrived(out *Acted, nav browserhost.Navigation, began time.Time) {
	out.StatusCode, out.FinalURL, out.NavigationFailed, out.Dialog = nav.Status, nav.URL, nav.Failed, nav.Dialog
	reason := "time"
	switch {
	case nav.Dialog != nil:
		reason = "dialog"
	case nav.Loaded || nav.Failed != "":
		reason = "navigated"
	}
	out.Stability = &browserhost.Settle{Stable: nav.Loaded, WaitedMS: f.opts.Now().Sub(began).Milliseconds(), Reason: reason}
}

func (f *Fleet) serveClick(ctx context.Context, call *browserhost.Call, p *page) (*browserhost.Result, error) {
	eff, err := p.tab.Click(ctx, call.Args.ElementID, browserhost.ClickOptions{
		Button: call.Args.Button, Count: call.Args.Count, Modifiers: call.Args.Modifiers,
	})
	if err != nil {
		return nil, err
	}
	return &browserhost.Result{Value: f.acted(p, eff)}, nil
}

func (f *Fleet) serveInputText(ctx context.Context, call *browserhost.Call, p *page) (*browserhost.Result, error) {
	eff, err := p.tab.InputText(ctx, call.Args.ElementID, browserhost.InputOptions{
		Text: call.Args.Text, Append: call.Args.Mode == "append", Submit: call.Args.Submit,
	})
	if err != nil {
		return nil, err
	}
	out := f.acted(p, eff)
	out.Value = &eff.Value
	return &browserhost.Result{Value: out}, nil
}

func (f *Fleet) acted(p *page, eff browserhost.Effect) Acted {
	out := Acted{ExecutionState: browserhost.Completed, Page: new(ref(p)), Stability: &eff.Settle, Dialog: eff.Dialog}
	for _, tab := range eff.NewPages {
		if q := f.adopt(p.session, tab, p.id); q != nil {
			out.NewPages = append(out.NewPages, ref(q))
		}
	}
	return out
}

func (f *Fleet) serveClosePage(ctx context.Context, _ *browserhost.Call, p *page) (*browserhost.Result, error) {
	if err := p.tab.Close(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.buryPageLocked(p, goneClosed)
	f.mu.Unlock()
	return &browserhost.Result{Value: Acted{ExecutionState: browserhost.Completed, PageID: p.id}}, nil
}

// serveCloseBrowser ends the device's session, and the browser itself when
// nobody else has a session in it.
func (f *Fleet) serveCloseBrowser(ctx context.Context, _ *browserhost.Call, s *session) (*browserhost.Result, error) {
	place := f.slot(s.device, s.slot)
	if err := place.take(ctx); err != nil {
		return nil, notStarted(err)
	}
	defer place.give()
	if _, err := f.close(ctx, s, goneClosed); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	swept, err := s.run.of.end(ctx, ending{only: s.run, why: s.run.unused})
	if err != nil {
		return nil, err
	}
	return &browserhost.Result{Value: Closed{ExecutionState: browserhost.Completed, BrowserID: s.id, Swept: swept}}, nil
}

// fence keeps the URLs that an agent gives to a signed-in session within the
// granted sites; a refusal says how to ask for more and files nothing (K15).
func (f *Fleet) fence(s *session, raw string) error {
	if !s.slot.signedIn || raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return browserhost.CheckURL(raw)
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if covered(f.sites(s), []string{host}) {
		return nil
	}
	return browserhost.Errorf(browserhost.CodeConsentRequired, "this session holds no sign-in of %s; open it in an anonymous browser or ask the owner", host).
		With("domain", host).With("next", map[string]any{"tool": "request_access", "arguments": map[string]any{"domains": []string{host}}}).
		State(browserhost.NotStarted)
}

// endedUnder is the answer of an act whose session ended while it ran.
func (f *Fleet) endedUnder(s *session) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	why, ok := f.devices[s.device].gone.reason(s.id)
	if !ok {
		why = goneContext
	}
	return browserhost.Errorf(browserhost.CodeTargetGone, "the browser went while the page was opened").With("reason", why).State(browserhost.Completed)
}

func display(headed bool) string {
	if headed {
		return "headed"
	}
	return "headless"
}
