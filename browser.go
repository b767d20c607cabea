package browserhost

import (
	"context"
	"time"
)

// State is one of the seven states of an instance (AIP-63 L1).
type State string

// The seven states.
const (
	Absent       State = "absent"
	Starting     State = "starting"
	Healthy      State = "healthy"
	Degraded     State = "degraded"
	Stopping     State = "stopping"
	Stopped      State = "stopped"
	CrashLooping State = "crash-looping"
)

// transitions is AIP-63's table. A crash of a running browser walks
// healthy → degraded → stopping → stopped, so that only these edges occur.
var transitions = map[State][]State{
	Absent:       {Starting},
	Starting:     {Healthy, Stopped, CrashLooping},
	Healthy:      {Degraded, Stopping},
	Degraded:     {Healthy, Stopping},
	Stopping:     {Stopped},
	Stopped:      {Starting},
	CrashLooping: {Starting}, // the operator's reset only (AIP-63 L7)
}

// CanBecome reports whether the table has the edge from s to next.
func (s State) CanBecome(next State) bool {
	for _, t := range transitions[s] {
		if t == next {
			return true
		}
	}
	return false
}

// Manifest is what a provider declares about itself (DRIVER.md, AIP-63 over AIP-30).
type Manifest struct {
	ID           string       `json:"id"`
	Name         string       `json:"name"`
	Version      string       `json:"version"`
	Kind         string       `json:"kind"`     // AIP-30 kind
	Location     string       `json:"location"` // "local" or "remote"
	Display      []string     `json:"display"`
	Instances    string       `json:"instances"` // "single" or "multi"
	Capabilities Capabilities `json:"capabilities"`
}

// Capabilities are AIP-63's eleven names; an absent one is false.
type Capabilities struct {
	CDP                bool   `json:"cdp"`
	Downloads          bool   `json:"downloads"`
	Recording          string `json:"recording"` // "none", "screencast" or "video"
	Stealth            bool   `json:"stealth"`
	FullPageScreenshot bool   `json:"fullPageScreenshot"`
	TrustedInput       bool   `json:"trustedInput"`
	MultiTarget        bool   `json:"multiTarget"`
	AIActions          bool   `json:"aiActions"`
	Cookies            bool   `json:"cookies"`
	StorageState       bool   `json:"storageState"`
	PersistentProfile  bool   `json:"persistentProfile"`
}

// Discovery says whether a provider has a browser to run here. Path is for the
// owner's desk only (S3.15).
type Discovery struct {
	Runnable bool
	Version  string // e.g. "Chromium 156.0.8078.114"
	Why      string // when not runnable: the fact, without a path
	Path     string `json:"-"`
}

// Provider is one kind of browser. It is safe for concurrent use.
type Provider interface {
	Manifest() Manifest
	// Discover looks for a runnable browser; it starts nothing.
	Discover(ctx context.Context) Discovery
	// Launch starts one browser process and returns when it answers. The
	// supervisor in host/fleet calls it once per instance key at a time. On an
	// error no process is left.
	Launch(ctx context.Context, opts LaunchOptions) (Instance, error)
}

// LaunchOptions are the supervisor's, never an agent's (S3.6).
type LaunchOptions struct {
	Key    string // instance key, unique in the host: marks the process for the sweep
	Headed bool
	Proxy  string // process-wide proxy, "http://127.0.0.1:PORT": a listener that refuses everything (K10)
}

// Health is a cheap answer about an instance; asking it changes nothing (AIP-63 L4).
type Health struct {
	State     State     `json:"state"`
	Reason    string    `json:"reason,omitempty"`
	CheckedAt time.Time `json:"checkedAt"`
	BootID    string    `json:"bootId,omitempty"`
}

// Instance is one running browser.
type Instance interface {
	// BootID differs for every start of the process (AIP-63 L12).
	BootID() string
	// Health answers within the context's deadline and opens nothing.
	Health(ctx context.Context) Health
	// Attach opens one isolated context (AIP-63 L3).
	Attach(ctx context.Context, opts AttachOptions) (Driver, error)
	// Stop ends the browser: politely, then by force, then by sweep (AIP-63
	// L5). It returns how many marked processes the sweep ended. Calling it
	// again returns 0.
	Stop(ctx context.Context, force bool) (swept int, err error)
	// Lost is closed when the browser is gone, wanted or not. Then LostReason
	// gives the wait status and the last lines of stderr, redacted.
	Lost() <-chan struct{}
	LostReason() error
}

// AttachOptions make one context. The host fills them; no part comes from an agent.
type AttachOptions struct {
	Proxy   string   // this context's own egress listener; required
	Domains []string // a signed-in context: the granted sites, outside of which agent-given URLs are refused; nil = anonymous
}

