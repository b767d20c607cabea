package ledger

import (
	"regexp"
	"slices"
	"unicode/utf8"

	"browserhost"
)

// maxReason is the length of a reason, in characters.
const maxReason = 500

var (
	hashForm   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	domainForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+([a-z]{2,63}|xn--[a-z0-9-]{1,59})$`)
)

func invalid(why string) error {
	return browserhost.Errorf(browserhost.CodeInputInvalid, "a consent record is not valid: %s", why)
}

// valid holds a record against AIP-63 §4.2: what every record may hold, and
// what its event needs.
func (r Record) valid() error {
	switch {
	case !slices.Contains([]browserhost.Kind{browserhost.Human, browserhost.Agent, browserhost.System}, r.Actor.Kind):
		return invalid("the actor is of no known kind")
	case r.CookieCount != nil && *r.CookieCount < 0:
		return invalid("cookieCount is negative")
	case utf8.RuneCountInString(r.Reason) > maxReason:
		return invalid("the reason is too long")
	case slices.ContainsFunc(r.Domains, func(d string) bool { return len(d) > 253 || !domainForm.MatchString(d) }):
		return invalid("a domain is malformed")
	case slices.ContainsFunc(r.NameHashes, func(h string) bool { return !hashForm.MatchString(h) }):
		return invalid("a name hash is malformed")
	case r.Prev != "" && !hashForm.MatchString(r.Prev):
		return invalid("prev is malformed")
	case r.Derived != nil && !r.Derived.valid():
		return invalid("derived has an unknown outcome")
	}
	return r.complete()
}

func (d Derived) valid() bool {
	return slices.Contains([]string{"deleted", "none"}, d.Local) &&
		slices.Contains([]string{"confirmed", "unavailable", "failed", "not-applicable"}, d.Remote)
}

// complete says what the event lacks. Only people grant, and only a human
// acknowledges a sink (AIP-63 C6, C7).
func (r Record) complete() error {
	one := (len(r.Domains) > 0) != r.FullProfile
	switch r.Event {
	case Grant:
		if r.GrantID == "" || r.SessionID == "" || r.CookieCount == nil || !one {
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
