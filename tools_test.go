package browserhost

import (
	"encoding/json"
	"strings"
	"testing"
)

// S3.6, S3.22, contract I: the arguments are closed and typed; each refusal names the field.
func TestParseRefusesAndNamesTheField(t *testing.T) {
	for _, c := range []struct {
		tool, raw string
		code      Code
		field     string
	}{
		{"browser_fly", `{}`, CodeNotFound, ""},
		{"browser_act", `[]`, CodeInputInvalid, ""},
		{"browser_act", `{"action":"launch","action":"launch"}`, CodeInputInvalid, ""},
		{"browser_act", `{}`, CodeInputInvalid, "action"},
		{"browser_act", `{"action":7}`, CodeInputInvalid, "action"},
		{"browser_act", `{"action":"evaluate"}`, CodeInputInvalid, "action"},
		{"browser_act", `{"action":"launch","wsUrl":"ws://x"}`, CodeInputInvalid, "wsUrl"},
		{"browser_act", `{"action":"launch","headed":"yes"}`, CodeInputInvalid, "headed"},
		{"browser_act", `{"action":"launch","sites":[]}`, CodeInputInvalid, "sites"},
		{"browser_act", `{"action":"navigate","page_id":"p1"}`, CodeInputInvalid, "url"},
		{"browser_act", `{"action":"navigate","page_id":"p1","url":"file:///etc/passwd"}`, CodeInputInvalid, "url"},
		{"browser_act", `{"action":"click","page_id":"p1","element_id":"s1e1","count":4}`, CodeInputInvalid, "count"},
		{"browser_act", `{"action":"input_text","page_id":"p1","element_id":"s1e1","text":"` + strings.Repeat("a", MaxInputText+1) + `"}`, CodeInputInvalid, "text"},
		{"browser_profile_revoke", `{"grant_id":null}`, CodeInputInvalid, "grant_id"},
		{"browser_observe", `{"action":"snapshot","page_id":"p1","max_chars":1.5}`, CodeInputInvalid, "max_chars"},
	} {
		_, _, err := Parse(c.tool, []byte(c.raw))
		e := AsError(err)
		if e == nil || e.Code != c.code {
			t.Errorf("Parse(%s, %.60s) = %v, want %s", c.tool, c.raw, err, c.code)
			continue
		}
		if got, _ := e.Cause["field"].(string); got != c.field {
			t.Errorf("Parse(%s, %.60s) names field %q, want %q", c.tool, c.raw, got, c.field)
		}
		if c.tool == "browser_act" && e.Execution != NotStarted {
			t.Errorf("Parse(%s, %.60s): execution %q, want not_started", c.tool, c.raw, e.Execution)
		}
	}
}

// Contract B: each bound holds at the bound itself.
func TestParseAcceptsTheBound(t *testing.T) {
	op, args, err := Parse("browser_act", []byte(`{"action":"input_text","page_id":"p1","element_id":"s1e1","text":"`+strings.Repeat("a", MaxInputText)+`"}`))
	if err != nil || op != OpInputText || len(args.Text) != MaxInputText {
		t.Fatalf("op %q, %d bytes, err %v", op, len(args.Text), err)
	}
}

// S3.28: only absolute http and https URLs, without user information.
func TestCheckURL(t *testing.T) {
	for _, ok := range []string{"http://shop.test/", "https://shop.test:8443/a?b#c", "https://[2001:db8::1]/"} {
		if err := CheckURL(ok); err != nil {
			t.Errorf("CheckURL(%q) = %v", ok, err)
		}
	}
	for _, bad := range []string{"", "shop.test", "//shop.test/", "http:///x", "ftp://shop.test", "javascript:alert(1)", "data:text/html,x", "blob:https://shop.test/1",
		"view-source:https://shop.test", "chrome://settings", "devtools://x", "about:blank", "https://ada:pw@shop.test/", "https://shop.test/\n", "http://shop.test/ x",
		"https://shop.test/" + strings.Repeat("a", MaxURL)} {
		if CodeOf(CheckURL(bad)) != CodeInputInvalid {
			t.Errorf("CheckURL(%.40q) is accepted", bad)
		}
	}
}

// Design §5: the standard toolset stays at or below 8 KB.
func TestToolsAreSmall(t *testing.T) {
	size := 0
	for _, tool := range Tools {
		b, err := json.Marshal(map[string]any{"name": tool.Name, "description": tool.Description, "inputSchema": tool.Schema()})
		if err != nil {
			t.Fatal(err)
		}
		size += len(b)
	}
	if size > 8<<10 {
		t.Fatalf("the toolset is %d bytes, more than 8 KB", size)
	}
}

// S3.8: a device sees only the actions that its scopes allow.
func TestVisibleFollowsScopes(t *testing.T) {
	got := Visible(Actor{Scopes: []Scope{ScopeRead}})
	if len(got) != 1 || got[0].Name != "browser_observe" {
		t.Fatalf("a reader sees %v", got)
	}
	if len(Visible(Actor{})) != 0 {
		t.Fatal("an actor without scopes sees tools")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("browser_act", []byte(`{"action":"navigate","page_id":"p1","url":"https://shop.test/"}`))
	f.Add("request_access", []byte(`{"domains":["shop.test"],"reason":"r"}`))
	f.Fuzz(func(t *testing.T, tool string, raw []byte) {
		op, args, err := Parse(tool, raw)
		if err != nil {
			if e := AsError(err); e.Code == CodeInternal {
				t.Fatalf("untyped error: %v", err)
			}
			return
		}
		a := ActionOf(op)
		if a.Operation != op || len(args.Text) > MaxInputText || len(args.URL) > MaxURL {
			t.Fatalf("accepted beyond its bounds: %s", raw)
		}
	})
}

// AIP-63 C9: a secret never prints, and what is not our error never shows its text.
func TestSecretsDoNotPrint(t *testing.T) {
	c := Cookie{Name: "sid", Value: "canary-value"}
	b, err := json.Marshal(c)
	if err != nil || strings.Contains(string(b), "canary") {
		t.Fatalf("%s %v", b, err)
	}
	e := Failure(&json.SyntaxError{})
	if e.Error.Code != CodeInternal {
		t.Fatal(e.Error.Code)
	}
}