// Driver is one isolated context: a cookie and storage jar with its pages. It
// is safe for concurrent use. Once it is closed or its browser is lost, every
// method fails with CodeTargetGone.
type Driver interface {
	// NewPage opens a page in a window of its own. url is "" or an absolute
	// http or https URL that the caller has checked; the page is returned even
	// when loading the URL failed (see Navigation).
	NewPage(ctx context.Context, url string) (Page, Navigation, error)
	// Pages lists what is open, pop-ups of the pages included, oldest first.
	Pages() []Page
	// Close closes every page and disposes of the context.
	Close(ctx context.Context) error
}

// CookieJar is the ability of a [Driver] to be lent cookies. Each cookie is
// set by itself and read back, because a browser may drop one silently.
type CookieJar interface {
	SetCookies(ctx context.Context, cookies []Cookie) (Counts, error)
	// CookiesLeft counts the cookies that the context holds for the domains;
	// values are not looked at.
	CookiesLeft(ctx context.Context, domains []string) (int, error)
}

// Page is one tab. Element refs look like s1e3: generation 1, element 3. Every
// error of an effect carries an [Execution].
type Page interface {
	// Info is what the page is now; it asks the browser for nothing.
	Info() PageInfo
	Navigate(ctx context.Context, url, wait string) (Navigation, error)
	// Snapshot walks the page. A new full snapshot retires the refs of the one before.
	Snapshot(ctx context.Context, opts SnapshotOptions) (Snapshot, error)
	// Click re-observes the element, then presses it once (S3.26).
	Click(ctx context.Context, ref string, opts ClickOptions) (Effect, error)
	// InputText replaces or extends the element's text and reads the value
	// back; a password is read back as "filled" or "empty".
	InputText(ctx context.Context, ref string, opts InputOptions) (Effect, error)
	Screenshot(ctx context.Context, opts ScreenshotOptions) (Image, error)
	Close(ctx context.Context) error
	// Gone is closed when the page is closed, crashed or lost; GoneReason then
	// says which: "closed", "crashed", "browser_lost" or "context_closed".
	Gone() <-chan struct{}
	GoneReason() string
}

// PageInfo is what a page shows in its tab.
type PageInfo struct {
	URL   string // cut at MaxURL
	Title string // cut at MaxTitle
}

// Navigation is how far a document got.
type Navigation struct {
	URL    string  // the final URL
	Status int     // of the main document; 0 when there was no response
	Failed string  // the browser's net error, e.g. "net::ERR_NAME_NOT_RESOLVED"; then the effect is completed all the same (contract F)
	Loaded bool    // whether what the caller waited for was reached in time
	Dialog *Dialog // a dialog that opened meanwhile; the page waits for its answer
}

// Effect is what could be measured after an act.
type Effect struct {
	Value    string // input_text: the value read back
	Settle   Settle
	Dialog   *Dialog // a dialog that the act opened
	NewPages []Page  // pages that the act opened
}

// Settle says how the page came to rest after an act.
type Settle struct {
	Stable   bool   `json:"stable"`
	WaitedMS int64  `json:"waited_ms"`
	Reason   string `json:"reason"` // "quiet", "navigated", "dialog" or "time"
}

// Dialog is a page's own dialog. It is never answered by the host.
type Dialog struct {
	Type    string `json:"type"` // alert, confirm, prompt, beforeunload
	Message string `json:"message"`
}

// SnapshotOptions bound a snapshot. Zero means the default.
type SnapshotOptions struct {
	MaxChars int // 1..MaxSnapshotChars
	Offset   int // characters to skip, from an earlier answer's next_offset
}

// Snapshot is a page as text: one line per node, with role, name, value, state
// and, where the node can be acted on, its ref.
type Snapshot struct {
	Generation string // "s1"
	Text       string
	NextOffset int // 0 when nothing is left
	LeftOut    int // nodes that the bound left out
	Elements   int // nodes with a ref
}

// ClickOptions refine a click. Zero means one press of the left button.
type ClickOptions struct {
	Button    string   // left, right, middle
	Count     int      // 1..3
	Modifiers []string // Alt, Control, Meta, Shift
}

// InputOptions say what to type. Text is at most MaxInputText bytes.
type InputOptions struct {
	Text   string
	Append bool
	Submit bool // press Enter afterwards
}

// ScreenshotOptions choose the picture. The answer is always within
// MaxImageBytes and MaxImageSide.
type ScreenshotOptions struct {
	Format   string // "png" (default) or "jpeg"
	FullPage bool
}

// Egress opens the guarded ways out of the host (S2.30). host/egress
// implements it, host/fleet asks.
type Egress interface {
	Open(rules EgressRules) (EgressPort, error)
}

// EgressRules are those of one listener.
type EgressRules struct {
	Device  DeviceID // for the log
	Label   string   // for the log: "anonymous", "signed-in", "process"
	Nothing bool     // refuse every destination: the process-wide proxy
}

// EgressPort is one loopback listener; its port is its identity, without a password (K10).
type EgressPort interface {
	URL() string // "http://127.0.0.1:PORT"
	Close() error
}
