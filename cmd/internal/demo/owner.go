package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"browserhost"
	"browserhost/cmd/internal/fixsite"
	"browserhost/providers/cdp"
	"browserhost/providers/proc"
)

func asRoot() bool { return os.Geteuid() == 0 }

// signIn plays the owner: a real Chromium on a profile of its own, in which
// the form is filled in and sent. It is closed in an orderly way, so that the
// session cookie is on the disk as it would be on any desktop.
func (s *story) signIn(ctx context.Context) (string, error) {
	s.owner = filepath.Join(s.dir, "owner")
	browser, stop, err := s.startOwnersBrowser(ctx)
	if err != nil {
		return "", err
	}
	defer stop()
	if err := s.fillForm(ctx, browser); err != nil {
		return "", err
	}
	if err := browser.Shutdown(ctx); err != nil {
		return "", fmt.Errorf("the owner's browser did not close: %w", err)
	}
	for _, name := range []string{"Default/Cookies", "Default/Network/Cookies"} {
		if info, err := os.Stat(filepath.Join(s.owner, name)); err == nil && info.Size() > 0 {
			told := "signed in as Ada by filling in the form"
			if asRoot() {
				told += "; as root, Chromium runs without its sandbox"
			}
			return told, nil
		}
	}
	return "", errors.New("the owner's profile holds no cookies")
}

// startOwnersBrowser starts Chromium as the owner has it: with a profile, and
// without the person's keyring (--password-store=basic).
func (s *story) startOwnersBrowser(ctx context.Context) (*cdp.Browser, func(), error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, nil, errors.New("no chromium is installed; `make demo` installs it")
	}
	argv := []string{
		"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + s.owner, "--password-store=basic",
		"--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--host-resolver-rules=" + s.site.ResolverRules(), "--ignore-certificate-errors-spki-list=" + s.site.SPKI(),
	}
	if asRoot() {
		argv = append(argv, "--no-sandbox")
	}
	p, err := proc.Start(ctx, proc.Spec{Path: path, Args: argv, Key: "demo-" + filepath.Base(s.dir)})
	if err != nil {
		return nil, nil, err
	}
	stop := func() { p.Stop(context.WithoutCancel(ctx), true) }
	browser, err := cdp.NewBrowser(ctx, cdp.Dial(p.Pipe()))
	if err != nil {
		stop()
		return nil, nil, err
	}
	return browser, func() { browser.Close(); stop() }, nil
}

func (s *story) fillForm(ctx context.Context, browser *cdp.Browser) error {
	own, err := browser.Default(ctx)
	if err != nil {
		return err
	}
	page, nav, err := own.NewPage(ctx, "https://"+site+"/login")
	if err != nil || nav.Failed != "" {
		return fmt.Errorf("the sign-in page did not open (%s): %w", nav.Failed, err)
	}
	form, err := page.Snapshot(ctx, browserhost.SnapshotOptions{})
	if err != nil {
		return err
	}
	for _, field := range []struct{ name, text string }{{"Name", fixsite.User}, {"Password", s.site.Password()}} {
		ref, err := refOf(form.Text, field.name)
		if err != nil {
			return err
		}
		if _, err := page.InputText(ctx, ref, browserhost.InputOptions{Text: field.text}); err != nil {
			return err
		}
	}
	button, err := refOf(form.Text, "Sign in")
	if err != nil {
		return err
	}
	if _, err := page.Click(ctx, button, browserhost.ClickOptions{}); err != nil {
		return err
	}
	after, err := page.Snapshot(ctx, browserhost.SnapshotOptions{})
	if err != nil {
		return err
	}
	if !strings.Contains(after.Text, fixsite.Greeting) {
		return errors.New("the site did not sign the owner in")
	}
	return nil
}

var refForm = regexp.MustCompile(`\bs\d+e\d+\b`)

// refOf finds the element of that name in a snapshot, as an agent would.
func refOf(snapshot, name string) (string, error) {
	for line := range strings.Lines(snapshot) {
		if strings.Contains(line, `"`+name+`"`) {
			if ref := refForm.FindString(line); ref != "" {
				return ref, nil
			}
		}
	}
	return "", fmt.Errorf("the page shows no control %q", name)
}
