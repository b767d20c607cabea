package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"browserhost/cmd/internal/fixsite"
	"browserhost/cmd/internal/wire"
	"browserhost/host/egress"
	"browserhost/host/operator"
	"browserhost/host/settings"
)

// step is one scene. do returns what was seen.
type step struct {
	name, title string
	do          func(*story, context.Context) (string, error)
}

var steps = []step{
	{"site", "A site with a sign-in, a private page and a cart", (*story).openSite},
	{"owner", "The owner's own Chromium signs in to it and is closed", (*story).signIn},
	{"host", "A host starts, and two agents are paired", (*story).startHost},
	{"signed-out", "Agent A opens the private page, is signed out, and asks", (*story).askForAccess},
	{"consent", "The owner looks, and allows", (*story).allow},
	{"signed-in", "Agent A opens the page signed in, and fills the cart", (*story).useGrant},
	{"isolation", "Agent B has no part in it, nor has A's anonymous page", (*story).isolate},
	{"revoke", "The owner takes it back", (*story).revoke},
	{"record", "The ledger holds, and the cookie is nowhere", (*story).verify},
}

func (s *story) openSite(context.Context) (string, error) {
	var err error
	if s.site, err = fixsite.Start(); err != nil {
		return "", err
	}
	s.atEnd(func(context.Context) error { return s.site.Close() })
	return "https://" + site + " answers on loopback, with a key that only this demo trusts", nil
}

func (s *story) startHost(ctx context.Context) (string, error) {
	store, told := "memory", "store: memory, since no gnome-keyring is installed"
	if os.Getenv(onBus) != "" {
		if err := startKeyring(ctx); err != nil {
			return "", err
		}
		store, told = "keychain", "a keyring on a private bus"
	}
	conf, err := settings.Load(s.home(), map[string]string{
		"listen": "127.0.0.1:0", "store": store, "chrome.dataDir": filepath.Join(s.dir, "browser"),
	}, func(name string) string {
		if name == "HOME" {
			return s.dir
		}
		return ""
	})
	if err != nil {
		return "", err
	}
	resolve, connect := s.site.Network(nil, nil)
	s.asked = make(chan operator.Request, 4)
	s.app, err = wire.Start(ctx, wire.Options{
		Home: s.home(), Settings: conf, Version: s.version, Log: s.log,
		Asked: func(r operator.Request) {
			if r.Status == "pending" {
				s.asked <- r
			}
		},
		Seam: &wire.Seam{
			Network:   egress.Network{Resolve: resolve, Connect: connect},
			TrustSPKI: []string{s.site.SPKI()},
			Profiles:  []string{s.owner},
			NoSandbox: asRoot(),
		},
	})
	if err != nil {
		return "", err
	}
	s.atEnd(s.stopHost)
	s.desk = s.app.Desk()
	if s.deviceA, s.a, err = s.pair(ctx, "agent A"); err != nil {
		return "", err
	}
	if _, s.b, err = s.pair(ctx, "agent B"); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %s, two devices with bearers of their own", s.app.URL(), told), nil
}

// stopHost ends the host; nothing of it may be alive afterwards.
func (s *story) stopHost(ctx context.Context) error {
	swept, err := s.app.Close(ctx)
	if err == nil && swept > 0 {
		err = fmt.Errorf("%d browser processes had to be swept up", swept)
	}
	return err
}

func (s *story) pair(ctx context.Context, name string) (operator.Paired, *agent, error) {
	p, err := s.desk.Pair(ctx, operator.PairSpec{Name: name})
	if err != nil {
		return p, nil, err
	}
	a, err := connect(ctx, name, s.app.URL()+"/mcp", p.Bearer)
	if err != nil {
		return p, nil, err
	}
	a.remember = s.remember
	s.atEnd(func(context.Context) error { a.close(); return nil })
	return p, a, nil
}

