// Package host joins the links of the line and serves it: a request passes
// host/guard, is decoded by host/rest or host/mcp, and its call goes down
//
//	activity → limiter, policy → gate → fleet
//
// one link inside the other, and its result comes back the same way. Nothing
// is decided here; what there is to decide is in the links.
package host

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"browserhost"
	"browserhost/host/activity"
	"browserhost/host/fleet"
	"browserhost/host/guard"
	"browserhost/host/mcp"
	"browserhost/host/policy"
	"browserhost/host/rest"
)

// Fleet is the end of the line; [*fleet.Fleet] is one.
type Fleet interface {
	browserhost.Handler
	Status(ctx context.Context) []fleet.InstanceStatus
}

// Options are the links. All are required but Log.
type Options struct {
	// Guard knows the names of this host and its devices.
	Guard guard.Options
	// Recorder keeps one row per call, refused ones too.
	Recorder *activity.Recorder
	// Limiter keeps one device from flooding the others.
	Limiter *policy.Limiter
	// Gate is consent's link: it alone lends material to a call.
	Gate func(next browserhost.Handler) browserhost.Handler
	// Fleet ends the line.
	Fleet Fleet
	// Providers answers GET /v1/providers for one actor.
	Providers func(ctx context.Context, actor browserhost.Actor) any
	// Version is this program's.
	Version string
	// Log takes what no caller may see. Nil logs nothing.
	Log *slog.Logger
}

// Host is the agents' door. It is safe for concurrent use.
type Host struct {
	opts  Options
	guard *guard.Guard
	line  browserhost.Handler
	mcp   *mcp.Handler
	grace time.Duration // graceTime; a test shortens it

	// The routes, each behind the guard.
	protocol, tools, open http.Handler
}

// New joins the links. Serve, or the guarded [Host.ServeHTTP], makes it work.
func New(opts Options) *Host {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	h := &Host{opts: opts, guard: guard.New(opts.Guard), grace: graceTime}
	h.line = opts.Recorder.Link(opts.Limiter.Link(policy.Link(opts.Gate(opts.Fleet))))
	routes := rest.New(rest.Options{
		Line: h.line, Refused: h.refused, Providers: opts.Providers, Health: h.health,
		Note: func(ctx context.Context, n rest.Note) {
			opts.Recorder.Note(ctx, activity.Note{Protocol: activity.ProtocolHTTP, Method: n.Method, Actor: n.Actor, Took: n.Took, Err: n.Err})
		},
	})
	h.mcp = mcp.New(mcp.Options{
		Line: h.line, Refused: h.refused, Version: opts.Version, Log: opts.Log,
		Note: func(ctx context.Context, n mcp.Note) {
			opts.Recorder.Note(ctx, activity.Note{Protocol: activity.ProtocolMCP, Method: n.Method, Actor: n.Actor, Run: n.Run, Took: n.Took, Err: n.Err})
		},
	})
	h.protocol = h.guard.Device("mcp", h.mcp)
	h.tools = h.guard.Device("http", routes)
	h.open = h.guard.Open(routes)
	return h
}

// Line is the line without its codecs: for a caller in this process that knows
// who acts.
func (h *Host) Line() browserhost.Handler { return h.line }

// ServeHTTP finds the route. Paths are exact and each is behind the guard:
// whatever else is asked for meets the guard first and is 404 then.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/mcp":
		h.protocol.ServeHTTP(w, r)
	case strings.HasPrefix(path, "/v1/"):
		h.tools.ServeHTTP(w, r)
	default: // S2.20: /health is the one route without a credential
		h.open.ServeHTTP(w, r)
	}
}

// refused records a call whose arguments a codec refused: it has a row like any
// other call, and refused calls count against their device too, all in one
// bucket, since their tool may be any word.
func (h *Host) refused(ctx context.Context, call *browserhost.Call, why error) error {
	refuse := browserhost.HandlerFunc(func(context.Context, *browserhost.Call) (*browserhost.Result, error) { return nil, why })
	limited := h.opts.Limiter.Link(refuse)
	_, err := h.opts.Recorder.Link(browserhost.HandlerFunc(func(ctx context.Context, call *browserhost.Call) (*browserhost.Result, error) {
		return limited.ServeTool(ctx, &browserhost.Call{Tool: "refused", Actor: call.Actor})
	})).ServeTool(ctx, call)
	return err
}

// health answers GET /health (S1.27). Nothing can pause this host yet.
func (h *Host) health(ctx context.Context) rest.Health {
	out := rest.Health{OK: true, Version: h.opts.Version, Instances: []rest.Instance{}}
	for _, i := range h.opts.Fleet.Status(ctx) {
		out.Instances = append(out.Instances, rest.Instance{Provider: i.Provider, State: i.State})
	}
	return out
}
