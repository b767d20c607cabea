package requests

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/v2"
	"fmt"
	"math/big"
	"strings"
	"unicode"

	"browserhost"
)

// Status is where a request stands.
type Status string

// The statuses. All but Pending are final.
const (
	Pending   Status = "pending"
	Allowed   Status = "allowed"
	Denied    Status = "denied"
	Expired   Status = "expired"   // nobody answered in time
	Withdrawn Status = "withdrawn" // the device was removed, or the host ended
)

// Request is the record of S1.43. What an agent chose of it are the sites and
// the reason.
type Request struct {
	ID        string               `json:"id"`   // opaque
	Code      string               `json:"code"` // "K7-204": for saying aloud, no secret
	DeviceID  browserhost.DeviceID `json:"deviceId"`
	Kind      string               `json:"kind"` // "browser.grant"
	Domains   []string             `json:"domains"`
	Provider  string               `json:"provider"`
	Reason    string               `json:"reason"`    // the agent's words: untrusted, one line, at most 300 characters
	CreatedAt string               `json:"createdAt"` // as all times: RFC 3339, milliseconds, Z
	ExpiresAt string               `json:"expiresAt"`
	Status    Status               `json:"status,omitzero"`
	DecidedBy browserhost.Kind     `json:"decidedBy,omitzero"` // human, or system for an end without an answer
	DecidedAt string               `json:"decidedAt,omitzero"`
	GrantID   browserhost.GrantID  `json:"grantId,omitzero"` // of an allowed one
	Digest    string               `json:"digest,omitzero"`  // SHA-256 of the record as it was filed, in hex
}

// digest binds an answer to what was asked: it covers all that is fixed when a
// request is filed.
func (r Request) digest() string {
	r.Status, r.DecidedBy, r.DecidedAt, r.GrantID, r.Digest = "", "", "", "", ""
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings that were checked
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// letters of a code are those that nobody confuses when they are said aloud.
const letters = "ABCDEFGHJKMNPQRTUVWXY"

// newCode makes a code: some 168,000 are possible.
func newCode() string {
	return fmt.Sprintf("%c%d-%03d", letters[number(len(letters))], 2+number(8), number(1000))
}

func number(below int) int {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(below)))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return int(n.Int64())
}

// clean keeps a reason to one readable line: without control characters, and
// without those that are not seen or change how others are shown.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if long := []rune(s); len(long) > maxReason {
		s = string(long[:maxReason])
	}
	return s
}
