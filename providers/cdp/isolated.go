package cdp

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"browserhost"

	pagecmd "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

var _ world = (*page)(nil)

// document identifies the current document: the loader id of the main frame.
func (p *page) document() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.doc.loader)
}

// eval runs an expression in the walker's world; see [world].
func (p *page) eval(ctx context.Context, expression string, limit time.Duration) (jsontext.Value, error) {
	// The page's own thread is stopped at the limit; the answer gets a little longer.
	ctx, cancel := context.WithTimeout(ctx, limit+limit/4)
	defer cancel()
	v, err := p.evaluate(ctx, expression, limit)
	switch {
	case err == nil || errors.Is(err, errDocumentGone):
		return v, err
	case says(err, replaced):
		return nil, errors.Join(errDocumentGone, err)
	case says(err, terminated):
		err = errors.Join(context.DeadlineExceeded, err)
	}
	return nil, p.shown(err, "")
}

func (p *page) evaluate(ctx context.Context, expression string, limit time.Duration) (jsontext.Value, error) {
	id, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	v, err := p.ask(ctx, cmd(runtime.Evaluate, runtime.EvaluateParams{
		Expression:      expression,
		UniqueContextID: id,
		ReturnByValue:   new(true),
		AwaitPromise:    new(true),
		Silent:          new(true),
		Timeout:         runtime.TimeDelta(limit.Milliseconds()),
	}))
	if err != nil {
		if says(err, replaced) {
			p.worldGone(id)
		}
		return nil, err
	}
	return value(v)
}

// enter gives the id of the walker's world in the current document, which it
// makes at the first use.
func (p *page) enter(ctx context.Context) (string, error) {
	p.mu.Lock()
	id, frame := p.worldID, p.frame
	p.mu.Unlock()
	if id != "" {
		return id, nil
	}
	if _, err := p.ask(ctx, cmd(pagecmd.CreateIsolatedWorld, pagecmd.CreateIsolatedWorldParams{FrameID: frame, WorldName: walkerWorld})); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.worldID == "" { // it was told of before the answer, and has gone already
		return "", errDocumentGone
	}
	return p.worldID, nil
}

// value takes the value out of the result of Runtime.evaluate, raw (K39).
func value(v jsontext.Value) (jsontext.Value, error) {
	r, err := decode[struct {
		Result struct {
			Value jsontext.Value `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}](runtime.CommandEvaluate, v)
	if err != nil {
		return nil, err
	}
	if e := r.Exception; e != nil {
		return nil, fmt.Errorf("cdp: the walker failed: %s %s", e.Text, clipBytes(e.Exception.Description, browserhost.MaxNodeText))
	}
	return r.Result.Value, nil
}

// What Chromium says when the document of an evaluation went away, and when an
// evaluation took too long. It has no codes for that.
var (
	replaced = []string{
		"Cannot find context", "uniqueContextId not found", "context was destroyed", "navigated or closed",
		"Promise was collected", "No frame for given id", "Could not create isolated world",
	}
	terminated = []string{"Execution was terminated"}
)

// says reports whether err is an answer of the browser with one of the texts.
func says(err error, texts []string) bool {
	e, ok := errors.AsType[*protocolError](err)
	return ok && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(e.Message, text) })
}
