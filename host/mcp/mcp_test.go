package mcp

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"browserhost"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A call reaches the line as what it means, from a client of each revision,
// and its value comes back as structured content and as text.
func TestCall(t *testing.T) {
	for _, version := range revisions {
		r := newRig(t, Options{})
		s := r.connect(ada, version, nil)
		res := call(t, s, "browser_act", map[string]any{"action": "click", "page_id": "p1", "element_id": "s1e3"})
		want := `{"for":"` + string(ada) + `"}`
		if res.IsError || text(res.StructuredContent) != want || len(res.Content) != 1 || res.Content[0].(*sdk.TextContent).Text != want {
			t.Errorf("%s: %s", version, text(res))
		}
		if len(r.calls) != 1 {
			t.Fatalf("%s: %d calls", version, len(r.calls))
		}
		c := r.calls[0]
		if c.ID == "" || c.Tool != "browser_act" || c.Operation != browserhost.OpClick || c.Args.ElementID != "s1e3" || len(c.Raw) == 0 ||
			c.Actor.Device != ada || c.Door != "mcp" || c.Material != nil || (c.Run != "") != (version != "") {
			t.Errorf("%s: %+v", version, c)
		}
	}
}

// Every error of a tool is a result that the model reads: the envelope, with
// what is safe in it (AIP-63 T3, C9). Nothing refused reaches the line, and
// each refused call is told to whoever records.
func TestErrors(t *testing.T) {
	r := newRig(t, Options{})
	r.answer(func(_ context.Context, c *browserhost.Call) (*browserhost.Result, error) {
		switch c.Operation {
		case browserhost.OpLaunch:
			return nil, browserhost.Errorf(browserhost.CodeConsentRequired, "ask").With("domain", "shop.test").State(browserhost.NotStarted)
		case browserhost.OpPages:
			return nil, errors.New("canary /home/ada")
		case browserhost.OpBrowsers:
			return nil, nil
		}
		return nil, browserhost.Errorf(browserhost.CodeBusy, "x").With("f", func() {})
	})
	s := r.connect(ada, "", nil)
	for _, c := range []struct {
		tool    string
		args    any
		want    string
		refused bool
	}{
		{"browser_fly", map[string]any{}, `"code":"not_found"`, true},
		{"browser_act", map[string]any{"action": "launch", "wsUrl": "ws://x"}, `{"error":{"cause":{"execution_state":"not_started","field":"wsUrl"},"code":"input_invalid"`, true},
		{"browser_act", map[string]any{"action": "input_text", "text": strings.Repeat("a", browserhost.MaxArgs)}, `"code":"input_invalid"`, true},
		{"browser_act", map[string]any{"action": "launch"}, `{"error":{"cause":{"domain":"shop.test","execution_state":"not_started"},"code":"browser:consent_required","message":"ask","retryable":false},"ok":false}`, false},
		{"browser_observe", map[string]any{"action": "pages"}, `"code":"internal"`, false},
		{"browser_observe", map[string]any{"action": "browsers"}, `"code":"internal"`, false},
		{"browser_observe", map[string]any{"action": "targets"}, `"code":"internal"`, false},
	} {
		r.mu.Lock()
		r.calls, r.refused = nil, nil
		r.mu.Unlock()
		res := call(t, s, c.tool, c.args)
		got := text(res.StructuredContent)
		var inText any
		if err := json.Unmarshal([]byte(res.Content[0].(*sdk.TextContent).Text), &inText); err != nil || text(inText) != got {
			t.Errorf("%s: the text differs: %s", c.tool, text(res))
		}
		if !res.IsError || !strings.Contains(got, c.want) || strings.Contains(text(res), "canary") {
			t.Errorf("%s %.60v: %s", c.tool, c.args, got)
		}
		if len(r.calls)+len(r.refused) != 1 || (len(r.refused) == 1) != c.refused {
			t.Errorf("%s %.60v: %d calls, %d refused", c.tool, c.args, len(r.calls), len(r.refused))
		}
	}
}

// S3.35: a picture is an image block; its base64 is in no structured content.
func TestPicture(t *testing.T) {
	r := newRig(t, Options{})
	png := []byte("\x89PNG picture")
	r.answer(func(context.Context, *browserhost.Call) (*browserhost.Result, error) {
		return &browserhost.Result{Value: map[string]any{"mime": "image/png", "width": 2, "height": 1, "bytes": len(png)},
			Image: &browserhost.Image{MIME: "image/png", Width: 2, Height: 1, Data: png}}, nil
	})
	res := call(t, r.connect(ada, "", nil), "browser_observe", map[string]any{"action": "screenshot", "page_id": "p1"})
	if want := `{"bytes":12,"content_delivery":"mcp_image","height":1,"mime":"image/png","width":2}`; text(res.StructuredContent) != want {
		t.Errorf("%s", text(res.StructuredContent))
	}
	img, ok := res.Content[0].(*sdk.ImageContent)
	if !ok || img.MIMEType != "image/png" || !bytes.Equal(img.Data, png) || len(res.Content) != 2 {
		t.Errorf("%s", text(res))
	}
}

