// Package domains decides what a grant may name and what a name covers.
//
// A grant names sites: registrable domains or hosts below them, in lowercase
// ASCII, one by one. It never names a wildcard, a top-level domain, a public
// suffix such as co.uk or github.io, an address or "everything" (AIP-63 C2,
// S1.34, S1.36). A name covers itself and everything below it, and nothing
// that merely looks like it.
//
// There are two ways in. [Check] is for records, for the API and for tools: a
// name is right as it stands, or it is refused. [FromOwner] is for what a
// person typed: it accepts capitals, one trailing dot and international
// letters, and turns them into the one form that is stored (K44).
package domains

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"browserhost"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

const (
	maxName  = 253 // bytes of a name, RFC 1035 in text form
	maxNames = 16  // names of one request
)

// Reasons why a name is refused, as cause.reason.
const (
	Invalid      = "invalid"       // not a host name
	Wildcard     = "wildcard"      // has a * in it
	LeadingDot   = "leading-dot"   // the cookie form, .shop.test
	BareTLD      = "bare-tld"      // one label
	PublicSuffix = "public-suffix" // a name below which strangers register
	Empty        = "empty"         // a list without names
	TooMany      = "too-many"      // a list of more than 16 names
	NotCanonical = "not-canonical" // right, once it is written as FromOwner does
)

// form is AIP-63's pattern of a name.
var form = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+([a-z]{2,63}|xn--[a-z0-9-]{1,59})$`)

// profile is how browsers read a host name (UTS 46, non-transitional), so that
// a name means here what it means in the address bar.
var profile = idna.New(
	idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(),
	idna.CheckJoiners(true), idna.CheckHyphens(false), idna.StrictDomainName(true),
)

// Check says whether a grant may name name exactly as it is written. The error
// is a *browserhost.Error with CodeInputInvalid, cause {domain, reason}.
//
// AIP-63 C2, S1.36, K44.
func Check(name string) error {
	reason := refuse(name)
	if reason == "" {
		return nil
	}
	return refusal(name, reason)
}

// CheckAll checks a whole list: either every name is right or none is taken.
// It returns the names without repetitions, in their first order. An empty
// list is refused, because it must never come to mean "all" (AIP-63 C2, C4),
// and so is one of more than 16 names.
func CheckAll(names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, refusal("", Empty)
	}
	if len(names) > maxNames {
		return nil, refusal("", TooMany)
	}
	out := make([]string, 0, len(names))
	for _, name := range names {
		if err := Check(name); err != nil {
			return nil, err
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// FromOwner reads what a person typed: letters of any case, one trailing dot
// and international names are brought into the stored form, SHOP.test. to
// shop.test and bücher.test to xn--bcher-kva.test. What comes out passes
// [Check] (K44).
func FromOwner(typed string) (string, error) {
	name := typed
	if !strings.Contains(typed, "*") && !strings.HasPrefix(typed, ".") {
		if c, ok := canonical(typed); ok && !strings.HasSuffix(c, ".") {
			name = c
		}
	}
	if err := Check(name); err != nil {
		return "", err
	}
	return name, nil
}

// Unicode gives the international form of a stored name for the eye, beside
// the stored one and never in place of it: look-alikes exist. A name without
// one, or with a broken one, is returned as it is.
func Unicode(name string) string {
	u, err := profile.ToUnicode(name)
	if err != nil {
		return name
	}
	return u
}

// Covers reports whether a grant for domain covers host: the same name, or one
// below it at a label boundary. shop.test covers app.shop.test and the cookie
// form .shop.test; it does not cover notshop.test, shop.test.evil.test or its
// own parent. domain must be a name that passes [Check].
func Covers(domain, host string) bool {
	if domain == "" {
		return false
	}
	host = strings.ToLower(strings.TrimPrefix(host, "."))
	above, below := strings.CutSuffix(host, domain)
	return below && (above == "" || len(above) > 1 && strings.HasSuffix(above, "."))
}

// CoveredBy returns the first name of the list that covers host.
func CoveredBy(list []string, host string) (string, bool) {
	i := slices.IndexFunc(list, func(d string) bool { return Covers(d, host) })
	if i < 0 {
		return "", false
	}
	return list[i], true
}

// Site folds the host of a cookie to the name under which a person knows it:
// .app.shop.test becomes shop.test. A host that has no registrable name (an
// address, a single label, a public suffix) is returned in lowercase without
// its leading dot.
func Site(host string) string {
	host = strings.ToLower(strings.TrimPrefix(host, "."))
	if !form.MatchString(host) {
		return host
	}
	s := suffix(host)
	if s == host {
		return host
	}
	above := strings.TrimSuffix(host, "."+s)
	return above[strings.LastIndexByte(above, '.')+1:] + "." + s
}

// refuse gives the reason against name, "" when there is none. The order is
// that of the rules, so that the most telling reason wins.
func refuse(name string) string {
	switch {
	case name == "":
		return Invalid
	case strings.Contains(name, "*"):
		return Wildcard
	case strings.HasPrefix(name, "."):
		return LeadingDot
	}
	switch c, ok := canonical(name); {
	case ok && c != name && form.MatchString(c):
		return NotCanonical
	case len(name) > maxName:
		return Invalid
	case !strings.Contains(name, "."):
		return BareTLD
	case !ok || !form.MatchString(name):
		return Invalid
	case suffix(name) == name || suffix("0."+name) == "0."+name:
		// The second: below a wildcard rule such as *.kawasaki.jp every name
		// belongs to a stranger, so its base would cover them all.
		return PublicSuffix
	}
	return ""
}

// canonical brings a name into the stored form: one trailing dot off, letters
// mapped and encoded as browsers do. It does not say whether the name may be
// granted. Names far beyond any bound are not looked at.
func canonical(name string) (string, bool) {
	if len(name) > 4*maxName {
		return "", false
	}
	c, err := profile.ToASCII(name)
	if err != nil {
		return "", false
	}
	return strings.TrimSuffix(c, "."), true
}

// suffix is the longest public suffix of a name in stored form, from the full
// list (registries and private ones, such as github.io) and from the extra
// ones below.
func suffix(name string) string {
	listed, _ := publicsuffix.PublicSuffix(name)
	for s := name; len(s) > len(listed); {
		if extra[s] {
			return s
		}
		_, s, _ = strings.Cut(s, ".")
	}
	return listed
}

// extra are shared names that AIP-63's reference refuses by its own list. With
// them this package is never more permissive than the reference, whatever the
// public list drops one day.
var extra = func() map[string]bool {
	m := map[string]bool{}
	for s := range strings.FieldsSeq(`
