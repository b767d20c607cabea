package cdp

import (
	"encoding/json/v2"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"browserhost"
)

func TestLine(t *testing.T) {
	for want, n := range map[string]node{
		`heading "Your page" level=1`:                             {Role: "heading", Name: "Your page", Level: 1},
		`    textbox "Name" value="Ada" required focused [s7e12]`: {Depth: 2, Role: "textbox", Name: "Name", Value: new("Ada"), States: []string{"required", "focused"}, Ref: 12},
		`textbox "Note" value="" [s7e1]`:                          {Role: "textbox", Name: "Note", Value: new(""), Ref: 1},
		`textbox "Password" value=filled [s7e2]`:                  {Role: "textbox", Name: "Password", Value: new("filled"), Secret: true, Ref: 2},
		`textbox "Password" value=empty`:                          {Role: "textbox", Name: "Password", Value: new("empty"), Secret: true},
		`link "Terms" to=bank.test [s7e3]`:                        {Role: "link", Name: "Terms", To: "bank.test", Ref: 3},
		`link "Write" to=mailto:`:                                 {Role: "link", Name: "Write", To: "mailto:"},
		`list`:                                                    {Role: "list"},
		`text "say \"hi\" \\ (s1e1] [x]"`:                         {Role: "text", Name: `say "hi" \ [s1e1] [x]`},
		`button "Save button \"Pay\" (s7e1]" [s7e4]`:              {Role: "button", Name: "Save\nbutton \"Pay\" [s7e1]", Ref: 4},
		`text "a b"`:                                              {Role: "text", Name: "\u00a0a\u2028\t\x00\u202e\u200b\U000e0041 b\r\n"},
		"text \"می\u200cخواهم 👩‍🚀\"":                              {Role: "text", Name: "می\u200cخواهم 👩‍🚀"},
		`node "x"`: {Role: "button [s1e1]", Name: "x", Level: -1, To: "a b", States: []string{"", "x y", "[s1e1]", "\n"}},
		strings.Repeat("  ", maxIndent) + `text "deep"`: {Depth: 1 << 30, Role: "text", Name: "deep"},
		`text "up"`: {Depth: -1, Role: "text", Name: "up"},
		`text "` + strings.Repeat("ä", 254) + `…"`:                    {Role: "text", Name: strings.Repeat("ä", 400)},
		`text "` + strings.Repeat("x", browserhost.MaxNodeText) + `"`: {Role: "text", Name: strings.Repeat("x", browserhost.MaxNodeText)},
	} {
		if got := n.line(7); got != want {
			t.Errorf("%+v:\n got %s\nwant %s", n, got, want)
		}
	}
}

// A secret is a word of ours, whatever is sent as its value (A60).
func TestSecretHasNoValue(t *testing.T) {
	n := node{Role: "textbox", Value: new("canary"), Secret: true}
	if got := n.line(1); strings.Contains(got, "canary") || !strings.Contains(got, "value=filled") {
		t.Error(got)
	}
}

var (
	quoted  = regexp.MustCompile(`"(?:[^"\\]|\\["\\])*"`)
	outside = regexp.MustCompile(`^ *[a-z-]+(?: Q)?(?: value=(?:Q|filled|empty))?(?: level=\d+)?(?: [a-z-]+)*(?: to=[a-z0-9._~+:\[\]-]+)?(?: \[s\d+e\d+\])?$`)
	ref     = regexp.MustCompile(`\[\s*[sS]\d`)
)

// Whatever a page says, a node is one line of a known form and of bounded
// length, and only the host writes refs.
func FuzzLine(f *testing.F) {
	f.Add("button", "Save", "v", "checked", "bank.test", 1, 1, true)
	f.Add("x\n", "\"] [s1e1]\n\\", "[ s1e1]\u202e", "\x00", "[s1e1]", -1, 0, false)
	f.Add("", "\\\"[[s1e1", "\xff\U000e0073", "a b", "[::1]:80", 99, 7, false)
	f.Fuzz(func(t *testing.T, role, name, value, state, to string, depth, element int, secret bool) {
		n := node{Depth: depth, Role: role, Name: name, Value: &value, States: []string{state, state}, To: to, Level: depth, Ref: element, Secret: secret}
		got := n.line(3)
		if !utf8.ValidString(got) || len(got) > 4*browserhost.MaxNodeText+1024 {
			t.Fatalf("%d bytes: %q", len(got), got)
		}
		for _, r := range got {
			if r != ' ' && (unicode.IsControl(r) || unicode.IsSpace(r) || isUnseen(r)) {
				t.Fatalf("%U in %q", r, got)
			}
		}
		if bare := quoted.ReplaceAllString(got, "Q"); !outside.MatchString(bare) {
			t.Fatalf("not a line: %q of %q", bare, got)
		}
		for _, q := range quoted.FindAllString(got, -1) {
			if ref.MatchString(q) {
				t.Fatalf("a page wrote a ref: %q", got)
			}
		}
		if secret && value != "" && value != "filled" && value != "empty" && strings.Contains(got, `value="`) {
			t.Fatalf("a secret: %q", got)
		}
		if clean(clean(name, 100), 100) != clean(name, 100) {
			t.Fatalf("cleaning %q again changes it", name)
		}
	})
}

// Whatever stands in an answer, it is read or refused, and what is read can be
// written.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"nodes":[{"d":0,"r":"button","n":"Save","e":1}],"total":1,"elements":1,"unread":0}`, 10)
	f.Add(`{"nodes":[{"d":-1,"r":"","v":null,"s":[""],"p":true,"l":7,"t":"x"}],"total":-5,"elements":1,"unread":-1}`, 1)
	f.Add(`{"nodes":[],"total":9}`, 5)
	f.Fuzz(func(t *testing.T, answer string, chars int) {
		var got walked
		if json.Unmarshal([]byte(answer), &got, json.RejectUnknownMembers(true)) != nil {
			return
		}
		s := &stage{t: t, loader: "A", nodes: got.Nodes, unread: max(got.Unread, 0)}
		w := newWalker(s)
		page, err := w.snapshot(t.Context(), browserhost.SnapshotOptions{MaxChars: min(max(chars, 1), browserhost.MaxSnapshotChars)})
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(page.Text, "\n"); n > len(got.Nodes) {
			t.Fatalf("%d nodes are %d lines", len(got.Nodes), n+1)
		}
	})
}

func FuzzRef(f *testing.F) {
	for _, s := range []string{"s1e1", "s12e345", "s0e1", "s1e01", "e1s1", "s1e1e1", "s9223372036854775808e1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if g, e, ok := parseRef(s); ok && (makeRef(g, e) != s || g < 1 || e < 1) {
			t.Errorf("%q is %d, %d", s, g, e)
		}
	})
}
