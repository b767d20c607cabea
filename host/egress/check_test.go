package egress

import (
	"net"
	"net/netip"
	"testing"
)

// Each refused range with its first and last address, and the neighbours just
// outside of it where those are public (S2.30).
func TestCheckRangesAndNeighbours(t *testing.T) {
	for _, c := range []struct {
		rule    string
		inside  []string
		outside []string
	}{
		{RuleThisNetwork, []string{"0.0.0.0", "0.0.0.1", "0.255.255.255", "::"}, []string{"1.0.0.0"}},
		{RulePrivate, []string{"10.0.0.0", "10.255.255.255"}, []string{"9.255.255.255", "11.0.0.0"}},
		{RuleSharedSpace, []string{"100.64.0.0", "100.127.255.255"}, []string{"100.63.255.255", "100.128.0.0"}},
		{RuleLoopback, []string{"127.0.0.0", "127.0.0.1", "127.255.255.255", "::1"}, []string{"126.255.255.255", "128.0.0.0"}},
		{RuleLinkLocal, []string{"169.254.0.0", "169.254.255.255", "fe80::", "fe80::1%eth0", "febf:ffff::"}, []string{"169.253.255.255", "169.255.0.0"}},
		{RulePrivate, []string{"172.16.0.0", "172.31.255.255"}, []string{"172.15.255.255", "172.32.0.0"}},
		{RuleReserved, []string{"192.0.0.0", "192.0.0.255"}, []string{"191.255.255.255", "192.0.1.0"}},
		{RuleDocument, []string{"192.0.2.0", "192.0.2.255"}, []string{"192.0.1.255", "192.0.3.0"}},
		{RuleEmbedded, []string{"192.88.99.0", "192.88.99.255"}, []string{"192.88.98.255", "192.88.100.0"}},
		{RulePrivate, []string{"192.168.0.0", "192.168.255.255"}, []string{"192.167.255.255", "192.169.0.0"}},
		{RuleBenchmark, []string{"198.18.0.0", "198.19.255.255"}, []string{"198.17.255.255", "198.20.0.0"}},
		{RuleDocument, []string{"198.51.100.0", "198.51.100.255"}, []string{"198.51.99.255", "198.51.101.0"}},
		{RuleDocument, []string{"203.0.113.0", "203.0.113.255"}, []string{"203.0.112.255", "203.0.114.0"}},
		{RuleMulticast, []string{"224.0.0.0", "239.255.255.255", "ff00::", "ff02::1"}, []string{"223.255.255.255"}},
		{RuleReserved, []string{"240.0.0.0", "255.255.255.254", "255.255.255.255"}, nil},
		{RuleMetadata, []string{"169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"}, []string{"168.63.129.15", "168.63.129.17"}},
		{RuleMapped, []string{"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:93.184.216.34"}, nil},
		{RuleEmbedded, []string{"::ffff:0:127.0.0.1", "::127.0.0.1", "::2", "::ffff:ffff"}, nil},
		{RuleEmbedded, []string{"64:ff9b::", "64:ff9b::7f00:1", "64:ff9b:1::", "64:ff9b:1:ffff::"}, nil},
		{RuleReserved, []string{"100::", "100::ffff", "64:ff9b:2::", "1fff:ffff::", "4000::", "5f00::1"}, []string{"2003::"}},
		{RuleEmbedded, []string{"2001::", "2001:0:ffff::"}, nil},
		{RuleBenchmark, []string{"2001:2::", "2001:2:0:ffff::"}, nil},
		{RuleReserved, []string{"2001:1::", "2001:2:1::", "2001:1ff:ffff::"}, []string{"2001:200::"}},
		{RuleDocument, []string{"2001:db8::", "2001:db8:ffff::"}, []string{"2001:db7:ffff::", "2001:db9::"}},
		{RuleEmbedded, []string{"2002::", "2002:7f00:1::", "2002:ffff::"}, []string{"2001:ffff::", "2003::"}},
		{RuleDocument, []string{"3fff::", "3fff:fff:ffff::"}, []string{"3ffe:ffff::", "3fff:1000::"}},
		{RulePrivate, []string{"fc00::", "fdff:ffff::", "fec0::", "feff:ffff::"}, nil},
		{RulePublic, nil, []string{"93.184.216.34", "8.8.8.8", "2000::", "2606:2800:220:1::1", "3ffe::1"}},
	} {
		for _, a := range c.inside {
			if rule, ok := Check(netip.MustParseAddr(a)); ok || rule != c.rule {
				t.Errorf("Check(%s) = %q, %v; want it refused as %q", a, rule, ok, c.rule)
			}
		}
		for _, a := range c.outside {
			if rule, ok := Check(netip.MustParseAddr(a)); !ok || rule != RulePublic {
				t.Errorf("Check(%s) = %q, %v; want it allowed, it lies outside of %q", a, rule, ok, c.rule)
			}
		}
	}
	if rule, ok := Check(netip.Addr{}); ok || rule != RuleInvalid {
		t.Errorf("Check of no address = %q, %v", rule, ok)
	}
}

// A public address of this very computer, and a neighbour on its IPv6 link,
// are the owner's own things (S2.34).
func TestCheckOwn(t *testing.T) {
	addrs := []net.Addr{
		&net.IPNet{IP: net.ParseIP("93.184.216.34"), Mask: net.CIDRMask(24, 32)},
		&net.IPNet{IP: net.ParseIP("2606:2800:220:1::5"), Mask: net.CIDRMask(64, 128)},
		&net.IPNet{IP: net.ParseIP("2a00:1::1"), Mask: net.CIDRMask(12, 128)},
		&net.UnixAddr{Name: "not an address"},
	}
	for a, want := range map[string]string{
		"93.184.216.34":      RuleOwnAddress,
		"93.184.216.35":      RulePublic, // a neighbour at the hoster is the internet
		"2606:2800:220:1::5": RuleOwnAddress,
		"2606:2800:220:1::9": RuleOwnNetwork,
		"2606:2800:220:2::9": RulePublic,
		"2a00:1::1":          RuleOwnAddress,
		"2a00:2::1":          RulePublic, // a prefix that wide is no link
	} {
		if rule, ok := checkOwn(netip.MustParseAddr(a), addrs); rule != want || ok != (want == RulePublic) {
			t.Errorf("checkOwn(%s) = %q, %v; want %q", a, rule, ok, want)
		}
	}
}
