package wire

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"browserhost"
	"browserhost/consent/browserdb"
	"browserhost/consent/chain"
	"browserhost/consent/extract"
	"browserhost/consent/jar"
	"browserhost/consent/keychain"
	"browserhost/consent/ledger"
	"browserhost/consent/narrow"
	"browserhost/consent/requests"
	"browserhost/consent/widen"
	"browserhost/host"
	"browserhost/host/activity"
	"browserhost/host/egress"
	"browserhost/host/fleet"
	"browserhost/host/operator"
	"browserhost/host/settings"
	"browserhost/pairing/devices"
	"browserhost/providers/chrome"
	"browserhost/providers/proc"
)

// The files of a state directory, beside those of consent/jar and of settings.
const (
	consentFile  = "consent.jsonl"
	activityFile = "activity.jsonl"
	devicesFile  = "pairings.json"
)

// Options say where a host lives and what the owner decided.
type Options struct {
	Home     string // the state directory; made when it is missing
	Settings settings.Settings
	Version  string
	Log      *slog.Logger // nil logs nothing
	Seam     *Seam        // nil in the product

	// Asked is told of every request of a device and of each change of one; it
	// must return soon. Nil tells nobody.
	Asked func(operator.Request)
}

// Seam is where a test or the demo puts a world of its own under the host. No
// setting, flag or variable reaches it. The checks between its halves, such as
// which addresses are private, stay in force (design: the network's test seam
// is two halves around a check that is never replaced).
type Seam struct {
	Network   egress.Network // how names are looked up and addresses dialled; a nil half is the real one
	TrustSPKI []string       // keys of test sites, as Chromium's flag takes them
	Profiles  []string       // user data directories in place of the person's own
	NoSandbox bool           // Chromium as root
}

// App is one running host.
type App struct {
	home    string
	id      string // see hostID
	opts    Options
	log     *slog.Logger
	started time.Time

	lock     io.Closer
	vault    *keychain.Vault
	consent  *chain.File
	rows     *chain.File // of the activity record
	ledger   *ledger.Ledger
	jar      *jar.Jar
	devices  *devices.Store
	recorder *activity.Recorder
	egress   *egress.Guard
	provider browserhost.Provider
	fleet    *fleet.Fleet
	requests *requests.Queue
	lender   *narrow.Lender
	widener  *widen.Widener
	clients  *clients
	host     *host.Host
	desk     *operator.Desk
	granted  chan struct{} // a grant was made; wakes the clock of grants
	deciding sync.Mutex    // held while a request is answered, so that it is answered once
	listener net.Listener

	life  context.Context
	end   context.CancelFunc
	tasks sync.WaitGroup
	stop  sync.Once
	done  chan struct{} // closed when the host should end
	fail  error         // why it ended by itself; read after done
}

// Start brings a host up: its files, its browsers' supervisor, both doors. It
// needs neither Chromium nor a keychain; what is missing is said in Status and
// in the error of whoever needs it. Half-done revokes of an earlier run are
// finished before anything is served (S1.45).
//
// It fails with [*Running] when another host holds the state directory, and
// with [*PortTaken] when the port is not free (K1, K37); then nothing is left
// open.
func Start(ctx context.Context, opts Options) (_ *App, err error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Seam == nil {
		opts.Seam = &Seam{}
	}
	a := &App{home: opts.Home, opts: opts, log: opts.Log, started: time.Now(), granted: make(chan struct{}, 1), done: make(chan struct{})}
	a.life, a.end = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			a.Close(context.WithoutCancel(ctx))
		}
	}()
	for _, step := range []func(context.Context) error{a.openHome, a.openFiles, a.buildBrowsers, a.buildConsent, a.buildHost, a.serve} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// openHome takes the state directory for this process.
func (a *App) openHome(context.Context) error {
	if err := settings.MakeHome(a.home); err != nil {
		return err
	}
	lock, err := lockHome(a.home)
	if err != nil {
		return err
	}
	a.lock = lock
	id, err := hostID(a.home)
	if err != nil {
		return err
	}
	a.id = id
	a.vault = openVault(a.opts.Settings.Store, id)
	return nil
}