// Contract B: the whole answer, both copies of the value counted, is at most
// MaxAnswer; of an effect it says that it happened.
func TestAnswerBound(t *testing.T) {
	const fixed = len(`{"t":""}`) + len(`"{\"t\":\"\"}"`)
	for extra, ok := range []bool{true, false} {
		n := (browserhost.MaxAnswer-fixed)/2 + extra
		res, err := frame(&browserhost.Result{Value: map[string]any{"t": strings.Repeat("a", n)}})
		if (err == nil) != ok || ok && res == nil {
			t.Errorf("%d: %v", n, err)
		}
	}
	r := newRig(t, Options{})
	r.answer(func(context.Context, *browserhost.Call) (*browserhost.Result, error) {
		return &browserhost.Result{Value: map[string]any{"t": strings.Repeat("a", browserhost.MaxAnswer/2)}}, nil
	})
	res := call(t, r.connect(ada, "", nil), "browser_act", map[string]any{"action": "close_page", "page_id": "p1"})
	if !strings.Contains(text(res.StructuredContent), `{"execution_state":"completed"},"code":"upstream_error"`) {
		t.Errorf("%.200s", text(res.StructuredContent))
	}
}

// K22, S3.9: a client sees the tools of its device's scopes, as they are at
// that moment, with hints; the whole listing stays small.
func TestTools(t *testing.T) {
	for _, version := range revisions {
		r := newRig(t, Options{})
		r.grant(browserhost.ScopeRead)
		s := r.connect(ada, version, nil)
		res, err := s.ListTools(t.Context(), nil)
		if err != nil || len(res.Tools) != 1 || res.Tools[0].Name != "browser_observe" {
			t.Fatalf("%s: %v %s", version, err, text(res))
		}
		r.grant(browserhost.DefaultScopes()...)
		if res, err = s.ListTools(t.Context(), nil); err != nil || len(res.Tools) != len(browserhost.Tools) {
			t.Fatalf("%s: %v %s", version, err, text(res))
		}
		hints := map[string]string{}
		for _, tool := range res.Tools {
			hints[tool.Name] = text(tool.Annotations)
			if tool.Description == "" || tool.InputSchema.(map[string]any)["additionalProperties"] != false {
				t.Errorf("%s: %s", version, text(tool))
			}
		}
		for name, want := range map[string]string{
			"browser_observe":        `{"idempotentHint":false,"openWorldHint":true,"readOnlyHint":true}`,
			"browser_act":            `{"destructiveHint":true,"idempotentHint":false,"openWorldHint":true,"readOnlyHint":false}`,
			"request_access":         `{"destructiveHint":false,"idempotentHint":false,"openWorldHint":false,"readOnlyHint":false}`,
			"browser_profile_revoke": `{"destructiveHint":true,"idempotentHint":false,"openWorldHint":false,"readOnlyHint":false}`,
		} {
			if hints[name] != want {
				t.Errorf("%s: hints of %s: %s", version, name, hints[name])
			}
		}
		if n := len(text(res.Tools)); n > 8<<10 {
			t.Errorf("the listing has %d bytes", n)
		}
		call(t, s, "browser_observe", map[string]any{"action": "targets"})
		r.grant()
		call(t, s, "browser_observe", map[string]any{"action": "targets"})
		if a, b := r.calls[0].Actor, r.calls[1].Actor; !a.Has(browserhost.ScopeRead) || b.Has(browserhost.ScopeRead) {
			t.Errorf("%s: a call has the scopes of another request: %v, %v", version, a.Scopes, b.Scopes)
		}
	}
}

// Only what is declared is served; each message that is no tool call is noted once.
func TestProtocol(t *testing.T) {
	for _, version := range revisions {
		r := newRig(t, Options{})
		s := r.connect(ada, version, nil)
		caps := text(s.InitializeResult().Capabilities)
		if caps != `{"prompts":{"listChanged":false},"resources":{"listChanged":false,"subscribe":false},"tools":{"listChanged":false}}` {
			t.Errorf("%s: declares %s", version, caps)
		}
		if res, err := s.ListPrompts(t.Context(), nil); err != nil || len(res.Prompts) != 0 {
			t.Errorf("%s: prompts: %v", version, err)
		}
		if _, err := s.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "x"}); err == nil || !strings.Contains(err.Error(), "method not found") {
			t.Errorf("%s: a prompt: %v", version, err)
		}
		if _, err := s.ListTools(t.Context(), nil); err != nil {
			t.Error(err)
		}
		call(t, s, "browser_observe", map[string]any{"action": "targets"})
		var seen []string
		for _, n := range r.notes {
			if n.Actor.Device != ada || (n.Run != "") != (version != "") {
				t.Errorf("%s: %+v", version, n)
			}
			if n.Err != nil {
				n.Method += "!"
			}
			seen = append(seen, n.Method)
		}
		first := map[bool]string{true: "server/discover", false: "initialize"}[version == ""]
		if got, want := strings.Join(seen, " "), first+" prompts/list prompts/get! tools/list"; got != want {
			t.Errorf("%s: noted %s, want %s", version, got, want)
		}
	}
}

// Without a guard in front nobody is anybody.
func TestNoGuardNoService(t *testing.T) {
	h := New(Options{})
	w := httptest.NewRecorder()
	req := httptest.NewRequest("POST", "/mcp", strings.NewReader(`{}`))
	req.Header.Set("Authorization", "Bearer x")
	h.ServeHTTP(w, req)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("%d", w.Code)
	}
	h.Close(t.Context())
}
