// Package operator is the owner's door: what a person may do with this host,
// from the tray, from a test, or from the command line.
//
// It is cut in two. [Narrow] looks and shrinks: list, deny, revoke, stop.
// [Widen] grows what agents may do: grant, allow, pair, and the looks into the
// owner's browsers that only a person has a reason for. In process the owner
// holds a [Desk] with both. Over control.sock, which every program of the same
// user can open, the narrow half works for anybody of that user and the wide
// half only for somebody who looks like a person: see [Serve].
//
// Who acts is never in what is said: each door knows it by itself (AIP-63 C7,
// D22).
package operator

import (
	"context"

	"browserhost"
)

// Narrow is what only looks or shrinks. The host implements it.
type Narrow interface {
	Status(ctx context.Context) (Status, error)
	Devices(ctx context.Context) ([]browserhost.Device, error)
	// RevokeDevice unpairs, and ends the device's grants with it (AIP-63 C13).
	RevokeDevice(ctx context.Context, by browserhost.Actor, id browserhost.DeviceID) (Unpaired, error)
	Grants(ctx context.Context) ([]Grant, error)
	Revoke(ctx context.Context, by browserhost.Actor, id browserhost.GrantID) (Revoked, error)
	Requests(ctx context.Context) ([]Request, error)
	Deny(ctx context.Context, by browserhost.Actor, requestID string) (Request, error)
	// Ledger verifies the consent ledger and says what it found.
	Ledger(ctx context.Context) (Ledger, error)
	// Stop asks the host to end and returns at once.
	Stop(ctx context.Context, by browserhost.Actor) error
}

// Widen is what grows access, and the looks that lead there.
type Widen interface {
	// Sources lists the owner's browser profiles by name; it opens none (K3).
	Sources(ctx context.Context) ([]Source, error)
	// Scan counts the cookies of the sites in a profile without reading a
	// value (AIP-63 C5). No domains: every site.
	Scan(ctx context.Context, source string, domains []string) ([]Site, error)
	Grant(ctx context.Context, by browserhost.Actor, spec GrantSpec) (Granted, error)
	// Allow decides a filed request: its device, its sites, and what the owner adds.
	Allow(ctx context.Context, by browserhost.Actor, spec AllowSpec) (Granted, error)
	// Pair makes a device. The bearer exists in this answer and nowhere else.
	Pair(ctx context.Context, by browserhost.Actor, spec PairSpec) (Paired, error)
}

// Desk is the owner's door in process: the tray, the demo and tests. Whoever
// holds one acts as the owner; it must not reach a network.
type Desk struct {
	narrow Narrow
	widen  Widen
	by     browserhost.Actor
}

// NewDesk makes the desk of the owner at this computer.
func NewDesk(n Narrow, w Widen) *Desk {
	return &Desk{n, w, browserhost.Actor{Kind: browserhost.Human, Via: "desk"}}
}

// through is the same desk, met through another door.
func (d *Desk) through(via string) *Desk {
	c := *d
	c.by.Via = via
	return &c
}

// Status says how the host does.
func (d *Desk) Status(ctx context.Context) (Status, error) { return d.narrow.Status(ctx) }

// Devices lists what is paired.
func (d *Desk) Devices(ctx context.Context) ([]browserhost.Device, error) {
	return d.narrow.Devices(ctx)
}

// RevokeDevice unpairs a device.
func (d *Desk) RevokeDevice(ctx context.Context, id browserhost.DeviceID) (Unpaired, error) {
	return d.narrow.RevokeDevice(ctx, d.by, id)
}

// Grants lists what was lent, ended grants included.
func (d *Desk) Grants(ctx context.Context) ([]Grant, error) { return d.narrow.Grants(ctx) }

// Revoke ends a grant and says what became of what was lent (AIP-63 C8).
func (d *Desk) Revoke(ctx context.Context, id browserhost.GrantID) (Revoked, error) {
	return d.narrow.Revoke(ctx, d.by, id)
}

// Requests lists what devices asked for.
func (d *Desk) Requests(ctx context.Context) ([]Request, error) { return d.narrow.Requests(ctx) }

// Deny refuses a request.
func (d *Desk) Deny(ctx context.Context, requestID string) (Request, error) {
	return d.narrow.Deny(ctx, d.by, requestID)
}

// Ledger verifies the consent ledger.
func (d *Desk) Ledger(ctx context.Context) (Ledger, error) { return d.narrow.Ledger(ctx) }

// Stop asks the host to end.
func (d *Desk) Stop(ctx context.Context) error { return d.narrow.Stop(ctx, d.by) }

// Sources lists the owner's browser profiles by name.
func (d *Desk) Sources(ctx context.Context) ([]Source, error) { return d.widen.Sources(ctx) }

// Scan counts cookies per site without reading a value.
func (d *Desk) Scan(ctx context.Context, source string, domains []string) ([]Site, error) {
	return d.widen.Scan(ctx, source, domains)
}

// Grant lends sites to a device.
func (d *Desk) Grant(ctx context.Context, spec GrantSpec) (Granted, error) {
	return d.widen.Grant(ctx, d.by, spec)
}

// Allow decides a filed request.
func (d *Desk) Allow(ctx context.Context, spec AllowSpec) (Granted, error) {
	return d.widen.Allow(ctx, d.by, spec)
}

// Pair makes a device and returns its bearer, once.
func (d *Desk) Pair(ctx context.Context, spec PairSpec) (Paired, error) {
	return d.widen.Pair(ctx, d.by, spec)
}
