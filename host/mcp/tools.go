package mcp

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"time"

	"browserhost"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// receive sees every message. Tools are answered here and not by the SDK's own
// registry, because which ones there are depends on who asks. What this host
// does not have it says it has not: the SDK would pretend otherwise.
func (h *Handler) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		actor, session := actorOf(req), req.GetSession().(*sdk.ServerSession)
		h.known.used(actor.Device, session, 0)
		start := time.Now()
		var result sdk.Result
		var err error
		switch method {
		case "tools/call":
			return h.call(ctx, req.(*sdk.CallToolRequest), actor)
		case "tools/list":
			result = list(actor)
		case "initialize":
			if result, err = next(ctx, method, req); err == nil {
				h.admit(actor, session)
			}
		case "server/discover", "prompts/list", "resources/list", "resources/templates/list":
			result, err = next(ctx, method, req)
		case "ping", "notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed":
			return next(ctx, method, req) // too frequent or too empty for a row
		default:
			err = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " is not served here"}
		}
		note := Note{Method: method, Actor: actor, Run: session.ID(), Took: time.Since(start)}
		if err != nil {
			note.Err = browserhost.Hide(browserhost.CodeNotFound, err, "not served")
		}
		h.opts.Note(ctx, note)
		return result, err
	}
}

// admit counts a new session; requests that stand alone have none.
func (h *Handler) admit(actor browserhost.Actor, session *sdk.ServerSession) {
	if session.ID() == "" {
		return
	}
	if old := h.known.opened(actor.Device, session, slices.Collect(h.server.Sessions())); old != nil {
		h.background(func() { old.Close() }) // waits for the calls at work in it
	}
}

// list is what the actor may call (K22). It is for nobody else to keep.
func list(actor browserhost.Actor) *sdk.ListToolsResult {
	out := &sdk.ListToolsResult{Tools: []*sdk.Tool{}, Cacheable: sdk.Cacheable{CacheScope: "private"}}
	for _, t := range browserhost.Visible(actor) {
		out.Tools = append(out.Tools, &sdk.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Schema(), Annotations: hints(t)})
	}
	return out
}

// hints says how a tool behaves (S3.9). What is under profile:use stays on
// this computer; the rest meets the web.
func hints(t browserhost.Tool) *sdk.ToolAnnotations {
	effect := slices.ContainsFunc(t.Actions, func(a browserhost.Action) bool { return a.Effect })
	web := slices.ContainsFunc(t.Actions, func(a browserhost.Action) bool { return a.Scope != browserhost.ScopeProfile })
	out := &sdk.ToolAnnotations{ReadOnlyHint: t.ReadOnly, OpenWorldHint: &web}
	if !t.ReadOnly {
		out.DestructiveHint = &effect
	}
	return out
}

// call serves one call of one tool.
func (h *Handler) call(ctx context.Context, req *sdk.CallToolRequest, actor browserhost.Actor) (*sdk.CallToolResult, error) {
	h.known.used(actor.Device, req.Session, 1)
	defer h.known.used(actor.Device, req.Session, -1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	raw := []byte(req.Params.Arguments)
	call := &browserhost.Call{ID: rand.Text(), Tool: req.Params.Name, Raw: raw, Actor: actor, Run: req.Session.ID(), Door: "mcp"}
	var err error
	if call.Operation, call.Args, err = browserhost.Parse(call.Tool, raw); err != nil {
		return failure(h.opts.Refused(ctx, call, err)), nil
	}
	defer h.reassure(ctx, req)()
	result, err := h.opts.Line.ServeTool(ctx, call)
	if err != nil {
		return failure(err), nil
	}
	out, err := frame(result)
	if err != nil {
		if browserhost.ActionOf(call.Operation).Effect {
			err = browserhost.AsError(err).State(browserhost.Completed) // done; only its answer could not be made
		}
		return failure(err), nil
	}
	return out, nil
}

// reassure sends progress to a client that gave a token, until the function
// that it returns is called (S1.29e).
func (h *Handler) reassure(ctx context.Context, req *sdk.CallToolRequest) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		start, tick := time.Now(), time.NewTicker(h.opts.progress)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			p := &sdk.ProgressNotificationParams{ProgressToken: token, Progress: time.Since(start).Seconds(), Message: "at work"}
			if req.Session.NotifyProgress(ctx, p) != nil {
				return // nobody listens any more
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// frame is the one framing of an answer, pictures included: the value as
// structured content and as text, a picture as an image block, so that its
// base64 is in no structured content (S3.35).
func frame(result *browserhost.Result) (*sdk.CallToolResult, error) {
	if result == nil {
		return nil, errors.New("the line answered nothing")
	}
	value, err := encode(result.Value)
	if err != nil {
		return nil, err
	}
	var content []sdk.Content
	size := 0
	if img := result.Image; img != nil {
		facts := map[string]any{}
		if err := json.Unmarshal(value, &facts); err != nil {
			return nil, fmt.Errorf("the facts of a picture: %w", err)
		}
		facts["content_delivery"] = "mcp_image"
		if value, err = encode(facts); err != nil {
			return nil, err
		}
		size = base64.StdEncoding.EncodedLen(len(img.Data))
		content = append(content, &sdk.ImageContent{MIMEType: img.MIME, Data: img.Data})
	}
	text, err := jsontext.AppendQuote(nil, value)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	if size += len(value) + len(text); size > browserhost.MaxAnswer { // contract B
		return nil, browserhost.Errorf(browserhost.CodeUpstream, "the answer is larger than %d bytes", browserhost.MaxAnswer)
	}
	content = append(content, &sdk.TextContent{Text: string(value)})
	return &sdk.CallToolResult{Content: content, StructuredContent: value}, nil
}

// failure is the AIP-14 envelope of an error, for the model to read.
func failure(err error) *sdk.CallToolResult {
	value, encodeErr := encode(browserhost.Failure(err))
	if encodeErr != nil { // its cause: what remains has none
		value, _ = encode(browserhost.Failure(encodeErr))
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: string(value)}}, StructuredContent: value}
}

// encode makes JSON. What the line has encoded already stays as it is.
func encode(v any) (jsontext.Value, error) {
	switch v := v.(type) {
	case nil:
		return jsontext.Value("{}"), nil
	case jsontext.Value:
		return v, nil
	}
	value, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return value, nil
}
