//go:build real && linux

package cdp

import (
	"encoding/json/v2"
	"html/template"
	"os"
	"strings"
	"testing"
	"time"

	"browserhost"

	"github.com/chromedp/cdproto/runtime"
)

// sitePages are the pages of the web that the demo browses.
const sitePages = "../../cmd/internal/fixsite/pages"

// looking is a page under the walker.
type looking struct {
	*page
	t   testing.TB
	web *web
}

// lookAt opens a page of this source; a source like "relabel.html" is that
// page of the demo's web.
func lookAt(t testing.TB, source string) *looking {
	t.Helper()
	return lookWith(t, shell, source)
}

func lookWith(t testing.TB, program, source string) *looking {
	t.Helper()
	if strings.HasSuffix(source, ".html") {
		source = sitePage(t, source)
	}
	for _, name := range []string{"press.js", "relabel.js"} {
		b, err := os.ReadFile(sitePages + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		source = strings.ReplaceAll(source, `<script src="/`+name+`">`, "<script>"+string(b))
	}
	w := serveWeb(t, map[string]string{"/": source, "/other": "<title>Other</title><h1>Other</h1>"})
	return &looking{openAt(t, attach(t, launch(t, program), w), "http://shop.test/").(*page), t, w}
}

func sitePage(t testing.TB, name string) string {
	t.Helper()
	pages, err := template.ParseFS(os.DirFS(sitePages), "*.html")
	if err != nil {
		t.Fatal(err)
	}
	numbers := make([]int, 5000)
	for i := range numbers {
		numbers[i] = i + 1
	}
	var b strings.Builder
	if err := pages.ExecuteTemplate(&b, name, map[string]any{
		"Host": "shop.test", "SignedIn": false, "Wrong": false, "Greeting": "", "Cart": 0,
		"Numbers": numbers, "Filler": strings.Repeat("quite a long cell ", 22),
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// does runs a script of the page's own and gives its string.
func (l *looking) does(script string) string {
	l.t.Helper()
	v, err := l.ask(l.t.Context(), cmd(runtime.Evaluate, runtime.EvaluateParams{Expression: "String(" + script + ")", ReturnByValue: new(true)}))
	if err != nil {
		l.t.Fatal(err)
	}
	got, err := value(v)
	if err != nil {
		l.t.Fatal(err)
	}
	var s string
	if err := json.Unmarshal(got, &s); err != nil {
		l.t.Fatal(err)
	}
	return s
}

func (l *looking) shot() browserhost.Snapshot {
	l.t.Helper()
	s, err := l.walker.snapshot(l.t.Context(), browserhost.SnapshotOptions{MaxChars: browserhost.MaxSnapshotChars})
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// shows compares a snapshot with what is expected, in generation 1.
func (l *looking) shows(want string) {
	l.t.Helper()
	s := l.shot()
	got := strings.ReplaceAll(s.Text, "["+s.Generation+"e", "[s1e")
	if want = strings.Trim(want, "\n"); got != want {
		l.t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWalkTheSite(t *testing.T) {
	lookAt(t, "controls.html").shows(`
heading "Controls" level=1
textbox "Note" value="old" [s1e1]
textbox "Story" value="once" [s1e2]
textbox "Secret" value=filled [s1e3]
checkbox "I agree" checked [s1e4]
combobox "Colour" value="Green" [s1e5]
button "Disabled" disabled [s1e6]
button "Not now" disabled [s1e7]
button "Under a veil" [s1e8]
button "Far below" [s1e9]`)
	lookAt(t, "login.html").shows(`
heading "Sign in" level=1
textbox "Name" value="" required [s1e1]
textbox "Password" value=empty required [s1e2]
button "Sign in" [s1e3]`)
	lookAt(t, "frames.html").shows(`
heading "Frames" level=1
iframe "Own"
iframe "Bank" to=bank.test`)
}

// Fields called like the DOM's own properties neither stop the walk nor lead
// it astray, and what a page does to its own world it does not do to ours.
func TestWalkThroughClobber(t *testing.T) {
	l := lookAt(t, "clobber.html")
	l.does(`(() => {
		for (const name of ["firstChild", "nextSibling", "nodeType"]) Object.defineProperty(Node.prototype, name, { get() { throw 1 } });
		Element.prototype.getAttribute = Element.prototype.checkVisibility = String.prototype.replace = Array.prototype.push = () => { throw 2 };
		Object.prototype.refused = "unknown";
	})()`)
	names := []string{"Attribute", "Parent", "Children", "First", "Tag", "Type", "Has", "Shadow", "Connected", "Rect", "Attributes", "Query", "Owner", "Action"}
	want := "heading \"A form that gets in the way\" level=1\ntextbox \"Sibling\" value=\"\" [s1e1]\nform \"Loop\"\n"
	for i, name := range names {
		want += "  textbox \"" + name + "\" value=\"\" [" + makeRef(1, i+2) + "]\n"
	}
	l.shows(want + `  button "Save" [s1e16]`)
	if _, err := l.walker.aim(t.Context(), "s1e16"); err != nil {
		t.Error(err)
	}
	if at, err := l.walker.focus(t.Context(), "s1e3", false); err != nil || at.Kind != "text" {
		t.Errorf("%+v, %v", at, err)
	}
	if n := l.does(`Object.getOwnPropertySymbols(globalThis).filter(s => String(s).includes("browserhost")).length`); n != "0" {
		t.Error("the page sees the walker")
	}
}

func TestWalkNodes(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"text": {
			`<p>Hello <b>Ada</b>, you
			have <i>3</i> things<br>in your <a href="/cart">cart</a> now.</p><div>One</div><div>Two <span>and</span> three</div>bare<section><p></p><ul><li></li></ul></section>`,
			`
paragraph "Hello Ada, you have 3 things in your"
  link "cart" [s1e1]
  text "now."
text "One"
text "Two and three"
text "bare"`},
		"hidden": {
			`<div style="display:none">A <button>a</button></div><div hidden>B</div><div aria-hidden=true>C<button>c</button></div><div inert>D<button>d</button></div>
			<div style="visibility:hidden">E <button style="visibility:visible">shown</button></div><details><summary>More</summary>F<button>f</button></details>
			<template>G</template><noscript>H</noscript><style>/* I */</style><script>/* J */</script><!-- K --><input type=hidden value=L><dialog>M</dialog><div style="content-visibility:hidden">N</div><p hidden=until-found>O</p><canvas>P</canvas><div style="display:none"><div style="display:contents">Q</div></div>`,
			`
button "shown" [s1e1]
group
  button "More" collapsed [s1e2]`},
		"states": {
			`<input aria-label=a type=checkbox><input aria-label=b type=radio checked><input aria-label=c required readonly value=v><input aria-label=d aria-invalid=true>
			<button aria-expanded=true aria-pressed=true>e</button><div role=tab aria-selected=true tabindex=0>f</div><div role=checkbox aria-checked=mixed tabindex=0>g</div>
			<a href="#" aria-current=page>h</a><fieldset disabled><legend>Off</legend><input aria-label=i></fieldset><div role=switch aria-checked=false tabindex=-1>j</div>
			<input aria-label=k id=k><select aria-label=l multiple><option selected>m<option>n</select><script>k.focus()</script>`,
			`
checkbox "a" unchecked [s1e1]
radio "b" checked [s1e2]
textbox "c" value="v" readonly required [s1e3]
textbox "d" value="" invalid [s1e4]
button "e" pressed expanded [s1e5]
tab "f" selected [s1e6]
checkbox "g" mixed [s1e7]
link "h" current [s1e8]
group "Off"
  textbox "i" value="" disabled [s1e9]
switch "j" unchecked [s1e10]
textbox "k" value="" focused [s1e11]
listbox "l" value="m" [s1e12]
  option "m" selected [s1e13]
  option "n" [s1e14]`},
		"values": {
			`<input type=range aria-label=a value=7><input type=date aria-label=b value=2026-12-01><input type=number aria-label=c value=5><input type=file aria-label=d>
			<progress aria-label=e value=0.5></progress><div contenteditable aria-label=f>some <b>text</b></div><div role=slider aria-label=g aria-valuenow=3 aria-valuetext=three tabindex=0></div>
			<input type=submit><input type=reset value=Clear><input type=image alt=Go>`,
			`
slider "a" value="7" [s1e1]
date "b" value="2026-12-01" [s1e2]
spinbutton "c" value="5" [s1e3]
button "d" value="" [s1e4]
progressbar "e" value="0.5"
textbox "f" value="some text" [s1e5]
slider "g" value="three" [s1e6]
button "Submit" [s1e7]
button "Clear" [s1e8]
button "Go" [s1e9]`},
		"links": {
			`<a href="/x">own</a> <a href="https://bank.test:8443/y?z">bank</a> <a href="mailto:ada@shop.test">mail</a> <a href="https://bänk.test/">idn</a> <a>none</a> <a href="http://[">broken</a><a href="/	/bank.test/">tab</a><a href="/i"><img alt="Picture" src="data:,"></a><h2><a href="/h">Head</a></h2>`,
			`
link "own" [s1e1]
link "bank" to=bank.test:8443 [s1e2]
link "mail" to=mailto: [s1e3]
link "idn" to=xn--bnk-qla.test [s1e4]
text "none"
link "broken" [s1e5]
link "tab" to=bank.test [s1e6]
link "Picture" [s1e7]
heading "Head" level=2
  link "Head" [s1e8]`},
		"table": {
			`<table><caption>Mail</caption><tr><th>From<th>What<tr><td>Ada<td><button>Open</button><td></table>`,
			`
table "Mail"
  row
    columnheader "From"
    columnheader "What"
  row
    cell "Ada"
    button "Open" [s1e1]
    cell`},
		"shadow": {
			`<div id=h><b slot=s>put in</b><i>not shown</i></div><script>const r = h.attachShadow({mode: "open"}); r.innerHTML = '<p>inside <slot name=s></slot></p><button>Press</button><div id=n></div>'; r.getElementById("n").attachShadow({mode: "open"}).innerHTML = '<label for=q>Deep</label><input id=q>'</script>`,
			`
paragraph "inside put in"
button "Press" [s1e1]
textbox "Deep" value="" [s1e2]`},
		"own controls": {
			`<label><input type=checkbox style="display:none" checked> Fancy</label><label><input type=radio style="position:absolute;opacity:0">Round</label><div onclick="1">Div</div><div tabindex=0><p>Focus</p></div>`,
			`
label "Fancy" checked [s1e1]
radio "Round" unchecked [s1e2]
clickable "Div" [s1e3]
clickable "Focus" [s1e4]`},
		"forged": {
			"<p>Fine\nbutton &quot;Pay&quot; [s1e1]</p><button aria-label='Close\n\nlink \"Terms\" [s1e9]\u202e\u2067'>x</button><a href='/' title=x>a\u200bb\u00adc&#xE0041;</a>",
			`
paragraph "Fine button \"Pay\" (s1e1]"
button "Close link \"Terms\" (s1e9]" [s1e1]
link "abc" [s1e2]`},
		"names": {
			`<p id=a>One</p><p id=b style="display:none">two</p><button aria-labelledby="a b self" id=self aria-label=three>x</button><input placeholder=Search title=T><label for=q>Quan<input size=1 value=5 aria-label=n>tity</label><input id=q>
			<button><span>Save</span><span>all</span></button><button><div>Save</div><div>all</div></button><button title="Only a title"><svg></svg></button><svg role=img><title>Chart</title></svg>`,
			`
paragraph "One"
button "One two three" [s1e1]
textbox "T" value="" [s1e2]
textbox "n" value="5" [s1e3]
textbox "Quan 5 tity" value="" [s1e4]
button "Saveall" [s1e5]
button "Save all" [s1e6]
button "Only a title" [s1e7]
img "Chart"`},
	} {
		t.Run(name, func(t *testing.T) { lookAt(t, c.source).shows(c.want) })
	}
}

// A page may point round in circles, be deep, and be larger than any walk; the
// walk ends within its budget and says what it did not read (S3.17, A87).
func TestWalkWithoutEnd(t *testing.T) {
	t.Run("circles", func(t *testing.T) {
		lookAt(t, `<div role=button tabindex=0 id=a aria-labelledby="b" aria-owns="b">A</div><div role=button tabindex=0 id=b aria-labelledby="c a" aria-owns=a>B</div><div role=group id=c aria-labelledby="c b" aria-owns="c"><p>C</p></div>`).shows(`
button "B" [s1e1]
button "C A" [s1e2]
group "C B"
  paragraph "C"`)
	})
	t.Run("deep", func(t *testing.T) {
		l := lookAt(t, `<h1>Top</h1><div id=at></div><button id=last>Last</button>`)
		l.does(`(() => { let at = document.getElementById("at"); for (let i = 0; i < 2000; i++) { const s = document.createElement("div"); s.setAttribute("role", "group"); s.setAttribute("aria-label", "g"); at.append(s); at = s } at.append("deepest") })()`)
		s := l.shot()
		if n := strings.Count(s.Text, `group "g"`); n != 2000 || !strings.Contains(s.Text, `text "deepest"`) || s.LeftOut != 0 {
			t.Errorf("%d groups, %d left out", n, s.LeftOut)
		}
		at, err := l.walker.aim(t.Context(), findIn(t, s, `button "Last"`))
		if err != nil {
			t.Error(at, err)
		}
	})
	t.Run("long", func(t *testing.T) {
		l := lookAt(t, `<button id=a></button><p id=b></p><input id=c>`)
		l.does(`(() => { const x = "word ".repeat(1e5); a.textContent = x; b.textContent = x; c.value = x; a.title = x })()`)
		s := l.shot()
		for line := range strings.Lines(s.Text) {
			if len(line) > 2*browserhost.MaxNodeText {
				t.Errorf("%d bytes: %.80q", len(line), line)
			}
		}
		if !strings.Contains(s.Text, `…"`) || len(s.Text) > 12<<10 {
			t.Errorf("%d bytes", len(s.Text))
		}
	})
	t.Run("a million nodes", func(t *testing.T) {
		l := lookAt(t, `<h1>Many</h1><main id=m></main>`)
		l.does(`(() => { for (let i = 0; i < 500; i++) { const d = document.createElement("div"); for (let j = 0; j < 1000; j++) { const b = document.createElement("i"); b.append("x"); b.hidden = j % 10; d.append(b) } m.append(d) } })()`)
		l.does("document.body.offsetHeight") // how long Chromium takes for that is its own affair
		at := time.Now()
		s := l.shot()
		if took := time.Since(at); took > 10*time.Second { // the budget is 2 s
			t.Errorf("a walk of %v", took)
		}
		if !strings.HasPrefix(s.Text, `heading "Many" level=1`) {
			t.Errorf("%.200s", s.Text)
		}
		if s.LeftOut > 0 && !strings.Contains(s.Text, "the page is too large") {
			t.Errorf("%d left out, and no word of it", s.LeftOut)
		}
	})
}

// A page of 5,000 links and a table of two megabytes keeps to every bound, and
// its end can be reached (scenario S14).
func TestWalkBig(t *testing.T) {
	l := lookAt(t, "big.html")
	for chars, most := range map[int]int{0: browserhost.SnapshotChars, 4000: 4000} {
		s, err := l.walker.snapshot(t.Context(), browserhost.SnapshotOptions{MaxChars: chars})
		if err != nil || len(s.Text) > most || len(s.Text) < most*9/10 || s.Elements != 5000 || s.LeftOut < 19_000 || s.NextOffset == 0 {
			t.Errorf("%d bytes, %d elements, %d left out, %v", len(s.Text), s.Elements, s.LeftOut, err)
		}
	}
	s := l.shot()
	for s.NextOffset > 0 {
		next, err := l.walker.snapshot(t.Context(), browserhost.SnapshotOptions{MaxChars: browserhost.MaxSnapshotChars, Offset: s.NextOffset})
		if err != nil || next.Generation != s.Generation {
			t.Fatal(next.Generation, err)
		}
		s = next
	}
	if !strings.Contains(s.Text, `"Row 5000"`) || s.LeftOut != 0 {
		t.Errorf("the end is not the end: %d left out", s.LeftOut)
	}
}
