package browserhost

import (
	"context"
	"time"
)

// GrantID names a grant: "grant_" and a UUIDv4.
type GrantID string

// Grant is the record of what the owner lent to whom (AIP-63 §4.1). The shape
// is closed: a reader refuses unknown keys. Exactly one of Domains and
// FullProfile is set.
type Grant struct {
	ID          GrantID     `json:"id"`
	SessionID   string      `json:"sessionId"` // the profile name, "main" by default (contract C)
	DeviceID    DeviceID    `json:"deviceId,omitempty"`
	Source      GrantSource `json:"source"`
	Domains     []string    `json:"domains,omitempty"`
	FullProfile bool        `json:"fullProfile,omitempty"`
	Sinks       []Sink      `json:"sinks"`
	GrantedAt   string      `json:"grantedAt"`  // TimeLayout
	GrantedVia  string      `json:"grantedVia"` // "interactive" or "flag"
	ExpiresAt   string      `json:"expiresAt,omitempty"`
	RevokedAt   string      `json:"revokedAt,omitempty"`
	CookieCount int         `json:"cookieCount"`
}

// GrantSource is where the material came from. Profile is a profile directory
// name such as "Default"; it is never a path.
type GrantSource struct {
	Kind    string `json:"kind"` // chrome, firefox, file, native-login
	Profile string `json:"profile"`
}

// Sink is where material may go. A remote sink names the human's
// acknowledgement by its sequence number in the ledger (AIP-63 C6).
type Sink struct {
	Kind       string `json:"kind"` // local or remote
	ProviderID string `json:"providerId,omitempty"`
	AckSeq     *int64 `json:"ackSeq,omitempty"`
}

// Active reports whether g may be used at t.
func (g Grant) Active(t time.Time) bool {
	if g.RevokedAt != "" {
		return false
	}
	if g.ExpiresAt == "" {
		return true
	}
	end, err := time.Parse(time.RFC3339, g.ExpiresAt)
	return err == nil && t.Before(end)
}

// Serves reports whether g exists for device d (AIP-63 C12). A grant with a
// device never serves another one, nor a caller without one.
func (g Grant) Serves(d DeviceID) bool { return g.DeviceID == "" || g.DeviceID == d }

// Secret is a value that must never be printed. Every way of formatting it
// yields a fixed word; the holder converts it with string(s) where the value
// is truly needed.
type Secret string

const redacted = "[secret]"

// String hides the value.
func (Secret) String() string { return redacted }

// GoString hides the value from %#v.
func (Secret) GoString() string { return redacted }

// MarshalText hides the value from every text encoder.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Cookie is one cookie as a browser keeps it. A Domain without a leading dot
// is host-only.
type Cookie struct {
	Name         string
	Value        Secret
	Domain       string
	Path         string
	Expires      time.Time // zero = session cookie
	Secure       bool
	HTTPOnly     bool
	SameSite     string // "", "None", "Lax" or "Strict"; "" = unspecified
	Priority     string // "", "Low", "Medium" or "High"
	SourceScheme string // "", "Unset", "NonSecure" or "Secure"
	SourcePort   int    // 0 = unspecified
	PartitionKey string // top-level site of a partitioned cookie; "" = not partitioned
	CrossSite    bool   // with PartitionKey: has a cross-site ancestor
}

// Material is what is lent to one device for one signed-in session. It goes
// from consent/gate to the driver and nowhere else (AIP-63 C1).
type Material struct {
	Device  DeviceID
	Grants  []GrantID
	Domains []string // what the grants cover, together
	Cookies []Cookie
}

// Counts says what became of the cookies of an import or a lending, by
// reason; they add up.
type Counts struct {
	Set     int            `json:"set"`
	Refused map[string]int `json:"refused,omitempty"`
}

// Keys gives MACs under the host's own secret, which lives in the OS keychain
// (consent/keychain). The label separates uses. It fails with CodeKeyring when
// there is no keychain.
type Keys interface {
	MAC(ctx context.Context, label string, data []byte) ([]byte, error)
}

// Appender is an append-only chained file, met through this interface by
// whoever keeps records. Append gives the row seq and prev, writes it in one
// piece and returns its number and hash. Durable waits until every row
// appended so far is on the disk.
type Appender interface {
	Append(ctx context.Context, row any) (seq int64, hash string, err error)
	Durable(ctx context.Context) error
}
