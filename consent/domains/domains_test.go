package domains

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"browserhost"
)

func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	e := browserhost.AsError(err)
	if e.Code != browserhost.CodeInputInvalid {
		return "code " + string(e.Code)
	}
	r, _ := e.Cause["reason"].(string)
	return r
}

// AIP-63 C2, S1.36: what may not be named is refused, each with its reason.
func TestCheckRefuses(t *testing.T) {
	long := strings.Repeat("a.", 126) + "test" // 256 bytes
	for name, want := range map[string]string{
		"": Invalid, "*": Wildcard, "*.shop.test": Wildcard, "shop.*": Wildcard,
		".": LeadingDot, ".test": LeadingDot, ".shop.test": LeadingDot, "..shop.test": LeadingDot,
		"test": BareTLD, "localhost": BareTLD, "com": BareTLD, "xn--p1ai": BareTLD, "[::1]": BareTLD, "LOCALHOST": BareTLD, "a name": BareTLD,
		"127.0.0.1": Invalid, "github.com:443": Invalid, "a_b.com": Invalid, "-a.com": Invalid, "a-.com": Invalid, "a..b.com": Invalid,
		"a.b": Invalid, "foo.xn--": Invalid, "shop .test": Invalid, "https://shop.test": Invalid, "shop.test/": Invalid, "ada@shop.test": Invalid,
		"shop.test..": Invalid, "shop.test\n": Invalid, "shop\x00.test": Invalid, "\xff.test": Invalid, "0x7f.1": Invalid, "[::1].test": Invalid,
		"xn--a.com": Invalid, "xn--github-.com": Invalid, "xn--zzzzzzzzz99999.com": Invalid, "ex\u200dample.com": Invalid, "\u202etset.pohs": Invalid,
		long: Invalid, strings.Repeat("a", 64) + ".test": Invalid, strings.Repeat("a.", 1<<20) + "test": Invalid,
		"Shop.test": NotCanonical, "SHOP.test.": NotCanonical, "shop.test.": NotCanonical, "bücher.test": NotCanonical, "пример.рф": NotCanonical,
		"shop。test": NotCanonical, "xn--BCHER-kva.test": NotCanonical, "ＳＨＯＰ.test": NotCanonical,
		"co.uk": PublicSuffix, "github.io": PublicSuffix, "foo.ck": PublicSuffix, "k12.ny.us": PublicSuffix,
	} {
		if got := reasonOf(Check(name)); got != want {
			t.Errorf("Check(%.60q) gives reason %q, want %q", name, got, want)
		}
	}
}

// AIP-63 C2: hosts and registrable names are taken, 253 bytes included.
func TestCheckAccepts(t *testing.T) {
	long := strings.Repeat(strings.Repeat("a", 61)+".", 4) + "a.tst"
	if len(long) != maxName {
		t.Fatalf("the longest name has %d bytes", len(long))
	}
	for _, name := range []string{
		"shop.test", "app.shop.test", "a.b.c.shop.test", "foo.github.io", "www.ck", "city.kawasaki.jp", "x.y.kawasaki.jp", "bbc.co.uk",
		"xn--e1afmkfd.xn--p1ai", "xn--bcher-kva.test", "xn--pple-43d.test", "xn--ls8h.la", "r3---sn-x.googlevideo.com", "1.test", "a-b.test", "amazonaws.com", long,
	} {
		if err := Check(name); err != nil {
			t.Errorf("Check(%.60q) = %v", name, err)
		}
	}
}

