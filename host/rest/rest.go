// Package rest serves the tools over plain HTTP: GET /health for whoever may
// reach the port, GET /v1/tools, POST /v1/tools/{name} and GET /v1/providers
// for paired devices. It turns bytes into a [browserhost.Call], hands it down
// the line and turns what comes back into bytes; it decides nothing.
//
// Each answer is the AIP-14 envelope. What reached the line is answered with
// status 200, whatever became of it; another status means that no tool was
// called (contract G). The one table from code to status is in answer.go.
//
// host/guard stands in front: a request on /v1 carries the actor that the
// guard found, and its body is within its bound.
package rest

import (
	"context"
	"crypto/rand"
	"encoding/json/jsontext"
	"io"
	"net/http"
	"strings"
	"time"

	"browserhost"
)

// Note is a request that is no tool call, for the activity record.
type Note struct {
	Method string // "GET /v1/tools", a name of ours; "unknown" for a route that is not served
	Actor  browserhost.Actor
	Took   time.Duration
	Err    error
}

// Health is the answer to GET /health: nothing in it identifies the owner (S1.27).
type Health struct {
	OK        bool       `json:"ok"`
	Version   string     `json:"version"`
	Paused    bool       `json:"paused"`
	Instances []Instance `json:"instances"`
}

// Instance is one browser in [Health].
type Instance struct {
	Provider string            `json:"provider"`
	State    browserhost.State `json:"state"`
}

// Options complete the routes. All but Note and Refused are required.
type Options struct {
	// Line serves the calls.
	Line browserhost.Handler
	// Refused records a call whose arguments were refused and returns what the
	// caller is told, which may be another refusal. Nil tells the caller err.
	Refused func(ctx context.Context, call *browserhost.Call, err error) error
	// Providers answers GET /v1/providers for one actor.
	Providers func(ctx context.Context, actor browserhost.Actor) any
	// Health answers GET /health.
	Health func(ctx context.Context) Health
	// Note records a device's request that is no tool call, before its answer
	// leaves. Nil records nothing.
	Note func(ctx context.Context, n Note)
}

type routes struct{ opts Options }

// New returns the routes. Paths are exact: nothing is cleaned or redirected.
func New(opts Options) http.Handler {
	if opts.Refused == nil {
		opts.Refused = func(_ context.Context, _ *browserhost.Call, err error) error { return err }
	}
	if opts.Note == nil {
		opts.Note = func(context.Context, Note) {}
	}
	return &routes{opts}
}

// ServeHTTP finds the route.
func (h *routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, isTool := strings.CutPrefix(r.URL.Path, "/v1/tools/")
	switch {
	case isTool && name != "" && !strings.Contains(name, "/"):
		if r.Method != http.MethodPost {
			h.refuse(w, r, "unknown", wrongMethod(w, http.MethodPost))
			return
		}
		h.serveTool(w, r, name)
	case r.URL.Path == "/v1/tools":
		h.serveGet(w, r, "GET /v1/tools", func() any { return success{true, listed(actor(r))} })
	case r.URL.Path == "/v1/providers":
		h.serveGet(w, r, "GET /v1/providers", func() any {
			return success{true, map[string]any{"providers": h.opts.Providers(r.Context(), actor(r))}}
		})
	case r.URL.Path == "/health":
		h.serveGet(w, r, "GET /health", func() any { return h.opts.Health(r.Context()) })
	default:
		h.refuse(w, r, "unknown", browserhost.Errorf(browserhost.CodeNotFound, "there is no such route"))
	}
}

func actor(r *http.Request) browserhost.Actor { return browserhost.ActorFrom(r.Context()) }

// serveGet answers a route that only looks.
func (h *routes) serveGet(w http.ResponseWriter, r *http.Request, method string, value func() any) {
	if r.Method != http.MethodGet {
		h.refuse(w, r, "unknown", wrongMethod(w, http.MethodGet))
		return
	}
	start := time.Now()
	body, err := encode(value())
	h.note(r, method, start, err)
	if err != nil {
		failed(w, err)
		return
	}
	write(w, http.StatusOK, body)
}

// refuse answers a request that is for no route.
func (h *routes) refuse(w http.ResponseWriter, r *http.Request, method string, err error) {
	h.note(r, method, time.Now(), err)
	failed(w, err)
}

// note records what a device did. What a stranger may do, ask for /health or
// for what is not there, fills no record.
func (h *routes) note(r *http.Request, method string, start time.Time, err error) {
	if a := actor(r); a.Device != "" {
		h.opts.Note(r.Context(), Note{Method: method, Actor: a, Took: time.Since(start), Err: err})
	}
}

// serveTool serves one call of one tool, whose arguments are the body: one
// JSON object, or nothing for a tool that needs none.
func (h *routes) serveTool(w http.ResponseWriter, r *http.Request, name string) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, browserhost.MaxHTTPBody))
	if err != nil {
		return // the guard has read it already, so this is no body of its
	}
	call := &browserhost.Call{ID: rand.Text(), Tool: name, Raw: raw, Actor: actor(r), Door: "http"}
	call.Operation, call.Args, err = browserhost.Parse(name, raw)
	if err != nil {
		code := browserhost.CodeOf(err)
		err = h.opts.Refused(r.Context(), call, err)
		switch {
		case code == browserhost.CodeNotFound, len(raw) > 0 && !jsontext.Value(raw).IsValid():
			failed(w, err) // no tool was named, or nothing that could be read
		default:
			answer(w, call, nil, err)
		}
		return
	}
	result, err := h.opts.Line.ServeTool(r.Context(), call)
	answer(w, call, result, err)
}

// tool is one entry of GET /v1/tools.
type tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	ReadOnly    bool           `json:"readOnly"`
	InputSchema map[string]any `json:"inputSchema"`
}

// listed lists what the actor may call, and nothing else (K22).
func listed(a browserhost.Actor) any {
	tools := []tool{}
	for _, t := range browserhost.Visible(a) {
		tools = append(tools, tool{t.Name, t.Description, t.ReadOnly, t.Schema()})
	}
	return map[string]any{"tools": tools}
}
