package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"

	"browserhost"
)

// maxListed is how many pages one answer lists.
const maxListed = 32

// Targets answers observe targets.
type Targets struct {
	Targets []ProviderStatus `json:"targets"`
}

// Browsers answers observe browsers: the device's own.
type Browsers struct {
	Browsers []Browser `json:"browsers"`
}

// Browser is one session as its device sees it.
type Browser struct {
	BrowserID string   `json:"browser_id"`
	Provider  string   `json:"provider"`
	SignedIn  bool     `json:"signed_in"`
	Sites     []string `json:"sites,omitzero"` // of a signed-in one
	Mode      string   `json:"mode"`           // "control"
	AgeS      int64    `json:"age_s"`          // seconds since it was opened
	Pages     int      `json:"pages"`
}

// PageRef names a page and what its tab shows.
type PageRef struct {
	PageID string `json:"page_id"`
	URL    string `json:"url"`
	Title  string `json:"title"`
}

// Pages answers observe pages.
type Pages struct {
	Pages   []ListedPage `json:"pages"`
	LeftOut int          `json:"left_out,omitzero"` // beyond the limit
}

// ListedPage is one open page.
type ListedPage struct {
	PageRef
	BrowserID string `json:"browser_id"`
	Opener    string `json:"opener,omitzero"` // the page whose act opened it
}

// Snapshot answers observe snapshot.
type Snapshot struct {
	Page       PageRef `json:"page"`
	Generation string  `json:"generation"`
	Text       string  `json:"text"`
	Elements   int     `json:"elements"`
	NextOffset int     `json:"next_offset,omitzero"`
	LeftOut    int     `json:"left_out"`
}

// Screenshot answers observe screenshot with the facts of the picture; the
// picture itself is the result's Image (S3.35).
type Screenshot struct {
	Page   PageRef `json:"page"`
	MIME   string  `json:"mime"`
	Width  int     `json:"width"`
	Height int     `json:"height"`
	Bytes  int     `json:"bytes"`
	SHA256 string  `json:"sha256"`
}

// Launched answers act launch.
type Launched struct {
	ExecutionState    browserhost.Execution `json:"execution_state"`
	BrowserID         string                `json:"browser_id"`
	Provider          string                `json:"provider"`
	SignedIn          bool                  `json:"signed_in"`
	Sites             []string              `json:"sites,omitzero"`
	Cookies           *browserhost.Counts   `json:"cookies,omitzero"`    // of a session that this call opened or widened
	WasAlreadyRunning bool                  `json:"was_already_running"` // the device's own session; what others run is not told
}

// Acted answers the acts on pages.
type Acted struct {
	ExecutionState   browserhost.Execution `json:"execution_state"`
	PageID           string                `json:"page_id,omitzero"` // new_page, close_page
	Page             *PageRef              `json:"page,omitzero"`
	StatusCode       int                   `json:"status_code,omitzero"` // of the main document
	FinalURL         string                `json:"final_url,omitzero"`
	NavigationFailed string                `json:"navigation_failed,omitzero"` // the browser's net error
	Value            *string               `json:"value,omitzero"`             // input_text: read back
	Stability        *browserhost.Settle   `json:"stability,omitzero"`
	Dialog           *browserhost.Dialog   `json:"dialog,omitzero"`
	NewPages         []PageRef             `json:"new_pages,omitzero"`
}

// Closed answers act close_browser.
type Closed struct {
	ExecutionState browserhost.Execution `json:"execution_state"`
	BrowserID      string                `json:"browser_id"`
	Swept          int                   `json:"swept"` // leftover processes that were ended
}

// Recovery says what to observe before anything else when an outcome is
// unknown (S3.31, contract F).
type Recovery struct {
	Reason        string        `json:"reason"`
	SuggestedCall SuggestedCall `json:"suggested_call"`
}

// SuggestedCall is a tool call, ready to be made.
type SuggestedCall struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

func suggest(action string, call *browserhost.Call) SuggestedCall {
	args := map[string]any{"action": action}
	if action == "snapshot" {
		args["page_id"] = call.Args.PageID
	}
	if action == "pages" && call.Args.BrowserID != "" {
		args["browser_id"] = call.Args.BrowserID
	}
	return SuggestedCall{Tool: "browser_observe", Arguments: args}
}

func ref(p *page) PageRef {
	info := p.tab.Info()
	return PageRef{PageID: p.id, URL: info.URL, Title: info.Title}
}

// unsupported names the capability that a provider lacks; nothing was tried (AIP-63 T3).
func unsupported(capability string) error {
	return browserhost.Errorf(browserhost.CodeUnsupported, "this browser has no capability %s", capability).
		With("capability", capability).State(browserhost.NotStarted)
}

// has looks a capability up by its name in the manifest.
func has(c browserhost.Capabilities, name string) bool {
	return slices.Contains(names(c), name)
}

func names(c browserhost.Capabilities) []string {
	var out []string
	for _, f := range []struct {
		name string
		on   bool
	}{
		{"cdp", c.CDP}, {"downloads", c.Downloads}, {"stealth", c.Stealth}, {"fullPageScreenshot", c.FullPageScreenshot},
		{"trustedInput", c.TrustedInput}, {"multiTarget", c.MultiTarget}, {"aiActions", c.AIActions}, {"cookies", c.Cookies},
		{"storageState", c.StorageState}, {"persistentProfile", c.PersistentProfile},
	} {
		if f.on {
			out = append(out, f.name)
		}
	}
	return out
}

// typed copies err as an error of ours. What a context ended is a time-out.
func typed(err error) *browserhost.Error {
	if own, ok := errors.AsType[*browserhost.Error](err); ok {
		e := *own
		e.Cause = maps.Clone(own.Cause)
		return &e
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return browserhost.Hide(browserhost.CodeTimeout, err, "the browser did not answer in time")
	}
	return browserhost.AsError(err)
}

// notStarted marks an error of something that was undone before it answered.
func notStarted(err error) error {
	e := typed(err)
	if e.Execution == "" {
		e.State(browserhost.NotStarted)
	}
	return e
}
