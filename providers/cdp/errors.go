package cdp

import (
	"context"
	"errors"
	"fmt"

	"browserhost"
)

var (
	// errDocumentGone reports that the document an expression ran in was
	// replaced meanwhile. An agent sees it as CodeStaleElement.
	errDocumentGone = errors.New("cdp: the document was replaced")
	// errLost reports that the connection to the browser ended.
	errLost = errors.New("cdp: the browser is not connected")
	// errOversize reports that an answer was larger than MaxCDPMessage.
	errOversize = errors.New("cdp: the answer is too large")
	// errBacklog reports that the browser reads no commands any more.
	errBacklog = errors.New("cdp: the browser reads too slowly")
	// errPageGone reports that a page ended while something was asked of it.
	errPageGone = errors.New("cdp: the page is gone")
	// errDialog reports that a dialog holds the page.
	errDialog = errors.New("cdp: a dialog is open")
)

// protocolError is what the browser answered instead of a result. Its text is
// for the log.
type protocolError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *protocolError) Error() string { return fmt.Sprintf("cdp: %s (%d)", e.Message, e.Code) }

// shown turns an inner error into one that an agent may see; state is how far
// the effect got, "" when there is none. No text of the protocol passes (S3.19).
func shown(err error, state browserhost.Execution) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*browserhost.Error](err)
	if !ok {
		e = translate(err)
	}
	if e.Execution == "" {
		e.State(state)
	}
	return e
}

func translate(err error) *browserhost.Error {
	_, refused := errors.AsType[*protocolError](err)
	switch {
	case errors.Is(err, errLost):
		return browserhost.Hide(browserhost.CodeTargetGone, err, "the browser is gone").With("reason", goneLost)
	case errors.Is(err, errPageGone):
		return browserhost.Hide(browserhost.CodeTargetGone, err, "the page is gone")
	case errors.Is(err, errDocumentGone):
		return browserhost.Hide(browserhost.CodeStaleElement, err, "the page was replaced meanwhile; take a new snapshot").With("reason", "document_replaced")
	case errors.Is(err, errOversize):
		return browserhost.Hide(browserhost.CodeUpstream, err, "the browser's answer is too large")
	case errors.Is(err, errBacklog):
		return browserhost.Hide(browserhost.CodeBusy, err, "the browser is busy")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return browserhost.Hide(browserhost.CodeTimeout, err, "the browser did not answer in time")
	case refused:
		return browserhost.Hide(browserhost.CodeUpstream, err, "the browser refused")
	}
	return browserhost.Hide(browserhost.CodeInternal, err, "the host failed; its log has the reason")
}

// goneError says that a page or a context is gone, and why.
func goneError(why string) *browserhost.Error {
	if why == "" {
		why = goneClosed
	}
	return browserhost.Errorf(browserhost.CodeTargetGone, "the page is gone").With("reason", why)
}
