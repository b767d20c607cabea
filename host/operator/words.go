package operator

import "browserhost"

// Status is how the host does.
type Status struct {
	Version   string     `json:"version"`
	Listen    string     `json:"listen"` // "127.0.0.1:8863"
	Home      string     `json:"home"`   // the state directory
	StartedAt string     `json:"startedAt"`
	Paused    bool       `json:"paused"`
	Store     string     `json:"store"`              // "keychain" or "memory"
	Keyring   string     `json:"keyring,omitzero"`   // why the store cannot be used now; "" when it can
	Rotation  bool       `json:"rotationPending"`    // a revoke waits for the keychain to replace its key (S1.45)
	NoSandbox bool       `json:"noSandbox,omitzero"` // the owner switched Chromium's sandbox off (S2.21)
	Browsers  []Browser  `json:"browsers"`
	Providers []Provider `json:"providers"`
	Devices   int        `json:"devices"`
	Grants    int        `json:"grants"`   // active
	Requests  int        `json:"requests"` // pending
}

// Browser is one instance.
type Browser struct {
	Provider string            `json:"provider"`
	State    browserhost.State `json:"state"`
	Reason   string            `json:"reason,omitzero"`
	Headed   bool              `json:"headed"`
	Sessions int               `json:"sessions"`
	Pages    int               `json:"pages"`
}

// Provider is one kind of browser and whether it can run here. Path is for the
// owner alone (S3.15).
type Provider struct {
	ID       string `json:"id"`
	Runnable bool   `json:"runnable"`
	Version  string `json:"version,omitzero"`
	Why      string `json:"why,omitzero"`
	Path     string `json:"path,omitzero"`
}

// Grant is a grant as the owner reads it; no value is part of it.
type Grant struct {
	browserhost.Grant `json:",embed"`
	DeviceName        string `json:"deviceName,omitzero"`
	Active            bool   `json:"active"`
}

// Revoked is the outcome of a revoke, in the words of the ledger.
type Revoked struct {
	ID       browserhost.GrantID `json:"id"`
	Local    string              `json:"local"`           // "deleted" or "none"
	Remote   string              `json:"remote"`          // "not-applicable", "confirmed", "unavailable" or "failed"
	Pages    int                 `json:"pages"`           // closed
	Rotation bool                `json:"rotationPending"` // the key waits for the keychain
}

// Unpaired is the outcome of unpairing.
type Unpaired struct {
	ID     browserhost.DeviceID `json:"id"`
	Grants []Revoked            `json:"grants"`
	Pages  int                  `json:"pages"` // closed, those of the grants included
}

// Request is what a device asked for (S1.43).
type Request struct {
	ID         string               `json:"id"`
	Code       string               `json:"code"`
	DeviceID   browserhost.DeviceID `json:"deviceId"`
	DeviceName string               `json:"deviceName,omitzero"`
	Domains    []string             `json:"domains"`
	Reason     string               `json:"reason"` // the device's own words: untrusted
	Status     string               `json:"status"` // pending, allowed, denied, expired, withdrawn
	CreatedAt  string               `json:"createdAt"`
	ExpiresAt  string               `json:"expiresAt"`
	GrantID    browserhost.GrantID  `json:"grantId,omitzero"`
}

// Ledger is what verifying the consent ledger found.
type Ledger struct {
	Path    string `json:"path"`
	Records int    `json:"records"`
	Head    string `json:"head,omitzero"` // hash of the last record
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitzero"`
	Seq     *int64 `json:"seq,omitzero"` // the record that the problem is about
}

// Source is a browser profile of the owner, by name.
type Source struct {
	Ref     string `json:"ref"`     // "chrome/Default": how Scan, Grant and Allow name it
	Browser string `json:"browser"` // "chrome"
	Profile string `json:"profile"` // "Default"
}

// Site is what a profile holds for one site.
type Site struct {
	Domain  string         `json:"domain"`
	Cookies int            `json:"cookies"`
	Hosts   map[string]int `json:"hosts,omitzero"`
}

// GrantSpec is a grant without a request.
type GrantSpec struct {
	Device    browserhost.DeviceID `json:"device"`
	Domains   []string             `json:"domains"`
	Source    string               `json:"source,omitzero"`    // "" when there is exactly one
	ExpiresAt string               `json:"expiresAt,omitzero"` // RFC 3339; "" = until it is revoked
}

// AllowSpec decides a request. The sites are the request's, or fewer.
type AllowSpec struct {
	RequestID string   `json:"requestId"`
	Domains   []string `json:"domains,omitzero"`
	Source    string   `json:"source,omitzero"`
	ExpiresAt string   `json:"expiresAt,omitzero"`
}

// Granted is a new grant and what became of the cookies.
type Granted struct {
	Grant    Grant          `json:"grant"`
	Imported int            `json:"imported"`
	NotRead  map[string]int `json:"notRead,omitzero"` // by reason
	Seeded   int            `json:"seeded"`           // set in contexts that were open
}

// PairSpec describes a new local agent.
type PairSpec struct {
	Name   string              `json:"name"`
	Scopes []browserhost.Scope `json:"scopes,omitzero"` // nil = the default ones
}

// Paired is a new device with its bearer.
type Paired struct {
	Device browserhost.Device `json:"device"`
	Bearer string             `json:"bearer"` // shown once; the host cannot show it again
}
