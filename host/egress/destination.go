package egress

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// maxHost is the longest host that is looked up, in bytes (RFC 1035).
const maxHost = 253

var errForm = errors.New("egress: not a host and port")

// destination is where a request wants to go: either an address written out,
// or a name.
type destination struct {
	host string // lower case, without brackets
	addr netip.Addr
	port uint16
}

// parseDestination reads "host:port"; port is what applies when none is
// written, 0 for none. An IPv4 address is accepted in its one canonical form
// only: 2130706433, 0x7f.1 and 0177.0.0.1 are names that no resolver should
// be trusted with.
func parseDestination(s string, port uint16) (destination, error) {
	host, written, err := net.SplitHostPort(s)
	if err != nil {
		host, written = s, ""
		if inner, ok := strings.CutPrefix(s, "["); ok {
			if host, ok = strings.CutSuffix(inner, "]"); !ok {
				return destination{}, errForm
			}
		} else if strings.ContainsAny(s, ":]") {
			return destination{}, errForm
		}
	}
	d := destination{host: strings.ToLower(host), port: port}
	if err == nil {
		n, err := strconv.ParseUint(written, 10, 16)
		if err != nil || len(written) > 5 {
			return destination{}, errForm
		}
		d.port = uint16(n)
	}
	if d.port == 0 || d.host == "" || len(d.host) > maxHost {
		return destination{}, errForm
	}
	if a, err := netip.ParseAddr(d.host); err == nil {
		if a.Zone() != "" {
			return destination{}, errForm
		}
		d.addr = a
		return d, nil
	}
	if !hostName(d.host) {
		return destination{}, errForm
	}
	return d, nil
}

// hostName reports whether s is a name to look up: letters, digits, hyphens
// and underscores in labels of 1 to 63 bytes, and no number at its end, which
// would make it an IPv4 address to some (the URL Standard's "ends in a number").
func hostName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	var last string
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
		last = label
	}
	if digits, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") != ""
	}
	return strings.Trim(last, "0123456789") != ""
}