// openFiles opens the records and the lists. What cannot be read stops the
// start: to begin anew over it would lose it.
func (a *App) openFiles(ctx context.Context) error {
	open := func(name, label string) (*chain.File, error) {
		f, report, err := chain.Open(ctx, a.path(name), chain.Options{Keys: a.anchorKeys(), Label: label})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if report.Torn > 0 {
			a.log.Warn("the last line of a record was cut short; it was put aside", "file", name, "bytes", report.Torn)
		}
		return f, nil
	}
	var err error
	if a.consent, err = open(consentFile, consentLabel); err != nil {
		return err
	}
	if a.rows, err = open(activityFile, activityLabel); err != nil {
		return err
	}
	a.ledger = ledger.New(a.consent)
	a.recorder = activity.New(activity.Options{Rows: a.rows, Keys: a.vault, Log: a.log})
	if a.jar, err = jar.Open(a.home, a.vault); err != nil {
		return err
	}
	a.devices, err = devices.Open(a.path(devicesFile), devices.Options{CanMint: func(ctx context.Context) error {
		if ok, why := a.vault.State(ctx); !ok {
			return browserhost.Errorf(browserhost.CodeKeyring, "no device can be paired now: %s", why) // K7
		}
		return nil
	}})
	return err
}

// anchorKeys are the keys of the records' heads. A secret that is forgotten
// with the process could not check them at the next start, so with store:
// memory there are none.
func (a *App) anchorKeys() browserhost.Keys {
	if a.opts.Settings.Store == string(keychain.Memory) {
		return nil
	}
	return a.vault
}

func (a *App) buildBrowsers(context.Context) error {
	a.egress = egress.New(egress.Options{Network: a.opts.Seam.Network, Log: a.log})
	a.provider = newChrome(a.opts)
	a.fleet = fleet.New(fleet.Options{
		Providers: []browserhost.Provider{a.provider},
		Egress:    a.egress,
		HostID:    marker(a.home, a.id),
		Sweep:     func(ctx context.Context) (int, error) { return proc.Sweep(ctx, marker(a.home, a.id)) }, // AIP-63 L8
		Log:       a.log,
	})
	return nil
}

func newChrome(opts Options) browserhost.Provider {
	c := opts.Settings.Chrome
	return chrome.New(chrome.Config{
		ExecutablePath: c.ExecutablePath,
		HeadlessShell:  c.HeadlessShell == "auto",
		NoSandbox:      withoutSandbox(opts),
		DataDir:        c.DataDir,
		TrustSPKI:      opts.Seam.TrustSPKI,
		Log:            opts.Log,
	})
}

// withoutSandbox is the owner's word, or a test's; it is never assumed (S2.21).
func withoutSandbox(opts Options) bool {
	return !opts.Settings.Chrome.Sandbox || opts.Seam.NoSandbox
}

// buildConsent makes the two sides of a grant and ends what should have ended
// while no host ran.
func (a *App) buildConsent(ctx context.Context) error {
	a.requests = requests.New(requests.Options{Changed: func(r requests.Request) {
		if a.opts.Asked != nil {
			a.opts.Asked(a.shown(r))
		}
	}})
	a.lender = narrow.New(narrow.Options{Ledger: a.ledger, LedgerPath: a.path(consentFile), Jar: a.jar, Warm: a.fleet, Log: a.log})
	a.widener = widen.New(widen.Options{
		Ledger: a.ledger, Jar: a.jar, Keys: a.vault, Warm: a.lender, Log: a.log,
		Profiles: a.profiles, Secrets: extract.SecretService(),
	})
	a.desk = operator.NewDesk(narrowDesk{a}, widenDesk{a})
	a.devices.OnRevoke(a.unpaired)
	if err := a.lender.Resume(ctx); err != nil {
		a.log.Warn("a revoke could not be finished yet", "error", err)
	}
	return nil
}

// profiles lists the person's browser profiles, or those of the seam. Nothing
// is listed before a person asks (K3).
func (a *App) profiles() []extract.Profile {
	if dirs := a.opts.Seam.Profiles; dirs != nil {
		return browserdb.Find(browserdb.Roots{Extra: dirs})
	}
	user, _ := os.UserHomeDir()
	config, _ := os.UserConfigDir()
	return browserdb.Find(browserdb.Roots{Home: user, Config: config})
}

// unpaired ends what a removed device had, by whoever's hand it went (AIP-63 C13).
func (a *App) unpaired(id browserhost.DeviceID) {
	by := browserhost.Actor{Kind: browserhost.System, Via: "unpaired"}
	if _, err := a.lender.RevokeDevice(a.life, by, id); err != nil {
		a.log.Error("the grants of a removed device could not all be ended", "device", id, "error", err)
	}
	if _, err := a.fleet.EvictDevice(a.life, id, "device_revoked"); err != nil {
		a.log.Error("the pages of a removed device could not all be closed", "device", id, "error", err)
	}
	a.requests.WithdrawDevice(id)
	if err := a.vault.Delete(a.life, bearerItem(id)); err != nil {
		a.log.Info("the bearer of a removed device stays in the keychain, worthless", "device", id, "error", err)
	}
}
