package ledger

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"regexp"
	"slices"
	"time"
	"unicode/utf16"

	"browserhost"
)

// Event is what happened.
type Event string

// The events of AIP-63.
const (
	Grant   Event = "grant"
	Refresh Event = "refresh"
	Revoke  Event = "revoke"
	SinkAck Event = "sink-ack"
	Deny    Event = "deny"
)

// Record is one row. Members stand in the order in which they are written; the
// last three are the chain's and are empty in a record that is to be appended.
type Record struct {
	Event       Event               `json:"event"`
	Actor       Actor               `json:"actor"`
	GrantID     browserhost.GrantID `json:"grantId,omitzero"`
	SessionID   string              `json:"sessionId,omitzero"` // the profile's name
	Domains     []string            `json:"domains,omitzero"`
	FullProfile bool                `json:"fullProfile,omitzero"`
	CookieCount *int                `json:"cookieCount,omitzero"`
	NameHashes  []string            `json:"nameHashes,omitzero"` // see NameHashes
	SinkID      string              `json:"sinkId,omitzero"`     // a provider's id
	Derived     *Derived            `json:"derived,omitzero"`
	Reason      string              `json:"reason,omitzero"` // at most 500 characters, as JavaScript counts them

	Seq  *int64 `json:"seq,omitzero"`
	At   string `json:"at,omitzero"`
	Prev string `json:"prev,omitzero"`
}

// Actor is who did it, as the channel proved it (AIP-63 C7).
type Actor struct {
	Kind     browserhost.Kind     `json:"kind"`
	Via      string               `json:"via,omitzero"`
	DeviceID browserhost.DeviceID `json:"deviceId,omitzero"`
}

// ActorOf is the actor as it is recorded: without its name.
func ActorOf(a browserhost.Actor) Actor {
	return Actor{Kind: a.Kind, Via: a.Via, DeviceID: a.Device}
}

// Derived says what became of what was made of a grant, here and at the sink
// (AIP-63 C8).
type Derived struct {
	Local  string `json:"local"`  // "deleted" or "none"
	Remote string `json:"remote"` // "confirmed", "unavailable", "failed" or "not-applicable"
}

// Parse reads one line of a ledger, ours or another host's, strictly: a member
// that AIP-63 does not know, or one that is there without a value, is an error.
// The errors are input_invalid.
func Parse(line []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(line, &r, json.RejectUnknownMembers(true)); err != nil {
		return Record{}, browserhost.Hide(browserhost.CodeInputInvalid, err, "a line of the ledger is not a consent record")
	}
	var given presence
	if err := json.Unmarshal(line, &given); err != nil {
		return Record{}, browserhost.Hide(browserhost.CodeInputInvalid, err, "a line of the ledger is not a consent record")
	}
	_, badTime := time.Parse(time.RFC3339, r.At)
	switch {
	case given.hollow():
		return Record{}, invalid("a member is there without a value")
	case r.Seq == nil || *r.Seq < 0:
		return Record{}, invalid("seq is no number from 0")
	case badTime != nil:
		return Record{}, invalid("at is no time")
	}
	if err := r.valid(); err != nil {
		return Record{}, err
	}
	return r, nil
}

// presence is what a record gives, to tell an empty member from an absent one.
type presence struct {
	GrantID     jsontext.Value `json:"grantId"`
	SessionID   jsontext.Value `json:"sessionId"`
	FullProfile jsontext.Value `json:"fullProfile"`
	Domains     jsontext.Value `json:"domains"`
	CookieCount jsontext.Value `json:"cookieCount"`
	NameHashes  jsontext.Value `json:"nameHashes"`
	SinkID      jsontext.Value `json:"sinkId"`
	Derived     jsontext.Value `json:"derived"`
	Reason      jsontext.Value `json:"reason"`
	Prev        jsontext.Value `json:"prev"`
	Actor       struct {
		Via      jsontext.Value `json:"via"`
		DeviceID jsontext.Value `json:"deviceId"`
	} `json:"actor"`
}

