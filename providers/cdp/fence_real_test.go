//go:build real && linux

package cdp

import (
	"fmt"
	"strings"
	"testing"

	"browserhost"
)

// pressable finds a ref in a new snapshot and aims at it: that works.
func (l *looking) pressable(what string) (ref string, at spot) {
	l.t.Helper()
	ref = findIn(l.t, l.shot(), what)
	at, err := l.walker.aim(l.t.Context(), ref)
	if err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
	return ref, at
}

// isAt checks what the page itself has at a point, by id.
func (l *looking) isAt(at spot, id string) {
	l.t.Helper()
	if got := l.does(fmt.Sprintf("document.elementFromPoint(%g, %g)?.id", at.X, at.Y)); got != id {
		l.t.Errorf("at %g, %g is %q, want %q", at.X, at.Y, got, id)
	}
}

// A list renders again and reuses its nodes by position: the ref of Edit is now
// the ref of Delete, and is refused; then the document goes, comes back, and
// its refs stay dead (A52 to A54, scenario S12).
func TestField_A53_Relabelled(t *testing.T) {
	l := lookAt(t, "relabel.html")
	ref, _ := l.pressable(`button "Edit"`)
	l.does(`document.getElementById("again").click()`)
	_, err := l.walker.aim(t.Context(), ref)
	if e := refused(t, err, browserhost.CodeStaleElement, "relabelled"); fmt.Sprint(e.Cause["changed"]) != "[name]" {
		t.Errorf("%v", e.Cause)
	}
	if _, err = l.Click(t.Context(), ref, browserhost.ClickOptions{}); browserhost.CodeOf(err) != browserhost.CodeStaleElement {
		t.Errorf("%v", err)
	}
	ref, _ = l.pressable(`button "Edit"`)
	l.does(`document.querySelector("li").remove()`) // another node than that of Edit
	if _, err := l.walker.aim(t.Context(), ref); err != nil {
		t.Errorf("the element itself is as it was: %v", err)
	}
	if _, err := l.Click(t.Context(), ref, browserhost.ClickOptions{}); err != nil {
		t.Fatal(err)
	}
	l.web.reached(t, "edit", 1)
	if n := l.web.hits("delete"); n != 0 {
		t.Errorf("deleted %d times", n)
	}
}

// The refs of a document end with it, also when it comes back: made again in
// the headless shell, out of the browser's memory in Chromium (A54).
func TestField_A54_NewDocument(t *testing.T) {
	for _, program := range []string{shell, full} {
		t.Run(program, func(t *testing.T) { testNewDocument(t, lookWith(t, program, "relabel.html")) })
	}
}

func testNewDocument(t *testing.T, l *looking) {
	ref, _ := l.pressable(`button "Edit"`)
	if _, err := l.Navigate(t.Context(), "http://shop.test/other", ""); err != nil {
		t.Fatal(err)
	}
	_, err := l.walker.aim(t.Context(), ref)
	refused(t, err, browserhost.CodeStaleElement, "new_document")
	l.does(`setTimeout(() => history.back())`)
	until(t, l.page, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.url == "http://shop.test/" && l.doc.load
	})
	_, err = l.walker.aim(t.Context(), ref)
	refused(t, err, browserhost.CodeStaleElement, "new_document")
	l.pressable(`button "Edit"`)
	if _, err := l.walker.aim(t.Context(), ref); browserhost.AsError(err).Cause["reason"] != "older_snapshot" {
		t.Errorf("%v", err)
	}
	here, _ := l.pressable(`button "Edit"`)
	l.does(`history.pushState(null, "", "/further")`)
	if _, err := l.walker.aim(t.Context(), here); err != nil {
		t.Errorf("an address of the same document: %v", err)
	}
}

