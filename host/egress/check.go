package egress

import (
	"net"
	"net/netip"
)

// Rules that [Check] and the guard decide by. They are words of the decision
// log, never shown to a page.
const (
	RulePublic      = "public" // the only rule that allows
	RuleNothing     = "nothing"
	RuleForm        = "form"       // not a host and port, or an IP address in disguise
	RuleUnresolved  = "unresolved" // the name has no address
	RuleOwnAddress  = "own-address"
	RuleOwnNetwork  = "own-network"
	RuleInvalid     = "invalid"
	RuleLoopback    = "loopback"
	RulePrivate     = "private"
	RuleLinkLocal   = "link-local"
	RuleSharedSpace = "cgnat"
	RuleThisNetwork = "this-network"
	RuleMulticast   = "multicast"
	RuleReserved    = "reserved"
	RuleDocument    = "documentation"
	RuleBenchmark   = "benchmark"
	RuleMetadata    = "metadata"
	RuleMapped      = "ipv4-mapped"
	RuleEmbedded    = "ipv4-embedded" // NAT64, 6to4, Teredo, IPv4-compatible
)

// refused is the table of [Check]: the first prefix that holds the address
// names the rule. Numbers are the RFC that reserves the prefix.
var refused = []struct {
	prefix netip.Prefix
	rule   string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), RuleMetadata}, // AWS, Azure, GCP and most others
	{netip.MustParsePrefix("168.63.129.16/32"), RuleMetadata},   // Azure, on a public address
	{netip.MustParsePrefix("100.100.100.200/32"), RuleMetadata}, // Alibaba
	{netip.MustParsePrefix("192.0.0.192/32"), RuleMetadata},     // Oracle
	{netip.MustParsePrefix("fd00:ec2::254/128"), RuleMetadata},  // AWS

	{netip.MustParsePrefix("0.0.0.0/8"), RuleThisNetwork},     // 791; Linux connects 0.0.0.0 to itself
	{netip.MustParsePrefix("10.0.0.0/8"), RulePrivate},        // 1918
	{netip.MustParsePrefix("100.64.0.0/10"), RuleSharedSpace}, // 6598
	{netip.MustParsePrefix("127.0.0.0/8"), RuleLoopback},      // 1122
	{netip.MustParsePrefix("169.254.0.0/16"), RuleLinkLocal},  // 3927
	{netip.MustParsePrefix("172.16.0.0/12"), RulePrivate},     // 1918
	{netip.MustParsePrefix("192.0.0.0/24"), RuleReserved},     // 6890
	{netip.MustParsePrefix("192.0.2.0/24"), RuleDocument},     // 5737
	{netip.MustParsePrefix("192.88.99.0/24"), RuleEmbedded},   // 7526, 6to4 relays
	{netip.MustParsePrefix("192.168.0.0/16"), RulePrivate},    // 1918
	{netip.MustParsePrefix("198.18.0.0/15"), RuleBenchmark},   // 2544
	{netip.MustParsePrefix("198.51.100.0/24"), RuleDocument},  // 5737
	{netip.MustParsePrefix("203.0.113.0/24"), RuleDocument},   // 5737
	{netip.MustParsePrefix("224.0.0.0/4"), RuleMulticast},     // 5771
	{netip.MustParsePrefix("240.0.0.0/4"), RuleReserved},      // 1112, broadcast too
	{netip.MustParsePrefix("::/128"), RuleThisNetwork},        // 4291
	{netip.MustParsePrefix("::1/128"), RuleLoopback},          // 4291
	{netip.MustParsePrefix("::ffff:0:0:0/96"), RuleEmbedded},  // 2765, IPv4-translated
	{netip.MustParsePrefix("::/96"), RuleEmbedded},            // 4291, IPv4-compatible
	{netip.MustParsePrefix("64:ff9b::/96"), RuleEmbedded},     // 6052, NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), RuleEmbedded},   // 8215, local NAT64
	{netip.MustParsePrefix("100::/64"), RuleReserved},         // 6666, discard
	{netip.MustParsePrefix("2001::/32"), RuleEmbedded},        // 4380, Teredo
	{netip.MustParsePrefix("2001:2::/48"), RuleBenchmark},     // 5180
	{netip.MustParsePrefix("2001::/23"), RuleReserved},        // 2928, protocol assignments
	{netip.MustParsePrefix("2001:db8::/32"), RuleDocument},    // 3849
	{netip.MustParsePrefix("2002::/16"), RuleEmbedded},        // 3056, 6to4
	{netip.MustParsePrefix("3fff::/20"), RuleDocument},        // 9637
	{netip.MustParsePrefix("fc00::/7"), RulePrivate},          // 4193
	{netip.MustParsePrefix("fe80::/10"), RuleLinkLocal},       // 4291
	{netip.MustParsePrefix("fec0::/10"), RulePrivate},         // 3879, site-local of old
	{netip.MustParsePrefix("ff00::/8"), RuleMulticast},        // 4291
}

// unicast6 is all of IPv6 that is handed out (RFC 4291); what lies outside is
// refused without a row of its own.
var unicast6 = netip.MustParsePrefix("2000::/3")

// Check reports whether a lies on the public internet, and by which rule. It
// is a pure function of the address (S2.30). An IPv4 address in IPv6 clothes
// is refused rather than undressed: whoever asks for it by hand wants a way
// around.
func Check(a netip.Addr) (rule string, ok bool) {
	switch {
	case !a.IsValid():
		return RuleInvalid, false
	case a.Is4In6():
		return RuleMapped, false
	}
	a = a.WithZone("")
	for _, r := range refused {
		if r.prefix.Contains(a) {
			return r.rule, false
		}
	}
	if a.Is6() && !unicast6.Contains(a) {
		return RuleReserved, false
	}
	return RulePublic, true
}

// checkHere is [Check] for this computer: its own addresses are refused even
// where they are public, and so are its neighbours on an IPv6 link, which at
// home are the printer and the router (S2.34).
func checkHere(a netip.Addr) (rule string, ok bool) {
	if rule, ok = Check(a); !ok {
		return rule, false
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return RuleOwnAddress, false // not knowing is no permission
	}
	return checkOwn(a, addrs)
}

func checkOwn(a netip.Addr, addrs []net.Addr) (rule string, ok bool) {
	for _, addr := range addrs {
		p, err := netip.ParsePrefix(addr.String())
		if err != nil {
			continue
		}
		own := p.Addr().Unmap().WithZone("")
		switch {
		case own == a:
			return RuleOwnAddress, false
		case own.Is6() && a.Is6() && p.Bits() >= 48 && p.Masked().Contains(a):
			return RuleOwnNetwork, false
		}
	}
	return RulePublic, true
}
