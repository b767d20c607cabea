// Package gate is consent's link in the line. A call that opens a signed-in
// session is lent its device's material here and nowhere else, and only while
// the call runs (AIP-63 C1). The three tools of consent end here: asking the
// owner, listing what is granted, and giving it back.
//
// The gate can refuse and it can lend. What makes a grant cannot even be named
// from here (AIP-63 C7).
package gate

import (
	"context"
	"time"

	"browserhost"
	"browserhost/consent/narrow"
)

// Lender lends and ends grants: a [narrow.Lender].
type Lender interface {
	For(device browserhost.DeviceID) []browserhost.Grant
	Lend(ctx context.Context, device browserhost.DeviceID, sites []string, use func(context.Context, browserhost.Material) error) error
	Revoke(ctx context.Context, by browserhost.Actor, id browserhost.GrantID) (narrow.Revoked, error)
}

// Requests is where a device asks the owner. Wait returns when the request is
// answered, or, as it stands then, when ctx ends; a request of another device
// is one that never was.
type Requests interface {
	File(ctx context.Context, actor browserhost.Actor, domains []string, reason string) (Filed, error)
	Wait(ctx context.Context, device browserhost.DeviceID, id string) (Filed, error)
}

// Filed is a request as its device may see it.
type Filed struct {
	ID        string
	Code      string // for saying aloud, e.g. "K7-204"
	Status    string // pending, allowed, denied, expired or withdrawn
	Domains   []string
	GrantID   browserhost.GrantID // of an allowed one
	ExpiresAt string              // when it can no longer be answered
}

// Options are what a gate is made of. Ask is how long request_access waits for
// the owner; 0 means browserhost.AskTime.
type Options struct {
	Lender   Lender
	Requests Requests
	Ask      time.Duration
}

// Gate is the link. It is safe for concurrent use.
type Gate struct{ opts Options }

// New makes a gate.
func New(opts Options) *Gate {
	if opts.Ask <= 0 {
		opts.Ask = browserhost.AskTime
	}
	return &Gate{opts}
}

// Link puts the gate on the line.
func (g *Gate) Link(next browserhost.Handler) browserhost.Handler {
	return browserhost.HandlerFunc(func(ctx context.Context, call *browserhost.Call) (*browserhost.Result, error) {
		call.Material = nil // nobody else lends (S1.35)
		switch call.Operation {
		case browserhost.OpRequestAccess:
			return g.ask(ctx, call)
		case browserhost.OpProfileList:
			return g.list(call)
		case browserhost.OpProfileRevoke:
			return g.giveBack(ctx, call)
		case browserhost.OpLaunch:
			return g.launch(ctx, call, next)
		}
		return next.ServeTool(ctx, call)
	})
}

// launch lends what a signed-in launch asks for and passes every other one on.
func (g *Gate) launch(ctx context.Context, call *browserhost.Call, next browserhost.Handler) (*browserhost.Result, error) {
	if !call.Args.SignedIn {
		if len(call.Args.Sites) > 0 {
			return nil, browserhost.Errorf(browserhost.CodeInputInvalid, "sites: only a signed_in launch has sites").With("field", "sites").State(browserhost.NotStarted)
		}
		return next.ServeTool(ctx, call)
	}
	var res *browserhost.Result
	err := g.opts.Lender.Lend(ctx, call.Actor.Device, call.Args.Sites, func(ctx context.Context, m browserhost.Material) (err error) {
		call.Material = &m
		defer func() { call.Material = nil }()
		res, err = next.ServeTool(ctx, call)
		return err
	})
	if err != nil {
		return nil, effect(err, browserhost.NotStarted)
	}
	return res, nil
}

// effect gives an error of an effect the state that it lacks (contract F).
func effect(err error, state browserhost.Execution) error {
	e := browserhost.AsError(err)
	if e.Execution != "" {
		return e
	}
	c := *e
	return c.State(state)
}

// Grants answers browser_profile_list.
type Grants struct {
	Grants []Grant `json:"grants"`
}

// Grant is one grant as its device sees it: no value, and nothing about where
// the sign-in comes from.
type Grant struct {
	GrantID   browserhost.GrantID `json:"grant_id"`
	Domains   []string            `json:"domains"`
	Cookies   int                 `json:"cookies"`
	GrantedAt string              `json:"granted_at"`
	ExpiresAt string              `json:"expires_at,omitzero"`
}

// list shows a device its own grants (S1.41, AIP-63 C9, C12).
func (g *Gate) list(call *browserhost.Call) (*browserhost.Result, error) {
	out := Grants{Grants: []Grant{}}
	for _, have := range g.opts.Lender.For(call.Actor.Device) {
		out.Grants = append(out.Grants, Grant{have.ID, have.Domains, have.CookieCount, have.GrantedAt, have.ExpiresAt})
	}
	return &browserhost.Result{Value: out}, nil
}

// Returned answers browser_profile_revoke.
type Returned struct {
	ExecutionState  browserhost.Execution `json:"execution_state"`
	GrantID         browserhost.GrantID   `json:"grant_id"`
	Local           string                `json:"local"`
	Remote          string                `json:"remote"`
	ClosedPages     int                   `json:"closed_pages"`
	RotationPending bool                  `json:"rotation_pending"`
}

// giveBack ends one of the device's own grants.
func (g *Gate) giveBack(ctx context.Context, call *browserhost.Call) (*browserhost.Result, error) {
	r, err := g.opts.Lender.Revoke(ctx, call.Actor, browserhost.GrantID(call.Args.GrantID))
	if browserhost.CodeOf(err) == browserhost.CodeConsentRequired {
		return nil, effect(err, browserhost.NotStarted)
	}
	if err != nil {
		return nil, effect(err, browserhost.OutcomeUnknown)
	}
	return &browserhost.Result{Value: Returned{browserhost.Completed, r.ID, r.Local, r.Remote, r.Pages, r.Rotation}}, nil
}