// Each thing that can happen to an element between being shown and being
// pressed has its own cause, and none leads to another element (S3.26, S3.27,
// A55, A56, A58).
func TestFenceCauses(t *testing.T) {
	l := lookAt(t, `<style>#veil { position: fixed; inset: 0; display: none }</style>
		<ul><li>Order 1 <button id=b>Cancel</button></li></ul><form id=f action=/a><button id=s>Send</button></form><a id=a href="/x">Go</a>
		<p><input id=i type=checkbox aria-label=Box></p><div id=veil></div><div style="height:3000px"></div>
		<div id=clip style="overflow:hidden;height:0"><button id=c>Clipped</button></div>`)
	for _, c := range []struct{ what, do, reason, changed, undo string }{
		{`button "Cancel"`, `b.textContent = "Confirm"`, "relabelled", "[name]", `b.textContent = "Cancel"`},
		{`button "Cancel"`, `b.setAttribute("aria-label", "Buy")`, "relabelled", "[name]", `b.removeAttribute("aria-label")`},
		{`button "Cancel"`, `b.setAttribute("role", "link")`, "relabelled", "[role]", `b.removeAttribute("role")`},
		{`button "Cancel"`, `b.parentNode.firstChild.data = "Order 2 "`, "recycled", "[row]", `b.parentNode.firstChild.data = "Order 1 "`},
		{`button "Send"`, `f.action = "/b"`, "recycled", "[action]", `f.action = "/a"`},
		{`button "Send"`, `s.formAction = "https://bank.test/"`, "recycled", "[action]", `s.removeAttribute("formaction")`},
		{`link "Go"`, `a.href = "https://bank.test/x"`, "recycled", "[action]", `a.setAttribute("href", "/x")`},
		{`checkbox "Box"`, `i.type = "radio"`, "relabelled", "[role action]", `i.type = "checkbox"`},
		{`button "Cancel"`, `window.kept = b, b.remove()`, "detached", "", `document.querySelector("li").append(kept)`},
		{`button "Cancel"`, `b.hidden = true`, "hidden", "", `b.hidden = false`},
		{`button "Cancel"`, `b.style.visibility = "hidden"`, "hidden", "", `b.style.visibility = ""`},
		{`button "Cancel"`, `b.parentNode.inert = true`, "hidden", "", `b.parentNode.inert = false`},
		{`button "Cancel"`, `b.disabled = true`, "disabled", "", `b.disabled = false`},
		{`button "Cancel"`, `b.setAttribute("aria-disabled", "true")`, "disabled", "", `b.removeAttribute("aria-disabled")`},
		{`button "Cancel"`, `veil.style.display = "block"`, "covered", "", `veil.style.display = ""`},
		{`button "Cancel"`, `b.style.pointerEvents = "none"`, "covered", "", `b.style.pointerEvents = ""`},
		{`button "Cancel"`, `b.style.cssText = "position: fixed; left: -500px"`, "offscreen", "", `b.style.cssText = ""`},
	} {
		ref, at := l.pressable(c.what)
		l.does(c.do)
		_, err := l.walker.aim(t.Context(), ref)
		e := browserhost.AsError(err)
		if e == nil || e.Code != browserhost.CodeStaleElement || e.Cause["reason"] != c.reason || e.Execution != browserhost.NotStarted {
			t.Errorf("%s: got %v %v, want %s", c.do, err, e, c.reason)
		} else if changed, ok := e.Cause["changed"]; ok != (c.changed != "") || ok && fmt.Sprint(changed) != c.changed {
			t.Errorf("%s: changed %v, want %s", c.do, changed, c.changed)
		} else if by := e.Cause["covered_by"]; strings.Contains(c.do, "veil") && by != "div#veil" {
			t.Errorf("covered by %v", by)
		}
		l.does(c.undo)
		if again, err := l.walker.aim(t.Context(), ref); err != nil || again != at {
			t.Errorf("after %s: %+v, %v", c.undo, again, err)
		}
	}
	_, err := l.walker.aim(t.Context(), findIn(t, l.shot(), `button "Clipped"`))
	if e := browserhost.AsError(err); e == nil || e.Cause["reason"] != "covered" && e.Cause["reason"] != "offscreen" {
		t.Errorf("what cannot be seen was aimed at: %v", err)
	}
	ref := findIn(t, l.shot(), `button "Cancel"`)
	l.does(`b.replaceWith(b.cloneNode(true))`)
	_, err = l.walker.aim(t.Context(), ref)
	refused(t, err, browserhost.CodeStaleElement, "detached")
}

// Use of an element is not a change of it: what it holds and how it stands are
// its state.
func TestFenceLetsUse(t *testing.T) {
	l := lookAt(t, `<label>Name <input id=i></label><label><input id=c type=checkbox>Yes</label><details id=d><summary>More</summary>text</details><ul><li>Milk <span id=n>1</span> <button>+</button></ul>`)
	s := l.shot()
	for what, do := range map[string]string{`textbox "Name"`: `i.value = "Ada"`, `checkbox "Yes"`: `c.checked = true`, `button "More"`: `d.open = true`, `button "+"`: `n.textContent = "2"`} {
		l.does(do)
		if _, err := l.walker.aim(t.Context(), findIn(t, s, what)); err != nil {
			t.Errorf("%s: %v", do, err)
		}
	}
}

// The point is one at which the element itself is hit, wherever it is.
func TestAimPoints(t *testing.T) {
	l := lookAt(t, `<style>body { margin: 0; scroll-behavior: smooth } #bar { position: fixed; inset: 0 0 auto 0; height: 60px; background: #fff }</style><div id=bar></div>
		<div style="height:2000px"></div><div style="height:100px;overflow:auto"><div style="height:900px"></div><button id=far onclick="fetch('/press/far')">Far</button></div>
		<div role=button tabindex=0 aria-label=Card id=card style="width:200px;height:100px;position:relative"><button id=in style="position:absolute;inset:40px 90px">In</button></div>
		<p style="width:60px"><a href="#" id=long>a link of many lines with words</a></p>
		<label id=label><input type=checkbox style="position:absolute;opacity:0;pointer-events:none"> Own box</label>
		<div id=host></div><svg width=50 height=50><a href="#"><rect id=rect width=50 height=50></rect><title>Drawn</title></a></svg>
		<button id=half style="width:100px;position:relative">Half<i id=cover style="position:absolute;inset:0 30px 0 0;background:red" onclick=""></i></button>
		<div style="position:relative;width:100px"><button id=side style="width:100px">Side</button><i id=over style="position:absolute;inset:0 40px 0 20px;background:red"></i></div>
		<script>host.attachShadow({mode: "open"}).innerHTML = "<button>Shadow</button>"</script><div style="height:2000px"></div>`)
	for what, id := range map[string]string{
		`button "Far"`: "far", `button "Card"`: "card", `link "a link`: "long", `checkbox "Own box"`: "label", `button "Shadow"`: "host", `link "Drawn"`: "rect", `button "Half"`: "cover", `button "Side"`: "side",
	} {
		_, at := l.pressable(what)
		l.isAt(at, id)
		if w, h := 1280.0, 720.0; at.X < 0 || at.Y < 0 || at.X > w || at.Y > h {
			t.Errorf("%s is pressed at %g, %g", what, at.X, at.Y)
		}
	}
	l.does(`scrollTo({ top: 0, behavior: "instant" })`)
	ref := findIn(t, l.shot(), `button "Far"`)
	if _, err := l.Click(t.Context(), ref, browserhost.ClickOptions{}); err != nil {
		t.Fatal(err)
	}
	l.web.reached(t, "far", 1)
}

