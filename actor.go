package browserhost

import (
	"regexp"
	"slices"
)

// DeviceID is the fingerprint of a paired device: 32 lowercase hex digits.
type DeviceID string

var deviceID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Valid reports whether d has the form of a device id.
func (d DeviceID) Valid() bool { return deviceID.MatchString(string(d)) }

// Kind says what stands behind a channel.
type Kind string

// The kinds of actor, in the words of AIP-63 §4.
const (
	Human  Kind = "human"
	Agent  Kind = "agent"
	System Kind = "system"
)

// Actor is who acts. It is derived from the authenticated channel and never
// from a parameter (AIP-63 C7).
type Actor struct {
	Kind   Kind
	Device DeviceID // "" for the owner at this computer and for the system
	Name   string   // what the owner called the device
	Via    string   // "mcp", "http", "desk", "cli", "expiry", …
	Scopes []Scope
}

// Has reports whether the actor holds scope s.
func (a Actor) Has(s Scope) bool { return slices.Contains(a.Scopes, s) }

// Scope is a right on a device record (design §5).
type Scope string

// The scopes. The first five are on for a new agent, the rest are ticks.
const (
	ScopeRead    Scope = "browser:read"
	ScopeLaunch  Scope = "browser:launch"
	ScopeControl Scope = "browser:control"
	ScopeBrowse  Scope = "browser:browse"
	ScopeProfile Scope = "profile:use"
	ScopeFiles   Scope = "browser:files"
	ScopeInspect Scope = "browser:inspect"
	ScopeScript  Scope = "browser:script"
)

// DefaultScopes returns what a new agent may do unless the owner unticks it (S3.7).
func DefaultScopes() []Scope {
	return []Scope{ScopeRead, ScopeLaunch, ScopeControl, ScopeBrowse, ScopeProfile}
}

// AllScopes returns every scope in the order of the pairing window.
func AllScopes() []Scope {
	return append(DefaultScopes(), ScopeFiles, ScopeInspect, ScopeScript)
}

// Device is a paired client as the owner sees it; no secret is part of it.
type Device struct {
	ID        DeviceID `json:"id"`
	Name      string   `json:"name"`
	Role      string   `json:"role"` // "agent" or "operator"
	Local     bool     `json:"local"`
	Scopes    []Scope  `json:"scopes"`
	CreatedAt string   `json:"createdAt"` // RFC 3339, milliseconds, Z
	LastSeen  string   `json:"lastSeen,omitzero"`
}
