//go:build real && linux

package cdp

import (
	"context"
	"strings"
	"testing"
	"time"

	"browserhost"
)

// controls is a page of things to press and to fill.
const controls = `<title>Controls</title>
<script>const press = (what) => fetch("/press/" + what, { method: "POST" })</script>
<p><button onclick="press('buy')">Buy</button> <button ondblclick="press('double')">Twice</button>
<button onclick="document.querySelector('#late').textContent = 'soon'; press('late').then(() => document.querySelector('#late').textContent = 'done')">Late</button>
<button onclick="setInterval(() => document.querySelector('#late').textContent = Math.random(), 10)">Restless</button>
<output id=late></output>
<button oncontextmenu="event.preventDefault(); press('menu')">Menu</button>
<button onclick="if (event.shiftKey && event.ctrlKey) press('held')">Held</button>
<p><label>Name <input id=name value=old></label> <label>Secret <input type=password></label>
<label>Story <textarea>once</textarea></label>
<form action="/search"><label>Find <input name=q></label></form>
<p><a href="/next">Next</a> <a href="/next" target="_blank">Tab</a> <button onclick="window.open('/next', '', 'width=300,height=200')">Window</button>
<button onclick="window.close()">Leave</button>
<p><button onclick="alert('hi')">Alert</button> <button onclick="if (confirm('Pay 1 €?')) press('paid')">Pay</button>`

func pagesOf(more map[string]string) map[string]string {
	pages := map[string]string{"/": controls, "/next": "<title>Next</title><h1>Next</h1><button onclick=\"fetch('/press/next', {method: 'POST'})\">Here</button>", "/search": "<title>Found</title><h1>Found</h1>"}
	for path, body := range more {
		pages[path] = body
	}
	return pages
}

func clickOn(t testing.TB, p browserhost.Page, what string, opts browserhost.ClickOptions) browserhost.Effect {
	t.Helper()
	e, err := p.Click(t.Context(), find(t, p, what), opts)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return e
}

func typeInto(t testing.TB, p browserhost.Page, what string, opts browserhost.InputOptions) browserhost.Effect {
	t.Helper()
	e, err := p.InputText(t.Context(), find(t, p, what), opts)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return e
}

// A click presses once, as often and with the keys and the button that it
// says, and is over when the page has come to rest (S3.29, S3.30).
func TestClick(t *testing.T) {
	for _, program := range []string{full, shell} {
		t.Run(program, func(t *testing.T) {
			s := serveWeb(t, pagesOf(nil))
			p := openAt(t, attach(t, launch(t, program), s), "http://shop.test/")
			e := clickOn(t, p, `button "Buy"`, browserhost.ClickOptions{})
			s.reached(t, "buy", 1)
			if !e.Settle.Stable || e.Settle.Reason != "quiet" || e.Dialog != nil || len(e.NewPages) != 0 {
				t.Errorf("%+v", e)
			}
			clickOn(t, p, `button "Twice"`, browserhost.ClickOptions{Count: 2})
			clickOn(t, p, `button "Menu"`, browserhost.ClickOptions{Button: "right"})
			clickOn(t, p, `button "Held"`, browserhost.ClickOptions{Modifiers: []string{"Shift", "Control"}})
			for _, what := range []string{"double", "menu", "held"} {
				s.reached(t, what, 1)
			}
			if e := clickOn(t, p, `button "Late"`, browserhost.ClickOptions{}); !e.Settle.Stable {
				t.Errorf("%+v", e.Settle)
			}
			if snap, err := p.Snapshot(t.Context(), browserhost.SnapshotOptions{}); err != nil || !strings.Contains(snap.Text, "done") {
				t.Errorf("what the click fetched is not there: %v\n%s", err, snap.Text)
			}
			e = clickOn(t, p, `button "Restless"`, browserhost.ClickOptions{})
			if e.Settle.Stable || e.Settle.Reason != "time" || e.Settle.WaitedMS < 1400 || e.Settle.WaitedMS > 5000 {
				t.Errorf("a page that never rests: %+v", e.Settle)
			}
		})
	}
}

// A click that leads on is over when the next document is loaded; the refs of
// the last one are dead (S3.26).
func TestClickNavigates(t *testing.T) {
	s := serveWeb(t, pagesOf(nil))
	p := openAt(t, attach(t, launch(t, full), s), "http://shop.test/")
	old := find(t, p, `button "Buy"`)
	e := clickOn(t, p, `link "Next"`, browserhost.ClickOptions{})
	if !e.Settle.Stable || e.Settle.Reason != "navigated" || p.Info().URL != "http://shop.test/next" {
		t.Errorf("%+v at %+v", e.Settle, p.Info())
	}
	_, err := p.Click(t.Context(), old, browserhost.ClickOptions{})
	if err := browserhost.AsError(err); err == nil || err.Code != browserhost.CodeStaleElement || err.Execution != browserhost.NotStarted {
		t.Errorf("%v", err)
	}
	if s.hits("buy") != 0 {
		t.Error("a dead ref pressed something")
	}
	clickOn(t, p, `button "Here"`, browserhost.ClickOptions{})
	s.reached(t, "next", 1)
}