// Typing replaces or extends, and the value is read back; a secret is never
// more than filled or empty (A60).
func TestFocusAndRead(t *testing.T) {
	l := lookAt(t, `<input aria-label=a value=old><textarea aria-label=b>one
two</textarea><input aria-label=c type=email value=ada@shop.test><input aria-label=d type=number value=12>
		<div contenteditable aria-label=e>rich <b>text</b></div><input aria-label=f type=password value=canary><input aria-label=g type=search><input aria-label=h autocomplete=one-time-code value=canary>
		<div id=host></div><script>host.attachShadow({mode: "open"}).innerHTML = "<input aria-label=i value=deep>"</script>`)
	for _, c := range []struct {
		name, text string
		more       bool
		want, kind string
	}{
		{"a", "new", false, "new", "text"}, {"a", "er", true, "newer", "text"}, {"a", "", false, "", "text"},
		{"b", " and", true, "one\ntwo and", "text"}, {"b", "x", false, "x", "text"},
		{"c", ".test", true, "ada@shop.test.test", "text"}, {"d", "3", true, "123", "text"}, {"d", "7", false, "7", "text"},
		{"e", "!", true, "rich text!", "text"}, {"e", "plain", false, "plain", "text"},
		{"f", "secret", false, "filled", "password"}, {"f", "", false, "empty", "password"}, {"g", "q", false, "q", "text"}, {"h", "1", false, "filled", "password"},
		{"i", "er", true, "deeper", "text"},
	} {
		s := l.shot()
		ref := ""
		for line := range strings.Lines(s.Text) {
			if strings.Contains(line, `box "`+c.name+`"`) || strings.Contains(line, `spinbutton "`+c.name+`"`) {
				ref = strings.TrimSuffix(line[strings.LastIndex(line, "[")+1:], "]\n")
				ref = strings.TrimSuffix(ref, "]")
			}
		}
		e, err := l.InputText(t.Context(), ref, browserhost.InputOptions{Text: c.text, Append: c.more})
		if err != nil || e.Value != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, e.Value, err, c.want)
		}
		if at, err := l.walker.focus(t.Context(), ref, c.more); err != nil || at.Kind != c.kind || at.Value != c.want {
			t.Errorf("%s: %+v, %v", c.name, at, err)
		}
		if strings.Contains(s.Text, "canary") {
			t.Fatalf("a secret is shown:\n%s", s.Text)
		}
	}
	l.shot()
	l.does(`document.querySelector("[aria-label=f]").value = "canary"`)
	l.does(`document.querySelector("[aria-label=f]").type = "text"`)
	if s := l.shot(); strings.Contains(s.Text, "canary") || !strings.Contains(s.Text, `textbox "f" value=filled`) {
		t.Errorf("shown in clear by the page, and by us:\n%s", s.Text)
	}
}

// What takes no text, or will not have the focus, is not typed into.
func TestFocusRefuses(t *testing.T) {
	l := lookAt(t, `<button>Press</button><input type=date aria-label=Day><select aria-label=Choice><option>x</select><input readonly aria-label=Fixed><input disabled aria-label=Off>
		<input aria-label=Shy onfocus="this.blur()"><input aria-label=Mean onfocus="other.focus()"><input id=other aria-label=Other><input aria-label=Gone onfocus="this.remove()">`)
	s := l.shot()
	for what, want := range map[string]string{
		`button "Press"`: "not_editable", `date "Day"`: "not_editable", `combobox "Choice"`: "not_editable", `textbox "Fixed"`: "readonly", `textbox "Off"`: "disabled",
		`textbox "Shy"`: "focus_refused", `textbox "Mean"`: "focus_refused", `textbox "Gone"`: "focus_refused",
	} {
		code := browserhost.CodeStaleElement
		if want == "not_editable" {
			code = browserhost.CodeInputInvalid
		}
		_, err := l.walker.focus(t.Context(), findIn(t, s, what), false)
		refused(t, err, code, want)
	}
}