// AIP-63 C2: a sample of each kind of rule in the Public Suffix List, and the
// name one label below it, which is a site.
func TestPublicSuffixes(t *testing.T) {
	for kind, suffixes := range map[string][]string{
		"registry":  {"co.uk", "gov.uk", "com.au", "co.jp", "com.br", "com.cn", "k12.ny.us", "tokyo.jp", "shibuya.tokyo.jp", "xn--55qx5d.cn", "asso.fr", "edu.pl"},
		"private":   {"github.io", "gitlab.io", "pages.dev", "workers.dev", "web.app", "vercel.app", "netlify.app", "herokuapp.com", "blogspot.com", "s3.amazonaws.com"},
		"wildcard":  {"foo.ck", "anything.kawasaki.jp", "x.compute.amazonaws.com", "foo.er"},
		"its base":  {"kawasaki.jp", "compute.amazonaws.com"},
		"reference": slices.Collect(maps.Keys(extra)),
	} {
		for _, s := range suffixes {
			if got := reasonOf(Check(s)); got != PublicSuffix {
				t.Errorf("%s: Check(%q) gives reason %q", kind, s, got)
			}
			if kind == "its base" {
				continue
			}
			if err := Check("ada.of." + s); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
	for _, exception := range []string{"www.ck", "city.kawasaki.jp"} {
		if err := Check(exception); err != nil {
			t.Errorf("exception: %v", err)
		}
	}
}

// AIP-63 C2: the reference's own list has 74 names, and none was lost on the way.
func TestExtraIsWhole(t *testing.T) {
	if len(extra) != 74 {
		t.Fatalf("%d names", len(extra))
	}
}

// AIP-63 C2, C4: all or nothing, bounded, and an empty list is not "all".
func TestCheckAll(t *testing.T) {
	got, err := CheckAll([]string{"shop.test", "bank.test", "shop.test"})
	if err != nil || !slices.Equal(got, []string{"shop.test", "bank.test"}) {
		t.Fatalf("%v %v", got, err)
	}
	many := make([]string, maxNames+1)
	for i := range many {
		many[i] = "shop.test"
	}
	if _, err := CheckAll(many[1:]); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	for want, list := range map[string][]string{Empty: {}, TooMany: many, PublicSuffix: {"shop.test", "co.uk"}, Invalid: {""}} {
		if got, err := CheckAll(list); reasonOf(err) != want || got != nil {
			t.Errorf("CheckAll(%.2q) = %v, %v; want reason %s", list, got, err, want)
		}
	}
	if got, err := CheckAll(nil); reasonOf(err) != Empty || got != nil {
		t.Errorf("CheckAll(nil) = %v, %v", got, err)
	}
}

// S3 (scenario), K44: what the owner types is brought into the stored form, and then checked like the rest.
func TestFromOwner(t *testing.T) {
	for typed, want := range map[string]string{
		"shop.test": "shop.test", "SHOP.test.": "shop.test", "bücher.test": "xn--bcher-kva.test", "BÜCHER.test": "xn--bcher-kva.test",
		"аpple.test": "xn--pple-43d.test", "пример.рф": "xn--e1afmkfd.xn--p1ai", "faß.test": "xn--fa-hia.test", "xn--BCHER-kva.test": "xn--bcher-kva.test",
	} {
		if got, err := FromOwner(typed); err != nil || got != want {
			t.Errorf("FromOwner(%q) = %q, %v", typed, got, err)
		}
	}
	for typed, want := range map[string]string{
		"": Invalid, "*": Wildcard, "*.Shop.test": Wildcard, ".test": LeadingDot, ".Shop.test": LeadingDot, "CO.UK.": PublicSuffix, "GitHub.io": PublicSuffix, "127.0.0.1": Invalid,
		"a name.test": Invalid, " shop.test": Invalid, "shop.test..": Invalid, "Test.": BareTLD, "．shop.test": LeadingDot, "＊.shop.test": Invalid,
	} {
		if got, err := FromOwner(typed); reasonOf(err) != want || got != "" {
			t.Errorf("FromOwner(%q) = %q, %v; want reason %s", typed, got, err, want)
		}
	}
}

// S3 (scenario): an international name has a form for the eye; a broken one is shown as it is.
func TestUnicode(t *testing.T) {
	for name, want := range map[string]string{
		"xn--bcher-kva.test": "bücher.test", "xn--pple-43d.test": "аpple.test", "shop.test": "shop.test", "xn--a.com": "xn--a.com",
	} {
		if got := Unicode(name); got != want {
			t.Errorf("Unicode(%q) = %q", name, got)
		}
	}
}

// AIP-63 C2, S3 (scenario): subdomains are covered; parents and look-alikes are not.
func TestCovers(t *testing.T) {
	for host, want := range map[string]bool{
		"shop.test": true, ".shop.test": true, "app.shop.test": true, "a.b.shop.test": true, "APP.Shop.Test": true,
		"notshop.test": false, "shop.test.evil.test": false, "test": false, "": false, ".": false, "..shop.test": false, "shop.test.": false, "xshop.test": false, "-shop.test": false,
	} {
		if got := Covers("shop.test", host); got != want {
			t.Errorf("Covers(shop.test, %q) = %v", host, got)
		}
	}
	if Covers("mail.shop.test", ".shop.test") {
		t.Error("a cookie of the parent is covered by a grant for the child")
	}
	if Covers("", "shop.test") || Covers("", "") {
		t.Error("no name covers a host")
	}
	if d, ok := CoveredBy([]string{"bank.test", "shop.test"}, "app.shop.test"); !ok || d != "shop.test" {
		t.Errorf("CoveredBy gives %q, %v", d, ok)
	}
	if d, ok := CoveredBy([]string{"bank.test"}, "shop.test"); ok || d != "" {
		t.Errorf("CoveredBy gives %q, %v", d, ok)
	}
}

// S1.39: counts are shown per site, so that every host folds to the one a person knows.
func TestSite(t *testing.T) {
	for host, want := range map[string]string{
		".app.shop.test": "shop.test", "shop.test": "shop.test", "A.B.Shop.Test": "shop.test", "www.bbc.co.uk": "bbc.co.uk", "x.ada.github.io": "ada.github.io",
		"github.io": "github.io", "co.uk": "co.uk", "localhost": "localhost", "127.0.0.1": "127.0.0.1", "[::1]": "[::1]", "": "", "a.www.ck": "www.ck", "a.x.azurewebsites.net": "x.azurewebsites.net",
	} {
		if got := Site(host); got != want {
			t.Errorf("Site(%q) = %q, want %q", host, got, want)
		}
	}
}

// A refusal repeats the name without what could disturb a screen or a log.
func TestRefusalIsSafeToShow(t *testing.T) {
	e := browserhost.AsError(Check("\x1b[31m\u202e" + strings.Repeat("é", 400) + ".test"))
	shown, _ := e.Cause["domain"].(string)
	if strings.ContainsAny(e.Message+shown, "\x1b\u202e") || len(shown) > maxName || !strings.HasPrefix(shown, "?[31m?") {
		t.Fatalf("%q", shown)
	}
}

// AIP-63 C2: whatever comes in, what is accepted is in stored form, covers
// itself, and belongs to a site that may be granted too.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{"shop.test", "SHOP.test.", "bücher.test", "*.shop.test", "co.uk", "xn--e1afmkfd.xn--p1ai", "127.0.0.1", "a.city.kawasaki.jp", ".x", "xn--a.com"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		owned, err := FromOwner(s)
		if err == nil && Check(owned) != nil {
			t.Fatalf("FromOwner(%q) = %q, which is refused", s, owned)
		}
		if reasonOf(err) != "" && words[reasonOf(err)] == "" {
			t.Fatalf("FromOwner(%q): %v", s, err)
		}
		if Check(s) != nil {
			return
		}
		site := Site(s)
		switch {
		case owned != s, len(s) > maxName, strings.ToLower(s) != s, !strings.Contains(s, "."), strings.ContainsAny(s, "*: /"):
			t.Fatalf("%q is accepted", s)
		case !Covers(s, s), !Covers(s, "."+s), !Covers(s, "x."+s), Covers(s, "x"+s):
			t.Fatalf("coverage of %q", s)
		case !Covers(site, s), Check(site) != nil:
			t.Fatalf("%q folds to %q: %v", s, site, Check(site))
		}
		if back, err := FromOwner(Unicode(s)); err != nil || back != s {
			t.Fatalf("%q is shown as %q, which means %q, %v", s, Unicode(s), back, err)
		}
	})
}
