package gate

import (
	"context"
	"slices"

	"browserhost"
)

// Allowed answers request_access when the owner said yes.
type Allowed struct {
	Status      string              `json:"status"` // "allowed"
	RequestID   string              `json:"request_id"`
	RequestCode string              `json:"request_code"`
	GrantID     browserhost.GrantID `json:"grant_id"`
	Domains     []string            `json:"domains"` // of the grant: what was asked for, or less
	ExpiresAt   string              `json:"expires_at,omitzero"`
}

// ask files a request, or looks at an earlier one, and waits for the owner.
// There is one good answer; whatever else comes of it is CodeConsentRequired
// with the request in its cause (contract I). No argument chooses the source,
// the device or the duration (S1.43).
func (g *Gate) ask(ctx context.Context, call *browserhost.Call) (*browserhost.Result, error) {
	id, err := g.request(ctx, call)
	if err != nil {
		return nil, err
	}
	patience, stop := context.WithTimeout(ctx, g.opts.Ask)
	defer stop()
	r, err := g.opts.Requests.Wait(patience, call.Actor.Device, id)
	if err != nil {
		return nil, err
	}
	if r.Status != "allowed" {
		return nil, unanswered(r)
	}
	grants := g.opts.Lender.For(call.Actor.Device)
	i := slices.IndexFunc(grants, func(have browserhost.Grant) bool { return have.ID == r.GrantID })
	if i < 0 {
		return nil, refusal(r, "the request was allowed, and the grant has ended since").With("reason", "grant_revoked")
	}
	return &browserhost.Result{Value: Allowed{r.Status, r.ID, r.Code, r.GrantID, grants[i].Domains, grants[i].ExpiresAt}}, nil
}

// request returns the id of the request that the call is about.
func (g *Gate) request(ctx context.Context, call *browserhost.Call) (string, error) {
	a := call.Args
	bad := func(field, why string) error {
		return browserhost.Errorf(browserhost.CodeInputInvalid, "%s: %s", field, why).With("field", field)
	}
	switch {
	case a.RequestID != "" && (len(a.Domains) > 0 || a.Reason != ""):
		return "", bad("request_id", "an earlier request is polled by its id alone")
	case a.RequestID != "":
		return a.RequestID, nil
	case len(a.Domains) == 0:
		return "", bad("domains", "is required, or request_id")
	case a.Reason == "":
		return "", bad("reason", "is required")
	}
	r, err := g.opts.Requests.File(ctx, call.Actor, a.Domains, a.Reason)
	return r.ID, err
}

// unanswered is a request that is not allowed, or not yet.
func unanswered(r Filed) *browserhost.Error {
	switch r.Status {
	case "pending":
		return refusal(r, "the owner has not answered yet").With("pending", true).With("expires_at", r.ExpiresAt).
			With("next", map[string]any{"tool": "request_access", "arguments": map[string]any{"request_id": r.ID}})
	case "denied":
		return refusal(r, "the owner refused the request")
	case "expired":
		return refusal(r, "nobody answered the request in time")
	}
	return refusal(r, "the request was withdrawn")
}

func refusal(r Filed, message string) *browserhost.Error {
	e := browserhost.Errorf(browserhost.CodeConsentRequired, "%s", message).
		With("domain", nil).With("request_id", r.ID).With("request_code", r.Code).With("status", r.Status)
	if len(r.Domains) > 0 {
		e.With("domain", r.Domains[0])
	}
	return e
}
