package cdp

import (
	"context"
	"errors"
	"fmt"

	"browserhost"

	"github.com/chromedp/cdproto/input"
)

// buttons are the mouse buttons by name, with their bit among the pressed ones.
var buttons = map[string]int64{"left": 1, "right": 2, "middle": 4}

// modifiers are the keys that may be held, with their bits.
var modifiers = map[string]int64{"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}

// The walker looks at the element this long, and the browser has so long to
// take an act; both end earlier with the caller's context.
const actTime = browserhost.CallTime

// Click re-observes the element, then presses it once (S3.26, S3.30).
func (p *page) Click(ctx context.Context, ref string, opts browserhost.ClickOptions) (browserhost.Effect, error) {
	var none browserhost.Effect
	presses, err := clicks(opts)
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, actTime)
	defer cancel()
	done, err := p.turn(ctx)
	if err != nil {
		return none, p.shown(err, browserhost.NotStarted)
	}
	defer done()
	at, err := p.walker.aim(ctx, ref)
	if err != nil {
		return none, p.shown(err, browserhost.NotStarted)
	}
	for i := range presses {
		presses[i].X, presses[i].Y = at.X, at.Y
	}
	m := p.moment()
	if state, err := p.dispatch(ctx, mouse(presses)); err != nil {
		return none, p.shown(err, state)
	}
	return p.effect(ctx, m), nil
}

// clicks are the events of a click, still without a place.
func clicks(opts browserhost.ClickOptions) ([]input.DispatchMouseEventParams, error) {
	bad := func(field, format string, a ...any) error {
		return browserhost.Errorf(browserhost.CodeInputInvalid, "%s: %s", field, fmt.Sprintf(format, a...)).
			With("field", field).State(browserhost.NotStarted)
	}
	if opts.Button == "" {
		opts.Button = "left"
	}
	if opts.Count == 0 {
		opts.Count = 1
	}
	bit, ok := buttons[opts.Button]
	if !ok {
		return nil, bad("button", "is not one of left, right, middle")
	}
	if opts.Count < 1 || opts.Count > 3 {
		return nil, bad("count", "is not between 1 and 3")
	}
	var held int64
	for _, name := range opts.Modifiers {
		m, ok := modifiers[name]
		if !ok {
			return nil, bad("modifiers", "has an item that is not one of Alt, Control, Meta, Shift")
		}
		held |= m
	}
	button := input.MouseButton(opts.Button)
	out := []input.DispatchMouseEventParams{{Type: input.DispatchMouseEventTypeMouseMoved, Modifiers: held}}
	for n := range opts.Count {
		out = append(out,
			input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMousePressed, Button: button, Buttons: bit, ClickCount: int64(n + 1), Modifiers: held},
			input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseReleased, Button: button, ClickCount: int64(n + 1), Modifiers: held})
	}
	return out, nil
}

// InputText replaces or extends the element's text in one piece and reads the
// value back; a password is read back as "filled" or "empty". With Submit,
// Enter is pressed after that.
func (p *page) InputText(ctx context.Context, ref string, opts browserhost.InputOptions) (browserhost.Effect, error) {
	var none browserhost.Effect
	if len(opts.Text) > browserhost.MaxInputText {
		return none, browserhost.Errorf(browserhost.CodeInputInvalid, "text: is longer than %d bytes", browserhost.MaxInputText).
			With("field", "text").State(browserhost.NotStarted)
	}
	ctx, cancel := context.WithTimeout(ctx, actTime)
	defer cancel()
	done, err := p.turn(ctx)
	if err != nil {
		return none, p.shown(err, browserhost.NotStarted)
	}
	defer done()
	m := p.moment()
	if _, err := p.walker.focus(ctx, ref, opts.Append); err != nil {
		return none, p.shown(err, focusing(err))
	}
	state, err := p.dispatch(ctx, text(opts))
	if err != nil {
		if state == browserhost.NotStarted { // but the element has the focus
			state = browserhost.OutcomeUnknown
		}
		return none, p.shown(err, state)
	}
	if p.held() != nil {
		return p.effect(ctx, m), nil
	}
	value, err := p.walker.read(ctx, ref)
	if err != nil {
		if p.held() != nil {
			return p.effect(ctx, m), nil
		}
		return none, p.shown(err, browserhost.OutcomeUnknown)
	}
	if opts.Submit {
		if _, err := p.dispatch(ctx, press("Enter", 13, "\r")); err != nil {
			return none, p.shown(err, browserhost.OutcomeUnknown)
		}
	}
	e := p.effect(ctx, m)
	e.Value = value
	return e, nil
}

// focusing is how far an input got whose focusing failed: what the walker
// refuses has not been touched.
func focusing(err error) browserhost.Execution {
	switch browserhost.CodeOf(err) {
	case browserhost.CodeStaleElement, browserhost.CodeInputInvalid, browserhost.CodeBlockedByPolicy, browserhost.CodeUnsupported:
		return browserhost.NotStarted
	}
	if errors.Is(err, errDocumentGone) {
		return browserhost.NotStarted
	}
	return browserhost.OutcomeUnknown
}

// text are the events that put a text where the focus is. What is selected is
// replaced; an empty text removes it.
func text(opts browserhost.InputOptions) []command {
	switch {
	case opts.Text != "":
		return []command{cmd(input.InsertText, input.InsertTextParams{Text: opts.Text})}
	case opts.Append:
		return nil
	}
	return press("Backspace", 8, "")
}

// press are the events of one key.
func press(key string, code int64, text string) []command {
	down := input.DispatchKeyEventParams{
		Type: input.DispatchKeyEventTypeRawKeyDown, Key: key, Code: key, WindowsVirtualKeyCode: code, NativeVirtualKeyCode: code, Text: text, UnmodifiedText: text,
	}
	if text != "" {
		down.Type = input.DispatchKeyEventTypeKeyDown
	}
	up := down
	up.Type, up.Text, up.UnmodifiedText = input.DispatchKeyEventTypeKeyUp, "", ""
	return []command{cmd(input.DispatchKeyEvent, down), cmd(input.DispatchKeyEvent, up)}
}

// dispatch sends input events once, in order and without waiting in between,
// and waits for the acknowledgement of the last. A dialog that opens meanwhile
// completes the act: until it is answered the browser acknowledges nothing
// more (contract F). On an error, state says how far it got.
func (p *page) dispatch(ctx context.Context, events []command) (state browserhost.Execution, err error) {
	calls, err := p.session.start(events...)
	if err != nil {
		if len(calls) == 0 || !p.session.conn.forget(calls...) {
			return browserhost.NotStarted, err
		}
		return browserhost.OutcomeUnknown, err
	}
	for i, c := range calls {
		err := p.wait(ctx, c, false)
		if err == nil {
			if err = sessionGone(c.err); err == nil {
				continue
			}
			p.session.conn.forget(calls[i:]...)
			if i == 0 && errors.Is(err, errPageGone) { // the browser said so before the first of them
				return browserhost.NotStarted, err
			}
			return browserhost.OutcomeUnknown, err
		}
		sent := p.session.conn.forget(calls[i:]...)
		switch {
		case i == 0 && !sent:
			return browserhost.NotStarted, err
		case errors.Is(err, errDialog):
			return browserhost.Completed, nil
		}
		return browserhost.OutcomeUnknown, err
	}
	return browserhost.Completed, nil
}

// mouse makes commands of mouse events.
func mouse(events []input.DispatchMouseEventParams) []command {
	out := make([]command, len(events))
	for i, e := range events {
		out[i] = cmd(input.DispatchMouseEvent, e)
	}
	return out
}
