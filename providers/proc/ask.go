package proc

import (
	"errors"
	"net/netip"
	"slices"
)

// maxAncestors bounds a line of ancestors; a real one is a dozen.
const maxAncestors = 64

// Ancestors lists the parent of a process, its parent, and so on up to the
// first process of the computer.
func Ancestors(pid int) ([]int, error) {
	var out []int
	for len(out) < maxAncestors {
		parent, err := parentOf(pid)
		if err != nil {
			return out, err
		}
		if parent <= 0 || slices.Contains(out, parent) {
			break
		}
		out = append(out, parent)
		pid = parent
	}
	return out, nil
}

// errNobody is the answer where no process that we may look at holds a socket.
var errNobody = errors.New("proc: no process of this user holds that end")

// OwnerOf is the process at the other end of a loopback TCP connection, given
// as this process sees it: local is our end, remote is its.
func OwnerOf(local, remote netip.AddrPort) (int, error) {
	local, remote = plain(local), plain(remote)
	return holder(func(c connection) bool { return c.local == remote && c.remote == local })
}

// Listener is the process that listens at the address, or on every address at
// its port.
func Listener(at netip.AddrPort) (int, error) {
	at = plain(at)
	return holder(func(c connection) bool {
		return c.listens && c.local.Port() == at.Port() && (c.local.Addr() == at.Addr() || c.local.Addr().IsUnspecified())
	})
}

// connection is one TCP socket of this computer, its addresses plain.
type connection struct {
	local, remote netip.AddrPort
	listens       bool
}

// plain writes an IPv4 address one way, however the socket was opened, and
// without a zone.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
