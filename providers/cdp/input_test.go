package cdp

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"browserhost"
)

// pressing makes a page of a fake browser whose mouse does what answer says,
// the n-th event of it counted from 1.
func pressing(t *testing.T, answer func(f *fakeBrowser, o order, n int) string) (*page, *fakeBrowser) {
	t.Helper()
	b, f := newFake(t)
	p, _, err := attachFake(t, b).NewPage(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	f.put("Input.dispatchMouseEvent", func(o order) string { n++; return answer(f, o, n) })
	return p.(*page), f
}

func click(t *testing.T, opts browserhost.ClickOptions) []command {
	t.Helper()
	events, err := clicks(opts)
	if err != nil {
		t.Fatal(err)
	}
	return mouse(events)
}

// How far a click got is told exactly, and it is sent once (contract F, S3.29,
// S3.30).
func TestClickCertainty(t *testing.T) {
	const ok = `{}`
	dialog := func(f *fakeBrowser, o order) {
		f.event("Page.javascriptDialogOpening", o.SessionID, `{"url":"","message":"hi","type":"alert","hasBrowserHandler":false}`)
	}
	for name, c := range map[string]struct {
		answer func(f *fakeBrowser, o order, n int) string
		state  browserhost.Execution
		err    error
		heard  int
	}{
		"acknowledged": {func(*fakeBrowser, order, int) string { return ok }, browserhost.Completed, nil, 3},
		"last missing": {func(_ *fakeBrowser, _ order, n int) string {
			if n == 3 {
				return ""
			}
			return ok
		}, browserhost.OutcomeUnknown, context.DeadlineExceeded, 3},
		"none acknowledged": {func(*fakeBrowser, order, int) string { return "" }, browserhost.OutcomeUnknown, context.DeadlineExceeded, 3},
		"lost after the first": {func(f *fakeBrowser, _ order, n int) string {
			if n == 2 {
				f.conn.Close()
			}
			return ok
		}, browserhost.OutcomeUnknown, errLost, 3},
		"page gone before": {func(*fakeBrowser, order, int) string {
			return `{"code":-32001,"message":"Session with given id not found."}`
		},
			browserhost.NotStarted, errPageGone, 3},
		"page gone meanwhile": {func(f *fakeBrowser, o order, n int) string {
			if n == 2 {
				f.event("Target.detachedFromTarget", "", fmt.Sprintf(`{"sessionId":%q}`, o.SessionID))
				return ""
			}
			return ok
		}, browserhost.OutcomeUnknown, errPageGone, 3},
		"a dialog opens": {func(f *fakeBrowser, o order, n int) string {
			if n == 3 {
				dialog(f, o)
				return ""
			}
			return ok
		}, browserhost.Completed, nil, 3},
		"refused": {func(_ *fakeBrowser, _ order, n int) string {
			if n == 2 {
				return refusalAnswer
			}
			return ok
		}, browserhost.OutcomeUnknown, &protocolError{}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p, f := pressing(t, c.answer)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				state, err := p.dispatch(ctx, click(t, browserhost.ClickOptions{}))
				if c.err == errLost && errors.Is(err, errPageGone) && p.GoneReason() == goneLost {
					err = errLost // the page heard of it first
				}
				_, protocol := errors.AsType[*protocolError](err)
				_, want := errors.AsType[*protocolError](c.err)
				if state != c.state || !errors.Is(err, c.err) && !(protocol && want) || (err == nil) != (c.err == nil) {
					t.Errorf("%s, %v", state, err)
				}
				synctest.Wait()
				heard := 0
				for _, m := range f.methods() {
					if m == "Input.dispatchMouseEvent" {
						heard++
					}
				}
				if c.err == errLost && heard == c.heard-1 {
					heard++ // the last one was still to be written
				}
				if heard != c.heard {
					t.Errorf("%d events were sent, want %d", heard, c.heard)
				}
			})
		})
	}
}

// While a dialog is open every other call answers at once that it is, and what
// it says; nothing of it is begun.
func TestDialogHolds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p, _ := pressing(t, func(f *fakeBrowser, o order, n int) string {
			if n == 3 {
				f.event("Page.javascriptDialogOpening", o.SessionID, `{"url":"","message":"Pay 1 €?","type":"confirm","hasBrowserHandler":false}`)
				return ""
			}
			return `{}`
		})
		m := p.moment()
		if state, err := p.dispatch(t.Context(), click(t, browserhost.ClickOptions{})); state != browserhost.Completed || err != nil {
			t.Fatal(state, err)
		}
		e := p.effect(t.Context(), m)
		if e.Dialog == nil || *e.Dialog != (browserhost.Dialog{Type: "confirm", Message: "Pay 1 €?"}) || e.Settle.Reason != settledDialog || e.Settle.Stable {
			t.Errorf("%+v %+v", e.Settle, e.Dialog)
		}
		for name, err := range map[string]error{
			"navigate":   func() error { _, err := p.Navigate(t.Context(), "http://shop.test/", ""); return err }(),
			"click":      func() error { _, err := p.Click(t.Context(), "s1e1", browserhost.ClickOptions{}); return err }(),
			"input_text": func() error { _, err := p.InputText(t.Context(), "s1e1", browserhost.InputOptions{}); return err }(),
			"snapshot":   func() error { _, err := p.Snapshot(t.Context(), browserhost.SnapshotOptions{}); return err }(),
			"screenshot": func() error { _, err := p.Screenshot(t.Context(), browserhost.ScreenshotOptions{}); return err }(),
			"eval":       func() error { _, err := p.eval(t.Context(), "1", time.Second); return err }(),
		} {
			e := browserhost.AsError(err)
			if e == nil || e.Code != browserhost.CodeDialogOpen {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if effect := name != "snapshot" && name != "screenshot" && name != "eval"; effect != (e.Execution == browserhost.NotStarted) {
				t.Errorf("%s: %q", name, e.Execution)
			}
			if d, ok := e.Cause["dialog"].(map[string]any); !ok || d["message"] != "Pay 1 €?" {
				t.Errorf("%s: %v", name, e.Cause)
			}
		}
		if err := p.Close(t.Context()); err != nil {
			t.Errorf("closing needs no answer: %v", err)
		}
	})
}

// A click is what was asked for, no more.
func TestClicks(t *testing.T) {
	events, err := clicks(browserhost.ClickOptions{Button: "right", Count: 2, Modifiers: []string{"Control", "Shift"}})
	if err != nil || len(events) != 5 {
		t.Fatal(events, err)
	}
	for i, e := range events {
		if e.Modifiers != 2|8 || i > 0 && (e.Button != "right" || e.ClickCount != int64(i+1)/2) {
			t.Errorf("%d: %+v", i, e)
		}
	}
	for field, opts := range map[string]browserhost.ClickOptions{
		"button": {Button: "back"}, "count": {Count: 4}, "modifiers": {Modifiers: []string{"Hyper"}},
	} {
		_, err := clicks(opts)
		if e := browserhost.AsError(err); e == nil || e.Code != browserhost.CodeInputInvalid || e.Cause["field"] != field || e.Execution != browserhost.NotStarted {
			t.Errorf("%s: %v", field, err)
		}
	}
	p, _ := pressing(t, func(*fakeBrowser, order, int) string { return `{}` })
	_, err = p.InputText(t.Context(), "s1e1", browserhost.InputOptions{Text: string(make([]byte, browserhost.MaxInputText+1))})
	if e := browserhost.AsError(err); e == nil || e.Code != browserhost.CodeInputInvalid || e.Execution != browserhost.NotStarted {
		t.Errorf("one byte over the bound: %v", err)
	}
}
