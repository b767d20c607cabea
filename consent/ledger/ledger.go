// Package ledger writes down what was lent to whom, by whom, and what became
// of it: the consent record of AIP-63 §4.2, kept in a chained file.
//
// A record comes before the thing that it records: it is on the disk when
// [Ledger.Append] returns, and if it cannot be, nothing is lent (AIP-63 C1,
// C10, S1.47). The shape is closed. No field can hold the value of a cookie; of
// names there are only keyed hashes.
package ledger

import (
	"context"
	"encoding/hex"
	"iter"
	"strings"

	"browserhost"
	"browserhost/consent/chain"
)

// Ledger appends records. It is safe for concurrent use.
type Ledger struct{ rows browserhost.Appender }

// New makes a ledger over a chained file.
func New(rows browserhost.Appender) *Ledger { return &Ledger{rows} }

// Append checks the record, writes it, and returns its number when it is on
// the disk. A record that is not valid is input_invalid, and nothing is
// written. After any other error it is not known whether the record will be
// there, and what it records must not be done.
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

// Deny records an attempt that was refused (S1.42). The reason is ours, not the
// caller's, and is cut at 500 characters.
func (l *Ledger) Deny(ctx context.Context, actor browserhost.Actor, reason string) error {
	_, err := l.Append(ctx, Record{Event: Deny, Actor: ActorOf(actor), Reason: cut(strings.ToValidUTF8(reason, "?"))})
	return err
}

// nameLabel separates these MACs from others under the host's secret.
const nameLabel = "cookie name"

// NameHashes hashes the distinct names of a grant's cookies, in their first
// order, under the host's secret. The plain hash of AIP-63's text is salted by
// the grant id, which stands beside it, so that anybody could guess the names;
// these can be recognized only by the host that made them. Without a keychain
// it fails with keyring_unavailable.
func NameHashes(ctx context.Context, keys browserhost.Keys, id browserhost.GrantID, names []string) ([]string, error) {
	if keys == nil {
		return nil, browserhost.Errorf(browserhost.CodeKeyring, "there is no secret to hash names under")
	}
	var out []string
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		mac, err := keys.MAC(ctx, nameLabel, []byte(string(id)+"\x00"+name))
		if err != nil {
			return nil, err
		}
		out = append(out, hex.EncodeToString(mac))
	}
	return out, nil
}

// Read yields the records of the ledger at path. In the place of a line that is
// none, such as the remains of a crash, there is its error, and reading goes
// on. Whether the lines are those that were written, [chain.Verify] says.
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
