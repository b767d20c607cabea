package browserhost

import "context"

// Operation is the exact thing a call does, after the two-tool surface has
// been taken apart: browser_act {action: "click"} is OpClick before policy
// sees it. Rows, scopes and errors use this name (S3.3).
type Operation string

// The operations of the standard toolset.
const (
	OpTargets       Operation = "browser.targets"
	OpBrowsers      Operation = "browser.browsers"
	OpPages         Operation = "browser.pages"
	OpSnapshot      Operation = "browser.snapshot"
	OpScreenshot    Operation = "browser.screenshot"
	OpLaunch        Operation = "browser.launch"
	OpNewPage       Operation = "browser.new_page"
	OpNavigate      Operation = "browser.navigate"
	OpClick         Operation = "browser.click"
	OpInputText     Operation = "browser.input_text"
	OpClosePage     Operation = "browser.close_page"
	OpCloseBrowser  Operation = "browser.close_browser"
	OpRequestAccess Operation = "request_access"
	OpProfileList   Operation = "browser.profile.list"
	OpProfileRevoke Operation = "browser.profile.revoke"
)

// Call is one tool call on its way down the line. Codecs fill everything but
// Material; consent/gate alone sets Material. A Call belongs to one request
// and is not shared between goroutines.
type Call struct {
	ID        string    // opaque, unique in this host process
	Tool      string    // the name the caller used, e.g. "browser_act"
	Operation Operation // what it means
	Args      Args      // checked against the tool's fields
	Raw       []byte    // the argument object as received, for its digest and length; never stored
	Actor     Actor     // from the channel, never from an argument (C7)
	Run       string    // contract C: the run it belongs to; "" = the default run of the device
	Door      string    // "mcp" or "http"
	Material  *Material // lent by consent/gate to a call that opens a signed-in session; nil otherwise
}

// Result is what a call answers. Value is marshalled as the structured
// content of the answer; it never holds a picture.
type Result struct {
	Value any
	Image *Image
}

// Image is one picture of a page. It leaves the host only as an MCP image
// block or a REST field made by the one framing function of each codec (S3.35).
type Image struct {
	MIME          string // "image/png" or "image/jpeg"
	Width, Height int    // device pixels
	Data          []byte // at most MaxImageBytes
}

// Handler is one link of the line. It may answer, refuse with an [*Error], or
// pass the call on. It is safe for concurrent use.
type Handler interface {
	ServeTool(ctx context.Context, call *Call) (*Result, error)
}

// HandlerFunc lets a function be a link.
type HandlerFunc func(ctx context.Context, call *Call) (*Result, error)

// ServeTool calls f.
func (f HandlerFunc) ServeTool(ctx context.Context, call *Call) (*Result, error) {
	return f(ctx, call)
}

// Execution says how far an effect got (contract F). Nothing is ever repeated
// by the host.
type Execution string

// The three states of an effect. The zero value means that the operation has
// no effect to be certain about.
const (
	NotStarted     Execution = "not_started"
	Completed      Execution = "completed"
	OutcomeUnknown Execution = "outcome_unknown"
)

type actorKey struct{}

// WithActor returns a context that carries who asks. host/guard alone calls it.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorFrom returns who asks; the zero Actor, which may do nothing, when the
// request passed no guard.
func ActorFrom(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}