co.uk org.uk ac.uk gov.uk me.uk ltd.uk plc.uk net.uk sch.uk
com.au net.au org.au edu.au gov.au id.au
co.nz org.nz net.nz govt.nz
co.jp ne.jp or.jp ac.jp go.jp
co.kr or.kr go.kr
com.br net.br org.br gov.br
com.cn net.cn org.cn gov.cn
com.mx com.ar com.tr com.tw com.hk com.sg com.my com.ph com.vn
co.in net.in org.in gov.in
co.id co.th co.il co.za com.ua com.pl com.es com.pt
github.io gitlab.io herokuapp.com appspot.com vercel.app netlify.app
pages.dev workers.dev web.app firebaseapp.com blogspot.com cloudfront.net
azurewebsites.net s3.amazonaws.com fly.dev onrender.com ngrok.io
trycloudflare.com`) {
		m[s] = true
	}
	return m
}()

var words = map[string]string{
	Invalid:      "is not a host name",
	Wildcard:     "is a wildcard; name each site",
	LeadingDot:   "begins with a dot; leave it out, a name covers what is below it",
	BareTLD:      "is a single label, not a site",
	PublicSuffix: "is a public suffix: strangers register below it",
	Empty:        "the list names no site",
	TooMany:      "the list names more than 16 sites",
	NotCanonical: "is not in lowercase ASCII without a trailing dot",
}

func refusal(name, reason string) error {
	if reason == Empty || reason == TooMany {
		return browserhost.Errorf(browserhost.CodeInputInvalid, "domains: %s", words[reason]).With("reason", reason)
	}
	shown := show(name)
	return browserhost.Errorf(browserhost.CodeInputInvalid, "domains: %q %s", shown, words[reason]).
		With("domain", shown).With("reason", reason)
}

// show makes a refused name safe to repeat: printable, and not longer than a
// name can be.
func show(name string) string {
	if len(name) > maxName {
		name = name[:maxName]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, name)
}
