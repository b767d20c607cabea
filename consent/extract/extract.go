// Package extract reads the cookies of the sites that the owner granted out of
// a browser profile, and of no other site: the statement that it runs names
// the sites, so rows of others are never fetched (AIP-63 C5).
//
// Chromium encrypts a value with one of several keys and says which by three
// letters before it. Each row is judged by itself:
//
//	v10   a key that is the same everywhere       read
//	v11   a key from the Secret Service           read, trying every password found
//	v12   a key that the desktop's portal gives to the browser alone
//	v20   a key that is bound to the browser's program
//
// The last two cannot be read by another program, and no attempt is made. A
// row that is not read is counted under its reason and never handed on with an
// empty value; a value that is empty in the browser is handed on. The counts
// add up, so that nobody takes a part for the whole (S1.68).
package extract

import (
	"context"
	"strings"
	"time"

	"browserhost"
	"browserhost/consent/browserdb"
	"browserhost/consent/domains"
)

// Why a row was not read, as the keys of [Report.Reasons].
const (
	PortalKey        = "unsupported_portal_key" // v12: sign in again, or attach to the running browser
	AppBound         = "app_bound"              // v20: the same
	UnknownScheme    = "unknown_scheme"         // three other letters
	UnsupportedOS    = "unsupported_os"         // v10 and v11 mean something else on this system
	NoKey            = "no_key"                 // v11, and the keyring has no password of this browser
	WrongKey         = "wrong_key"              // no key fits
	HashMismatch     = "hash_mismatch"          // a key fits, but the value belongs to another host
	TwoValues        = "two_values"             // in clear and encrypted at once
	BadValue         = "bad_value"              // not text that a browser would take
	Expired          = "expired"
	SuffixCookie     = "suffix_cookie"        // for a whole public suffix
	PartialPartition = "incomplete_partition" // partitioned, without the whole partition key
)

// Report says what became of the rows of the granted sites:
// Matched = Read + the sum of Reasons.
type Report struct {
	Matched int            `json:"matched"`
	Read    int            `json:"read"`
	Reasons map[string]int `json:"reasons,omitempty"`
}

// Profile is where cookies are read from, for callers that have no other
// business with browser databases.
type Profile = browserdb.Profile

// newest is the schema that this package knows.
const newest = 24

// Read returns the cookies of the granted sites. granted must not be empty and
// each name must be one that a grant may hold (input_invalid otherwise).
//
// The keyring is asked only when a row needs it, once, after the database is
// closed. When it cannot be asked, or holds what is needed behind a lock, the
// whole read fails with CodeKeyring and returns no cookie: half a sign-in is
// worse than none (S2). Errors of the database are those of [browserdb.Open].
func Read(ctx context.Context, p browserdb.Profile, granted []string, secrets Secrets) ([]browserhost.Cookie, Report, error) {
	return read(ctx, p, granted, secrets, thisSystem, time.Now())
}

func read(ctx context.Context, p browserdb.Profile, granted []string, secrets Secrets, sys system, now time.Time) ([]browserhost.Cookie, Report, error) {
	if _, err := domains.CheckAll(granted); err != nil {
		return nil, Report{}, err
	}
	rows, version, err := fetch(ctx, p.Cookies, granted)
	if err != nil {
		return nil, Report{}, err
	}
	report := Report{Matched: len(rows), Reasons: map[string]int{}}
	var usable []row
	wanted := false
	for _, r := range rows {
		if why := r.refused(granted, now); why != "" {
			report.Reasons[why]++
			continue
		}
		usable = append(usable, r)
		wanted = wanted || sys.keyring && r.scheme() == "v11"
	}
	keys, locked, err := sys.keys(ctx, p.Browser, secrets, wanted)
	if err != nil {
		return nil, Report{}, err
	}
	var cookies []browserhost.Cookie
	for _, r := range usable {
		value, why := keys.value(version, r)
		if why == "" {
			cookies = append(cookies, r.cookie(value))
			continue
		}
		if locked && r.scheme() == "v11" && (why == NoKey || why == WrongKey || why == HashMismatch) {
			return nil, Report{}, unavailable(lockedKeyring, nil)
		}
		report.Reasons[why]++
	}
	report.Read = len(cookies)
	return cookies, report, nil
}

// where selects the rows of the granted sites, and its arguments. Names are
// compared whole or at a label's edge, never by pattern (S3).
func where(granted []string) (clause string, args []any) {
	parts := make([]string, len(granted))
	for i, d := range granted {
		parts[i] = "host_key = ? OR substr(host_key, -length(?)) = ?"
		args = append(args, d, "."+d, "."+d)
	}
	return strings.Join(parts, " OR "), args
}