// hollow reports whether a member is null, false or, where that is no value,
// the empty string.
func (p presence) hollow() bool {
	for _, v := range []jsontext.Value{
		p.GrantID, p.SessionID, p.FullProfile, p.Domains, p.CookieCount, p.NameHashes, p.SinkID, p.Derived, p.Reason, p.Prev, p.Actor.Via, p.Actor.DeviceID,
	} {
		if k := v.Kind(); k == 'n' || k == 'f' {
			return true
		}
	}
	for _, v := range []jsontext.Value{p.GrantID, p.SessionID, p.Prev, p.Actor.DeviceID} {
		if string(v) == `""` {
			return true
		}
	}
	return false
}

const (
	maxReason = 500 // UTF-16 units: what JavaScript calls the length
	maxDomain = 253 // bytes
)

var (
	hashForm   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	domainForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+([a-z]{2,63}|xn--[a-z0-9-]{1,59})$`)

	kinds   = []browserhost.Kind{browserhost.Human, browserhost.Agent, browserhost.System}
	locals  = []string{"deleted", "none"}
	remotes = []string{"confirmed", "unavailable", "failed", "not-applicable"}
)

func invalid(why string) error {
	return browserhost.Errorf(browserhost.CodeInputInvalid, "a consent record is not valid: %s", why)
}

// valid holds a record against AIP-63 §4.2: what every record may hold, and
// what its event needs.
func (r Record) valid() error {
	switch {
	case !slices.Contains(kinds, r.Actor.Kind):
		return invalid("the actor is of no known kind")
	case r.CookieCount != nil && *r.CookieCount < 0:
		return invalid("cookieCount is negative")
	case length(r.Reason) > maxReason:
		return invalid("the reason is too long")
	case slices.ContainsFunc(r.Domains, func(d string) bool { return len(d) > maxDomain || !domainForm.MatchString(d) }):
		return invalid("a domain is malformed")
	case slices.ContainsFunc(r.NameHashes, func(h string) bool { return !hashForm.MatchString(h) }):
		return invalid("a name hash is malformed")
	case r.Prev != "" && !hashForm.MatchString(r.Prev):
		return invalid("prev is malformed")
	case r.Derived != nil && !(slices.Contains(locals, r.Derived.Local) && slices.Contains(remotes, r.Derived.Remote)):
		return invalid("derived has an unknown outcome")
	}
	return r.complete()
}

// complete says what the event lacks. An agent never grants, and only a human
// acknowledges a sink (AIP-63 C6, C7).
func (r Record) complete() error {
	switch r.Event {
	case Grant:
		if r.GrantID == "" || r.SessionID == "" || r.CookieCount == nil || (len(r.Domains) > 0) == r.FullProfile {
			return invalid("a grant needs grantId, sessionId, cookieCount and either domains or fullProfile")
		}
		if r.Actor.Kind == browserhost.Agent {
			return invalid("an agent cannot grant")
		}
	case Refresh:
		if r.GrantID == "" || len(r.Domains) == 0 || r.CookieCount == nil {
			return invalid("a refresh needs grantId, domains and cookieCount")
		}
	case Revoke:
		if r.GrantID == "" || r.Derived == nil {
			return invalid("a revoke needs grantId and derived")
		}
	case SinkAck:
		if r.GrantID == "" || r.SinkID == "" || r.Actor.Kind != browserhost.Human {
			return invalid("a sink-ack needs grantId, sinkId and a human")
		}
	case Deny:
		if r.Reason == "" {
			return invalid("a deny needs a reason")
		}
	default:
		return invalid("the event is unknown")
	}
	return nil
}

// length counts UTF-16 units.
func length(s string) (n int) {
	for _, r := range s {
		n += max(1, utf16.RuneLen(r))
	}
	return n
}

// cut shortens a reason to what a record takes.
func cut(s string) string {
	n := 0
	for i, r := range s {
		if n += max(1, utf16.RuneLen(r)); n > maxReason {
			return s[:i]
		}
	}
	return s
}
