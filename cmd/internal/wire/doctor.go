package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"browserhost/host/operator"
	"browserhost/host/settings"
)

// Check is one line of `browserhost doctor`.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Next   string `json:"next,omitzero"` // what to do about it
}

// Doctor looks at what a host needs here. It starts nothing, opens no browser
// profile, and works with and without a running host.
func Doctor(ctx context.Context, opts Options) []Check {
	if opts.Seam == nil {
		opts.Seam = &Seam{}
	}
	checks := []Check{checkHome(opts)}
	running, status := checkHost(ctx, opts)
	checks = append(checks, running, checkPort(opts, status), checkBrowser(ctx, opts), checkKeychain(ctx, opts), checkLedger(ctx, opts))
	return checks
}

func checkHome(opts Options) Check {
	c := Check{Name: "state directory", OK: true, Detail: opts.Home}
	info, err := os.Stat(opts.Home)
	switch {
	case errors.Is(err, os.ErrNotExist):
		c.Detail += " (made at the first start)"
	case err != nil:
		c.OK, c.Detail, c.Next = false, err.Error(), "make it readable, or set BROWSERHOST_HOME"
	case !settings.Private(info):
		c.OK, c.Detail, c.Next = false, opts.Home+" is open to others", "chmod 700 "+opts.Home
	}
	return c
}

func checkHost(ctx context.Context, opts Options) (Check, *operator.Status) {
	c := Check{Name: "host", Detail: "not running", Next: "browserhost serve"}
	client, err := operator.Dial(ctx, operator.Path(opts.Home))
	if err != nil {
		return c, nil
	}
	defer client.Close()
	st, err := client.Status(ctx)
	if err != nil {
		c.Detail, c.Next = "does not answer: "+err.Error(), "browserhost stop, then browserhost serve"
		return c, nil
	}
	return Check{Name: "host", OK: true, Detail: "running at http://" + st.Listen}, &st
}

func checkPort(opts Options, st *operator.Status) Check {
	at := opts.Settings.Listen
	c := Check{Name: "port", OK: true, Detail: at.String() + " is free"}
	if st != nil {
		c.Detail = st.Listen + " is ours"
		return c
	}
	l, err := listen(at)
	if err != nil {
		c.OK, c.Detail, c.Next = false, err.Error(), "stop that program, or choose another port: --listen 127.0.0.1:PORT"
		return c
	}
	l.Close()
	return c
}

func checkBrowser(ctx context.Context, opts Options) Check {
	found := newChrome(opts).Discover(ctx)
	if !found.Runnable {
		return Check{Name: "browser", Detail: found.Why, Next: "apt-get install chromium chromium-headless-shell, or set chrome.executablePath"}
	}
	c := Check{Name: "browser", OK: true, Detail: found.Version + " at " + found.Path}
	switch {
	case withoutSandbox(opts):
		c.Detail += "; its sandbox is switched off (chrome.sandbox)"
	case os.Geteuid() == 0:
		c.OK, c.Detail = false, c.Detail+": as root Chromium runs only without its sandbox"
		c.Next = "run the host as a normal user (best), or set chrome.sandbox: off"
	}
	return c
}

func checkKeychain(ctx context.Context, opts Options) Check {
	c := Check{Name: "keychain", OK: true, Detail: "unlocked"}
	if opts.Settings.Store == "memory" {
		c.Detail = "store: memory; sign-ins are forgotten when the host stops"
		return c
	}
	if ok, why := openVault(opts.Settings.Store, "").State(ctx); !ok {
		c.OK, c.Detail = false, why
		c.Next = "unlock the keyring of your session (gnome-keyring, KWallet), or choose store: memory"
	}
	return c
}

func checkLedger(ctx context.Context, opts Options) Check {
	c := Check{Name: "ledger", OK: true, Detail: "no record yet"}
	path := LedgerPath(opts.Home)
	if _, err := os.Stat(filepath.Clean(path)); errors.Is(err, os.ErrNotExist) {
		return c
	}
	v, err := VerifyLedger(ctx, opts, path)
	switch {
	case err != nil:
		c.OK, c.Detail = false, err.Error()
	case !v.OK:
		c.OK, c.Detail, c.Next = false, v.Problem, "browserhost ledger verify"
	default:
		c.Detail = "verified: " + fmt.Sprintf("%d records", v.Records)
	}
	return c
}
