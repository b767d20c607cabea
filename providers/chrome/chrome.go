// Package chrome is the provider of dedicated Chromium and Chrome processes. It
// finds the browser, starts it on a directory that it has just made, and takes
// both away again. Nothing of the person's own browser is read, written, dialled
// or ended.
//
// The browser speaks over a pipe, so that no debugging port exists (K16). Its
// arguments come from one table, and are held against it once more right before
// the start, as is the directory (AIP-63 L13, S4.8). No device chooses any of it.
package chrome

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"browserhost"
	"browserhost/providers/cdp"
	"browserhost/providers/proc"
)

// Config is what the owner decided. The zero value looks for a browser and
// keeps it in its sandbox; DataDir is required.
type Config struct {
	ExecutablePath string   // absolute; used as it is and for everything. "" = look for one
	HeadlessShell  bool     // without a window, prefer the headless shell where it is installed
	NoSandbox      bool     // the owner's word; never the provider's own idea (S2.21)
	DataDir        string   // absolute; the profiles live below it (S4.4)
	TrustSPKI      []string // base64 SHA-256 of the keys of test sites
	Log            *slog.Logger
}

// Provider is the provider "chrome". It implements [browserhost.Provider] and
// is safe for concurrent use.
type Provider struct {
	config Config
	root   bool // this process is the superuser

	mu       sync.Mutex
	versions map[string]version // by path
}

// New makes the provider. It looks at nothing yet.
func New(c Config) *Provider {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Provider{config: c, root: runtime.GOOS == "linux" && os.Geteuid() == 0, versions: map[string]version{}}
}

// Manifest says what this kind of browser can do.
func (p *Provider) Manifest() browserhost.Manifest {
	return browserhost.Manifest{
		ID:        "chrome",
		Name:      "Chrome",
		Version:   "1.0.0",
		Kind:      "builtin",
		Location:  "local",
		Display:   []string{"headless", "headed"},
		Instances: "multi",
		Capabilities: browserhost.Capabilities{
			CDP:                true,
			Downloads:          true,
			Recording:          "screencast",
			FullPageScreenshot: true,
			TrustedInput:       true,
			MultiTarget:        true,
			Cookies:            true,
			StorageState:       true,
			PersistentProfile:  true,
		},
	}
}

// Launch starts one browser and returns when it answers. The supervisor bounds
// it by ctx, sweeps before the first launch, and launches a key once at a time.
//
// Errors, all with nothing started or nothing left: browser:profile-refused
// when a directory or an argument is not ours; browser:not_ready when there is
// no browser, or it ended or did not answer while starting (the cause's reason
// has its last words, without paths, numbers and addresses).
func (p *Provider) Launch(ctx context.Context, opts browserhost.LaunchOptions) (_ browserhost.Instance, err error) {
	prog, err := p.choose(ctx, opts.Headed)
	if err != nil {
		return nil, err
	}
	if p.root && !p.config.NoSandbox {
		return nil, notReady(nil, "as the superuser the browser runs only without its sandbox, which the owner has not allowed")
	}
	dir, err := makeProfile(p.config.DataDir, opts.Key)
	if err != nil {
		return nil, err
	}
	i := &instance{dir: dir, log: p.config.Log, boot: newBootID(), hurry: make(chan struct{}), lost: make(chan struct{})}
	defer func() {
		if err == nil {
			return
		}
		if left := removeProfile(dir); left != nil {
			err = errors.Join(err, left)
		}
	}()
	a := arguments{
		dir: dir, proxy: opts.Proxy, spki: p.config.TrustSPKI,
		headed: opts.Headed, shell: prog.shell, noSandbox: p.config.NoSandbox,
	}
	argv := a.list()
	if err := errors.Join(checkFresh(dir), a.check(argv)); err != nil {
		return nil, err
	}
	i.process, err = proc.Start(ctx, proc.Spec{Path: prog.path, Args: argv, Env: environment(os.Environ(), dir, opts.Headed), Dir: dir, Key: opts.Key})
	if err != nil {
		return nil, notReady(err, "the browser could not be started")
	}
	began := time.Now()
	if err := i.connect(ctx); err != nil {
		return nil, i.failed(ctx, err)
	}
	i.log.Info("a browser answers", "product", i.product, "headed", opts.Headed, "after", time.Since(began).Round(time.Millisecond))
	go i.watch()
	return i, nil
}

// connect takes over the browser and asks it one question.
func (i *instance) connect(ctx context.Context) (err error) {
	if i.browser, err = cdp.NewBrowser(ctx, cdp.Dial(i.process.Pipe())); err != nil {
		return err
	}
	if i.product, err = i.browser.Version(ctx); err != nil {
		return errors.Join(err, i.browser.Close())
	}
	return nil
}

// failed ends a browser that did not come up and says why. The end of its pipe
// is heard of a little before its own.
func (i *instance) failed(ctx context.Context, err error) error {
	soon := time.NewTimer(time.Second)
	defer soon.Stop()
	byItself := true
	select {
	case <-i.process.Done():
	case <-soon.C:
		byItself = false
	case <-ctx.Done():
		byItself = false
	}
	_, stopErr := i.process.Stop(context.WithoutCancel(ctx), true)
	err = errors.Join(err, stopErr, errors.New(strings.Join(i.process.Stderr(), "\n")))
	if !byItself {
		return notReady(err, "the browser did not answer")
	}
	return notReady(err, "the browser ended while it started (%s)", i.process.Exit()).With("reason", lastWords(i.process.Stderr()))
}

// notReady is an error of a launch: nothing has happened that lasts.
func notReady(err error, format string, args ...any) *browserhost.Error {
	return browserhost.Hide(browserhost.CodeNotReady, err, fmt.Sprintf(format, args...)).State(browserhost.NotStarted)
}
