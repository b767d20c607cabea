package operator

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"
	"strings"

	"browserhost"
)

// verb is one row of control.sock: its name, its half, and how it is done.
type verb struct {
	name  string
	human bool // of the wide half: only for a person
	// subject is what a person must type to confirm, nil when the verb changes nothing.
	subject func(context.Context, *Desk, jsontext.Value) (string, error)
	do      func(context.Context, *Desk, jsontext.Value) (any, error)
}

// Empty is what a verb takes or gives when there is nothing to say.
type Empty struct{}

type (
	idArgs struct {
		ID string `json:"id"`
	}
	scanArgs struct {
		Source  string   `json:"source"`
		Domains []string `json:"domains,omitzero"`
	}
	devicesReply struct {
		Devices []browserhost.Device `json:"devices"`
	}
	grantsReply struct {
		Grants []Grant `json:"grants"`
	}
	requestsReply struct {
		Requests []Request `json:"requests"`
	}
	sourcesReply struct {
		Sources []Source `json:"sources"`
	}
	sitesReply struct {
		Sites []Site `json:"sites"`
	}
	requestReply struct {
		Request Request `json:"request"`
	}
	ledgerReply struct {
		Ledger Ledger `json:"ledger"`
	}
)

// narrow and wide build the rows with their types.
func narrow[A, R any](name string, do func(context.Context, *Desk, A) (R, error)) verb {
	return verb{name: name, do: func(ctx context.Context, d *Desk, raw jsontext.Value) (any, error) {
		args, err := parse[A](raw)
		if err != nil {
			return nil, err
		}
		r, err := do(ctx, d, args)
		return success[R]{true, r}, err
	}}
}

func wide[A, R any](name string, subject func(context.Context, *Desk, A) (string, error), do func(context.Context, *Desk, A) (R, error)) verb {
	v := narrow(name, do)
	v.human = true
	if subject != nil {
		v.subject = func(ctx context.Context, d *Desk, raw jsontext.Value) (string, error) {
			args, err := parse[A](raw)
			if err != nil {
				return "", err
			}
			return subject(ctx, d, args)
		}
	}
	return v
}

// verbs is the whole of what control.sock serves (S1.44).
var verbs = []verb{
	narrow("status", func(ctx context.Context, d *Desk, _ Empty) (Status, error) { return d.Status(ctx) }),
	narrow("devices", func(ctx context.Context, d *Desk, _ Empty) (devicesReply, error) {
		l, err := d.Devices(ctx)
		return devicesReply{l}, err
	}),
	narrow("device.revoke", func(ctx context.Context, d *Desk, a idArgs) (Unpaired, error) {
		return d.RevokeDevice(ctx, browserhost.DeviceID(a.ID))
	}),
	narrow("grants", func(ctx context.Context, d *Desk, _ Empty) (grantsReply, error) {
		l, err := d.Grants(ctx)
		return grantsReply{l}, err
	}),
	narrow("revoke", func(ctx context.Context, d *Desk, a idArgs) (Revoked, error) {
		return d.Revoke(ctx, browserhost.GrantID(a.ID))
	}),
	narrow("requests", func(ctx context.Context, d *Desk, _ Empty) (requestsReply, error) {
		l, err := d.Requests(ctx)
		return requestsReply{l}, err
	}),
	narrow("deny", func(ctx context.Context, d *Desk, a idArgs) (requestReply, error) {
		r, err := d.Deny(ctx, a.ID)
		return requestReply{r}, err
	}),
	narrow("ledger.info", func(ctx context.Context, d *Desk, _ Empty) (ledgerReply, error) {
		l, err := d.Ledger(ctx)
		return ledgerReply{l}, err
	}),
	narrow("stop", func(ctx context.Context, d *Desk, _ Empty) (Empty, error) { return Empty{}, d.Stop(ctx) }),

	wide("sources", nil, func(ctx context.Context, d *Desk, _ Empty) (sourcesReply, error) {
		l, err := d.Sources(ctx)
		return sourcesReply{l}, err
	}),
	wide("scan", nil, func(ctx context.Context, d *Desk, a scanArgs) (sitesReply, error) {
		l, err := d.Scan(ctx, a.Source, a.Domains)
		return sitesReply{l}, err
	}),
	wide("grant",
		func(_ context.Context, _ *Desk, a GrantSpec) (string, error) { return Subject(a.Domains), nil },
		func(ctx context.Context, d *Desk, a GrantSpec) (Granted, error) { return d.Grant(ctx, a) }),
	wide("requests.allow", allowSubject,
		func(ctx context.Context, d *Desk, a AllowSpec) (Granted, error) { return d.Allow(ctx, a) }),
	wide("pair",
		func(_ context.Context, _ *Desk, a PairSpec) (string, error) { return a.Name, nil },
		func(ctx context.Context, d *Desk, a PairSpec) (Paired, error) { return d.Pair(ctx, a) }),
}

// Subject is what a person types to confirm a grant: its sites, in their
// order, with a space between them.
func Subject(domains []string) string { return strings.Join(domains, " ") }

// allowSubject is the sites that the decision is about: those chosen, or all
// that the request names.
func allowSubject(ctx context.Context, d *Desk, a AllowSpec) (string, error) {
	if len(a.Domains) > 0 {
		return Subject(a.Domains), nil
	}
	all, err := d.Requests(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(r Request) bool { return r.ID == a.RequestID })
	if i < 0 {
		return "", browserhost.Errorf(browserhost.CodeNotFound, "there is no such request")
	}
	return Subject(all[i].Domains), nil
}

// success is a reply: ok beside the fields of the value.
type success[R any] struct {
	OK    bool `json:"ok"`
	Value R    `json:",embed"`
}

// head is what every line has beside its verb's own fields.
type head struct {
	Op      string         `json:"op"`
	Confirm string         `json:"confirm,omitzero"` // what the person typed
	Rest    jsontext.Value `json:",embed"`           // the fields of the verb
}

// decode reads one line. It is strict: one JSON object, no name twice, at most
// maxLine bytes, a verb that exists.
func decode(line []byte) (verb, head, error) {
	var h head
	if len(line) > maxLine {
		return verb{}, h, browserhost.Errorf(browserhost.CodeInputInvalid, "the line is longer than %d bytes", maxLine)
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return verb{}, h, browserhost.Hide(browserhost.CodeInputInvalid, err, "the line is not one JSON object with a text op")
	}
	if h.Rest == nil {
		h.Rest = jsontext.Value("{}")
	}
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == h.Op })
	if i < 0 {
		return verb{}, h, browserhost.Errorf(browserhost.CodeNotFound, "there is no such op")
	}
	return verbs[i], h, nil
}

// parse reads the fields of a verb; an unknown one is an error.
func parse[A any](raw jsontext.Value) (A, error) {
	var a A
	if err := json.Unmarshal(raw, &a, json.RejectUnknownMembers(true)); err != nil {
		return a, browserhost.Hide(browserhost.CodeInputInvalid, err, "a field is unknown or has the wrong type")
	}
	return a, nil
}
