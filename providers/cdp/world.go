package cdp

import (
	"context"
	"encoding/json/jsontext"
	"time"
)

// walkerWorld is the name of the isolated world in which the walker lives. A
// page has no way to name it.
const walkerWorld = "browserhost"

// world is the isolated world of one page's main frame document. The walker
// sees the browser only through it.
type world interface {
	// eval runs an expression in the isolated world, at most for limit, and
	// returns its value as JSON; a promise is awaited. It fails with
	// CodeDialogOpen while a dialog holds the page, with CodeTargetGone when
	// the page is gone, with CodeTimeout when the limit passed and with
	// [errDocumentGone] when the document went away meanwhile.
	eval(ctx context.Context, expression string, limit time.Duration) (jsontext.Value, error)
	// document identifies the current document: the loader id of the main frame.
	document() string
}
