package egress

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseDestination(t *testing.T) {
	for s, want := range map[string]destination{
		"shop.test:443":         {host: "shop.test", port: 443},
		"SHOP.test:8443":        {host: "shop.test", port: 8443},
		"shop.test":             {host: "shop.test", port: 80},
		"shop.test.:80":         {host: "shop.test.", port: 80},
		"xn--bcher-kva.test:80": {host: "xn--bcher-kva.test", port: 80},
		"_x.shop.test:80":       {host: "_x.shop.test", port: 80},
		"1.2.3.4.test:80":       {host: "1.2.3.4.test", port: 80},
		"0xg.test:80":           {host: "0xg.test", port: 80},
		"127.0.0.1:8863":        {host: "127.0.0.1", addr: netip.MustParseAddr("127.0.0.1"), port: 8863},
		"[::1]:80":              {host: "::1", addr: netip.MustParseAddr("::1"), port: 80},
		"[2606::1]":             {host: "2606::1", addr: netip.MustParseAddr("2606::1"), port: 80},
	} {
		if got, err := parseDestination(s, 80); err != nil || got != want {
			t.Errorf("parseDestination(%q) = %+v, %v; want %+v", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", ":", ":80", "shop.test:", "shop.test:0", "shop.test:65536", "shop.test:+80", "shop.test:000080",
		"shop.test:80:80", "a b:80", "a/b:80", "ada@shop.test:80", "shop..test:80", ".shop.test:80", "bücher.test:80",
		"2130706433:80", "0x7f000001:80", "0x7f.0.0.1:80", "0177.0.0.1:80", "127.1:80", "127.0.0.1.:80", "1.2.3.0x:80", "0x:80", "shop.9:80",
		"[::1:80", "::1:80", "::1", "[fe80::1%25eth0]:80", "fe80::1%eth0", "[]:80", "[shop.test:80", "shop.test]:80",
		strings.Repeat("a", 64) + ".test:80", strings.Repeat("a.", 130) + "test:80", "shop.test\x00:80",
	} {
		if got, err := parseDestination(s, 80); err == nil {
			t.Errorf("parseDestination(%q) = %+v; want it refused", s, got)
		}
	}
	if _, err := parseDestination("shop.test", 0); err == nil {
		t.Error("a CONNECT without a port was accepted")
	}
}

// Whatever is accepted is bounded, canonical, and can never be read as an
// address by a resolver behind us.
func FuzzParseDestination(f *testing.F) {
	for _, s := range []string{"shop.test:443", "[::1]:80", "2130706433:80", "0x7f.1:1", "a:b:c", "127.0.0.1", "[::ffff:1.2.3.4]:65535", "localhost.:80"} {
		f.Add(s, uint16(80))
	}
	f.Fuzz(func(t *testing.T, s string, port uint16) {
		d, err := parseDestination(s, port)
		if err != nil {
			if d != (destination{}) {
				t.Fatalf("%q: an error and %+v", s, d)
			}
			return
		}
		if d.port == 0 || d.host == "" || len(d.host) > maxHost || d.host != strings.ToLower(d.host) || strings.ContainsAny(d.host, " /@\\%\x00[]") {
			t.Fatalf("%q gave %+v", s, d)
		}
		a, err := netip.ParseAddr(d.host)
		if (err == nil) != d.addr.IsValid() || err == nil && a != d.addr {
			t.Fatalf("%q: host %q and address %v disagree", s, d.host, d.addr)
		}
		if !d.addr.IsValid() {
			labels := strings.Split(strings.TrimSuffix(d.host, "."), ".")
			last := labels[len(labels)-1]
			if strings.Trim(last, "0123456789") == "" {
				t.Fatalf("%q ends in a number and is no address", d.host)
			}
		}
	})
}