func (s *story) askForAccess(ctx context.Context) (string, error) {
	page, err := s.a.open(ctx, private, nil)
	if err != nil {
		return "", err
	}
	s.anonymousA = page
	if err := s.a.sees(ctx, page, "This page is private"); err != nil {
		return "", err
	}
	s.answered = make(chan asked, 1)
	go func() {
		got, err := s.a.call(ctx, "request_access", args{"domains": []string{site}, "reason": "to put one thing into the cart"})
		s.answered <- asked{got, err}
	}()
	select {
	case r := <-s.asked:
		return fmt.Sprintf("the page is private; request %s for %s waits for the owner", r.Code, strings.Join(r.Domains, ", ")), nil
	case early := <-s.answered:
		return "", fmt.Errorf("request_access ended before anybody decided: %+v, %w", early.answer, early.err)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (s *story) allow(ctx context.Context) (string, error) {
	sources, err := s.desk.Sources(ctx)
	if err != nil || len(sources) != 1 {
		return "", fmt.Errorf("want one browser profile of the owner, got %v: %w", sources, err)
	}
	found, err := s.desk.Scan(ctx, sources[0].Ref, []string{site})
	if err != nil || len(found) != 1 || found[0].Cookies == 0 {
		return "", fmt.Errorf("the profile should hold cookies of %s: %v: %w", site, found, err)
	}
	waiting, err := s.desk.Requests(ctx)
	if err != nil || len(waiting) != 1 {
		return "", fmt.Errorf("want one request, got %v: %w", waiting, err)
	}
	if s.grant, err = s.desk.Allow(ctx, operator.AllowSpec{RequestID: waiting[0].ID}); err != nil {
		return "", err
	}
	select {
	case told := <-s.answered:
		if told.err != nil || told.answer.Status != "allowed" {
			return "", fmt.Errorf("the agent was told %q: %w", told.answer.Status, told.err)
		}
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if s.grant.Imported != found[0].Cookies {
		return "", fmt.Errorf("%d cookies counted, %d sealed, others by reason: %v", found[0].Cookies, s.grant.Imported, s.grant.NotRead)
	}
	sealed, err := s.sealed()
	if err != nil || len(sealed) != 1 {
		return "", fmt.Errorf("want one sealed file, got %v: %w", sealed, err)
	}
	book, err := s.desk.Ledger(ctx)
	if err != nil || !book.OK || book.Records != 1 {
		return "", fmt.Errorf("the ledger should hold the grant: %+v: %w", book, err)
	}
	return fmt.Sprintf("%s holds %d cookies for %s, counted without reading one; allowed: written to the ledger, then read, then sealed", sources[0].Ref, found[0].Cookies, site), nil
}

func (s *story) sealed() ([]string, error) {
	return filepath.Glob(filepath.Join(s.home(), "jar", "*.age"))
}

func (s *story) useGrant(ctx context.Context) (string, error) {
	page, err := s.a.open(ctx, private, args{"signed_in": true})
	if err != nil {
		return "", err
	}
	s.signedInA = page
	if err := s.a.sees(ctx, page, fixsite.Greeting); err != nil {
		return "", err
	}
	done, err := s.a.press(ctx, page, "Add to cart")
	if err != nil {
		return "", err
	}
	if done.ExecutionState != "completed" || s.site.Cart() != 1 {
		return "", fmt.Errorf("the click is %q and the site counts %d", done.ExecutionState, s.site.Cart())
	}
	shot, err := s.a.observe(ctx, "screenshot", args{"page_id": page})
	if err != nil {
		return "", err
	}
	if len(shot.picture) == 0 {
		return "", errors.New("the screenshot has no picture")
	}
	return fmt.Sprintf("%q; the click is completed, the site counts 1; a picture of %d bytes", fixsite.Greeting, len(shot.picture)), nil
}

func (s *story) isolate(ctx context.Context) (string, error) {
	_, err := s.b.open(ctx, private, args{"signed_in": true})
	if err := wantCode(err, "browser:consent_required"); err != nil {
		return "", fmt.Errorf("agent B, signed in: %w", err)
	}
	page, err := s.b.open(ctx, private, nil)
	if err != nil {
		return "", err
	}
	if err := s.b.sees(ctx, page, "This page is private"); err != nil {
		return "", fmt.Errorf("agent B, anonymous: %w", err)
	}
	if _, err := s.a.act(ctx, "navigate", args{"page_id": s.anonymousA, "url": private}); err != nil {
		return "", err
	}
	if err := s.a.sees(ctx, s.anonymousA, "This page is private"); err != nil {
		return "", fmt.Errorf("agent A, anonymous: %w", err)
	}
	return "B: browser:consent_required; both anonymous pages are signed out", nil
}

func (s *story) revoke(ctx context.Context) (string, error) {
	out, err := s.desk.Revoke(ctx, s.grant.Grant.ID)
	if err != nil {
		return "", err
	}
	_, err = s.a.observe(ctx, "snapshot", args{"page_id": s.signedInA})
	if err := wantCode(err, "browser:target_gone"); err != nil {
		return "", fmt.Errorf("the page that was signed in: %w", err)
	}
	_, err = s.a.open(ctx, private, args{"signed_in": true})
	if err := wantCode(err, "browser:consent_required"); err != nil {
		return "", fmt.Errorf("signed in once more: %w", err)
	}
	page, err := s.a.open(ctx, private, nil)
	if err != nil {
		return "", err
	}
	if err := s.a.sees(ctx, page, "This page is private"); err != nil {
		return "", err
	}
	if sealed, err := s.sealed(); err != nil || len(sealed) != 0 {
		return "", fmt.Errorf("sealed sign-ins are left: %v: %w", sealed, err)
	}
	if out.Local != "deleted" {
		return "", fmt.Errorf("the revoke says %q of what was kept here", out.Local)
	}
	return fmt.Sprintf("%d page closed, A is told browser:target_gone and is signed out again, the sealed file is gone", out.Pages), nil
}

// wantCode says what is wrong unless err is the refusal with that code.
func wantCode(err error, code string) error {
	r, ok := errors.AsType[*refusal](err)
	switch {
	case err == nil:
		return fmt.Errorf("was not refused; %s expected", code)
	case !ok:
		return err
	case r.Code != code:
		return fmt.Errorf("refused with %s; %s expected", r.Code, code)
	}
	return nil
}
