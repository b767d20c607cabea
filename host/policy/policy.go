// Package policy decides, before anything is dispatched, whether a caller may
// do what it asks. [Decide] is a function of who asks and what they ask, and
// of nothing else: the scopes on the device record against the scope that the
// tool table names for the exact operation. [Link] puts it on the line, and a
// [Limiter] beside it keeps one device from flooding the host.
package policy

import (
	"context"

	"browserhost"
)

// Decision is a verdict with its reason. The reason is plain and may be shown.
type Decision struct {
	Allow  bool
	Reason string
	Scope  browserhost.Scope // the scope that was asked for; "" for an unknown operation
}

// Decide says whether actor may do op (S3.8). Only a paired agent acts on the
// line: a human decides and watches, and does neither through here.
func Decide(actor browserhost.Actor, op browserhost.Operation) Decision {
	action, known := find(op)
	d := Decision{Scope: action.Scope}
	switch {
	case !known:
		d.Reason = "there is no such operation"
	case actor.Kind != browserhost.Agent || !actor.Device.Valid():
		d.Reason = "only a paired agent may call tools"
	case !actor.Has(action.Scope):
		d.Reason = "this device has not the scope " + string(action.Scope)
	default:
		d.Allow, d.Reason = true, "the device has the scope "+string(action.Scope)
	}
	return d
}

// Link refuses what [Decide] does not allow; next never sees it (S3.8, S3.11).
func Link(next browserhost.Handler) browserhost.Handler {
	return browserhost.HandlerFunc(func(ctx context.Context, call *browserhost.Call) (*browserhost.Result, error) {
		if d := Decide(call.Actor, call.Operation); !d.Allow {
			return nil, refusal(call.Operation, browserhost.Errorf(browserhost.CodeUnauthorised, "%s", d.Reason).With("scope", d.Scope))
		}
		return next.ServeTool(ctx, call)
	})
}

// refusal says of an effect that it was not started (contract F).
func refusal(op browserhost.Operation, e *browserhost.Error) *browserhost.Error {
	if action, known := find(op); !known || action.Effect {
		return e.State(browserhost.NotStarted)
	}
	return e
}

func find(op browserhost.Operation) (browserhost.Action, bool) {
	for _, t := range browserhost.Tools {
		for _, a := range t.Actions {
			if a.Operation == op {
				return a, true
			}
		}
	}
	return browserhost.Action{}, false
}
