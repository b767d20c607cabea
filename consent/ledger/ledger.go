// Package ledger writes down what was lent to whom, by whom, and what became
// of it: the consent record of AIP-63 §4.2, kept in a chained file.
//
// A record comes before the thing that it records: it is on the disk when
// [Ledger.Append] returns, and if it cannot be, nothing is lent (AIP-63 C1,
// C10). The shape is closed. No field can hold a value of a cookie; of names
// there are only keyed hashes.
package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/v2"
	"iter"
	"time"

	"browserhost"
	"browserhost/consent/chain"
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
	SessionID   string              `json:"sessionId,omitzero"`
	Domains     []string            `json:"domains,omitempty"`
	FullProfile bool                `json:"fullProfile,omitzero"`
	CookieCount *int                `json:"cookieCount,omitzero"`
	NameHashes  []string            `json:"nameHashes,omitempty"`
	SinkID      string              `json:"sinkId,omitzero"`
	Derived     *Derived            `json:"derived,omitzero"`
	Reason      string              `json:"reason,omitzero"` // at most 500 characters

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

// Ledger appends records. It is safe for concurrent use.
type Ledger struct{ rows browserhost.Appender }

// New makes a ledger over a chained file.
func New(rows browserhost.Appender) *Ledger { return &Ledger{rows} }

// Append checks the record, writes it, and returns its number when it is on
// the disk. A record that is not valid is input_invalid, and nothing is written.
func (l *Ledger) Append(ctx context.Context, r Record) (int64, error) {
	if r.Seq != nil || r.At != "" || r.Prev != "" {
		return 0, invalid("seq, at and prev are the chain's")
	}
	if err := r.valid(); err != nil {
		return 0, err
	}
	seq, _, err := l.rows.Append(ctx, r)
	if err != nil {
		return 0, err
	}
	return seq, l.rows.Durable(ctx)
}

// Deny records an attempt that was refused. The reason is cut at 500 characters.
func (l *Ledger) Deny(ctx context.Context, actor browserhost.Actor, reason string) error {
	if long := []rune(reason); len(long) > maxReason {
		reason = string(long[:maxReason])
	}
	_, err := l.Append(ctx, Record{Event: Deny, Actor: ActorOf(actor), Reason: reason})
	return err
}

// NameHashes hashes the distinct names of a grant's cookies, in their first
// order, under the host's secret: without it nobody can guess the names.
func NameHashes(ctx context.Context, keys browserhost.Keys, id browserhost.GrantID, names []string) ([]string, error) {
	var out []string
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		mac, err := keys.MAC(ctx, "cookie name", salted(id, name))
		if err != nil {
			return nil, err
		}
		out = append(out, hex.EncodeToString(mac))
	}
	return out, nil
}

// PlainNameHash is the hash that AIP-63's text describes, without a secret. It
// occurs in ledgers of other hosts; ours never writes it.
func PlainNameHash(id browserhost.GrantID, name string) string {
	sum := sha256.Sum256(salted(id, name))
	return hex.EncodeToString(sum[:])
}

func salted(id browserhost.GrantID, name string) []byte {
	return append(append([]byte(id), 0), name...)
}

// Parse reads one line, strictly: an unknown member is an error.
func Parse(line []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(line, &r, json.RejectUnknownMembers(true)); err != nil {
		return r, browserhost.Hide(browserhost.CodeInputInvalid, err, "a line of the ledger has an unknown member or a wrong type")
	}
	if r.Seq == nil || *r.Seq < 0 {
		return r, invalid("seq is missing")
	}
	if _, err := time.Parse(time.RFC3339, r.At); err != nil {
		return r, invalid("at is not a time")
	}
	return r, r.valid()
}

// Read yields the records of the ledger at path. A line that is none comes
// with its error, and reading goes on.
func Read(ctx context.Context, path string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for line, err := range chain.Lines(ctx, path) {
			var r Record
			if err == nil {
				r, err = Parse(line)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}