// A button that has become another one is not pressed (S3.26, S3.27).
func TestRelabelledButton(t *testing.T) {
	s := serveWeb(t, map[string]string{"/": `<button id=b onclick="fetch('/press/' + this.textContent, {method: 'POST'})">Edit</button>
<button onclick="b.textContent = 'Delete'">Change</button>`})
	p := openAt(t, attach(t, launch(t, full), s), "http://shop.test/")
	snap, err := p.Snapshot(t.Context(), browserhost.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	edit, change := findIn(t, snap, `button "Edit"`), findIn(t, snap, `button "Change"`)
	if _, err := p.Click(t.Context(), change, browserhost.ClickOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = p.Click(t.Context(), edit, browserhost.ClickOptions{})
	if e := browserhost.AsError(err); e == nil || e.Code != browserhost.CodeStaleElement || e.Execution != browserhost.NotStarted || e.Cause["reason"] != "relabelled" {
		t.Errorf("%v", err)
	}
	clickOn(t, p, `button "Delete"`, browserhost.ClickOptions{})
	s.reached(t, "Delete", 1)
	s.reached(t, "Edit", 0)
}

// Text replaces or extends what is there, and comes back as the page has it; a
// password never does.
func TestInputText(t *testing.T) {
	s := serveWeb(t, pagesOf(nil))
	p := openAt(t, attach(t, launch(t, full), s), "http://shop.test/")
	for _, c := range []struct {
		what string
		opts browserhost.InputOptions
		want string
	}{
		{`textbox "Name"`, browserhost.InputOptions{Text: "Ada"}, "Ada"},
		{`textbox "Name"`, browserhost.InputOptions{Text: " 👩‍💻 of Shop", Append: true}, "Ada 👩‍💻 of Shop"},
		{`textbox "Name"`, browserhost.InputOptions{}, ""},
		{`textbox "Name"`, browserhost.InputOptions{Append: true}, ""},
		{`textbox "Story"`, browserhost.InputOptions{Text: " more\nthan once", Append: true}, "once more\nthan once"},
		{`textbox "Secret"`, browserhost.InputOptions{Text: "canary-password"}, "filled"},
		{`textbox "Secret"`, browserhost.InputOptions{}, "empty"},
	} {
		e := typeInto(t, p, c.what, c.opts)
		if e.Value != c.want || !e.Settle.Stable {
			t.Errorf("%s %+v: %q, %+v", c.what, c.opts, e.Value, e.Settle)
		}
	}
	typeInto(t, p, `textbox "Secret"`, browserhost.InputOptions{Text: "canary-password"})
	if snap, err := p.Snapshot(t.Context(), browserhost.SnapshotOptions{}); err != nil || strings.Contains(snap.Text, "canary") {
		t.Errorf("the password is in the snapshot: %v", err)
	}
	e := typeInto(t, p, `textbox "Find"`, browserhost.InputOptions{Text: "tea", Submit: true})
	if e.Value != "tea" || e.Settle.Reason != "navigated" || p.Info().URL != "http://shop.test/search?q=tea" {
		t.Errorf("%+v at %s", e, p.Info().URL)
	}
}

// A dialog completes the act that opened it, is named, and is never answered
// here; the page next to it goes on working.
func TestDialog(t *testing.T) {
	s := serveWeb(t, pagesOf(map[string]string{
		"/hello": `<title>Hello</title><script>alert("hello")</script>`,
		"/stay":  `<title>Stay</title><script>addEventListener("beforeunload", (e) => e.preventDefault())</script><button>Touch</button>`,
	}))
	d := attach(t, launch(t, full), s)
	p, other := openAt(t, d, "http://shop.test/"), openAt(t, d, "http://bank.test/")
	e := clickOn(t, p, `button "Pay"`, browserhost.ClickOptions{})
	if e.Dialog == nil || *e.Dialog != (browserhost.Dialog{Type: "confirm", Message: "Pay 1 €?"}) || e.Settle.Reason != "dialog" {
		t.Fatalf("%+v", e)
	}
	_, err := p.Snapshot(t.Context(), browserhost.SnapshotOptions{})
	if browserhost.CodeOf(err) != browserhost.CodeDialogOpen {
		t.Errorf("%v", err)
	}
	clickOn(t, other, `button "Buy"`, browserhost.ClickOptions{})
	s.reached(t, "buy", 1)
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	s.reached(t, "paid", 0)

	nav, err := other.Navigate(t.Context(), "http://shop.test/hello", "")
	if err != nil || nav.Loaded || nav.Dialog == nil || nav.Dialog.Message != "hello" || nav.Status != 200 || nav.URL != "http://shop.test/hello" {
		t.Errorf("%+v, %v", nav, err)
	}
	stay := openAt(t, d, "http://shop.test/stay")
	clickOn(t, stay, `button "Touch"`, browserhost.ClickOptions{})
	nav, err = stay.Navigate(t.Context(), "http://shop.test/", "")
	if err != nil || nav.Loaded || nav.Dialog == nil || nav.Dialog.Type != "beforeunload" || nav.URL != "http://shop.test/stay" {
		t.Errorf("%+v, %v", nav, err)
	}
	if err := stay.Close(t.Context()); err != nil { // without being asked
		t.Error(err)
	}
}

// What a page opens belongs to its context, is reported with the act, and
// both go on working: an opener lies hidden behind its tab.
func TestPopups(t *testing.T) {
	for _, program := range []string{full, shell} {
		t.Run(program, func(t *testing.T) {
			s := serveWeb(t, pagesOf(nil))
			d := attach(t, launch(t, program), s)
			p := openAt(t, d, "http://shop.test/")
			for i, what := range []string{`link "Tab"`, `button "Window"`} {
				e := clickOn(t, p, what, browserhost.ClickOptions{})
				if len(e.NewPages) != 1 || len(d.Pages()) != 2+i || d.Pages()[1+i] != e.NewPages[0] {
					t.Fatalf("%s: %d new pages, %d in all", what, len(e.NewPages), len(d.Pages()))
				}
				child := e.NewPages[0].(*page)
				until(t, child, func() bool { return child.Info().URL == "http://shop.test/next" })
				clickOn(t, child, `button "Here"`, browserhost.ClickOptions{})
				s.reached(t, "next", 1+i)
				clickOn(t, p, `button "Buy"`, browserhost.ClickOptions{})
				s.reached(t, "buy", 1+i)
				for _, q := range d.Pages() {
					if im, err := q.Screenshot(t.Context(), browserhost.ScreenshotOptions{}); err != nil || im.Width != viewWidth || im.Height != viewHeight {
						t.Errorf("%d by %d, %v", im.Width, im.Height, err)
					}
				}
			}
		})
	}
}

// A page that closes itself is gone, and the rest of the context is not.
func TestPageClosesItself(t *testing.T) {
	s := serveWeb(t, pagesOf(nil))
	d := attach(t, launch(t, full), s)
	p := openAt(t, d, "http://shop.test/")
	child := clickOn(t, p, `button "Window"`, browserhost.ClickOptions{}).NewPages[0]
	until(t, child.(*page), func() bool { return child.Info().URL == "http://shop.test/next" })
	if _, err := child.Navigate(t.Context(), "http://shop.test/", ""); err != nil {
		t.Fatal(err)
	}
	ref := find(t, child, `button "Leave"`)
	if _, err := child.Click(t.Context(), ref, browserhost.ClickOptions{}); err != nil {
		if e := browserhost.AsError(err); e.Code != browserhost.CodeTargetGone || e.Execution != browserhost.OutcomeUnknown {
			t.Errorf("%v %v", err, e.Execution)
		}
	}
	<-child.Gone()
	if child.GoneReason() != "closed" {
		t.Errorf("%q", child.GoneReason())
	}
	clickOn(t, p, `button "Buy"`, browserhost.ClickOptions{})
	s.reached(t, "buy", 1)
}

// Two pages of one device both answer, whichever was used last, without one
// being brought to the front for it.
func TestBackgroundPages(t *testing.T) {
	s := serveWeb(t, pagesOf(nil))
	d := attach(t, launch(t, full), s)
	first, second := openAt(t, d, "http://shop.test/"), openAt(t, d, "http://bank.test/")
	for i := range 3 {
		for j, p := range []browserhost.Page{first, second} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if _, err := p.Click(ctx, find(t, p, `button "Buy"`), browserhost.ClickOptions{}); err != nil {
				t.Fatal(err)
			}
			s.reached(t, "buy", 2*i+j+1)
			if e := typeInto(t, p, `textbox "Name"`, browserhost.InputOptions{Text: "Ada"}); e.Value != "Ada" {
				t.Errorf("%+v", e)
			}
			if _, err := p.Screenshot(ctx, browserhost.ScreenshotOptions{}); err != nil {
				t.Error(err)
			}
			cancel()
		}
	}
}
