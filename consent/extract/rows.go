package extract

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"browserhost"
	"browserhost/consent/browserdb"
	"browserhost/consent/domains"
)

// columns are read by name. The first ones must exist; each of the others has
// what stands for it in a schema that does not have it yet.
var (
	required = []string{"host_key", "name", "value", "encrypted_value", "path", "expires_utc", "is_secure", "is_httponly", "has_expires", "is_persistent"}
	optional = []struct{ name, without string }{
		{"priority", "-1"}, {"samesite", "-1"}, {"source_scheme", "-1"}, {"source_port", "-1"},
		{"top_frame_site_key", "''"}, {"has_cross_site_ancestor", "-1"},
	}
)

// readable is the whole of what this package may read.
func readable(table, column string) bool {
	if table != browserdb.Table {
		return false
	}
	for _, o := range optional {
		if o.name == column {
			return true
		}
	}
	return slices.Contains(required, column)
}

const (
	maxRows  = 50_000   // a browser keeps 180 cookies a site
	maxValue = 64 << 10 // bytes; a browser takes 4096
)

// row is one row of the table as it is stored.
type row struct {
	host, name, path, partition      string
	value, encrypted                 []byte
	expires                          int64 // µs since 1601
	secure, httpOnly, ends, persists bool
	priority, samesite, ancestor     int
	sourceScheme, sourcePort         int
}

// fetch reads the rows of the granted sites and the number of the schema, and
// has closed the database when it returns.
func fetch(ctx context.Context, path string, granted []string) (rows []row, version int, err error) {
	db, err := browserdb.Open(ctx, path, readable)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	list := slices.Clone(required)
	for _, c := range required {
		if !db.HasColumn(c) {
			return nil, 0, unknownSchema()
		}
	}
	if db.Compatible() > newest {
		return nil, 0, unknownSchema()
	}
	for _, o := range optional {
		if db.HasColumn(o.name) {
			list = append(list, o.name)
		} else {
			list = append(list, o.without)
		}
	}
	clause, args := where(granted)
	found, err := db.Query(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+browserdb.Table+" WHERE "+clause, args...)
	if err != nil {
		return nil, 0, err
	}
	defer found.Close()
	for found.Next() {
		var r row
		if err := found.Scan(&r.host, &r.name, &r.value, &r.encrypted, &r.path, &r.expires, &r.secure, &r.httpOnly, &r.ends, &r.persists,
			&r.priority, &r.samesite, &r.sourceScheme, &r.sourcePort, &r.partition, &r.ancestor); err != nil {
			return nil, 0, err
		}
		if rows = append(rows, r); len(rows) > maxRows {
			return nil, 0, browserhost.Errorf(browserhost.CodeUpstream, "the profile holds more cookies of these sites than a browser keeps").With("reason", "schema")
		}
	}
	return rows, db.Version(), found.Err()
}

func unknownSchema() error {
	return browserhost.Errorf(browserhost.CodeUpstream, "the browser's cookie database has a form that is not known here").With("reason", "schema")
}

// refused gives the reason not to take the row, whatever its value is.
func (r row) refused(granted []string, now time.Time) string {
	if _, ok := domains.CoveredBy(granted, r.host); !ok || suffix(r.host) {
		return SuffixCookie // a name below a suffix is granted; the suffix itself is nobody's
	}
	if t := r.end(); !t.IsZero() && !t.After(now) {
		return Expired
	}
	if r.partition != "" && r.ancestor < 0 {
		return PartialPartition
	}
	return ""
}

// suffix reports whether the host of a cookie is a public suffix.
func suffix(host string) bool {
	e, ok := errors.AsType[*browserhost.Error](domains.Check(strings.TrimPrefix(host, ".")))
	return ok && e.Cause["reason"] == domains.PublicSuffix
}

// since1601 is the distance between Chromium's epoch and Unix's, in µs.
const since1601 = 11_644_473_600 * 1_000_000

// end is when the cookie expires; zero for a session cookie.
func (r row) end() time.Time {
	if !r.ends || !r.persists || r.expires == 0 {
		return time.Time{}
	}
	return time.UnixMicro(r.expires - since1601).UTC()
}

// scheme is the three letters before the encrypted value, "" for a value that
// is stored in clear.
func (r row) scheme() string {
	if len(r.encrypted) == 0 {
		return ""
	}
	return string(r.encrypted[:min(3, len(r.encrypted))])
}

// cookie keeps everything that decides where the browser sends a cookie
// (S1.71): a host without a leading dot stays host-only, a session cookie stays one.
func (r row) cookie(value string) browserhost.Cookie {
	c := browserhost.Cookie{
		Name:         r.name,
		Value:        browserhost.Secret(value),
		Domain:       r.host,
		Path:         r.path,
		Expires:      r.end(),
		Secure:       r.secure,
		HTTPOnly:     r.httpOnly,
		SameSite:     word(r.samesite, "None", "Lax", "Strict"),
		Priority:     word(r.priority, "Low", "Medium", "High"),
		SourceScheme: word(r.sourceScheme, "Unset", "NonSecure", "Secure"),
		PartitionKey: r.partition,
	}
	if r.sourcePort > 0 && r.sourcePort < 1<<16 {
		c.SourcePort = r.sourcePort
	}
	c.CrossSite = r.partition != "" && r.ancestor > 0
	return c
}

// word is Chromium's number as CDP's word; "" for a number that has none.
func word(n int, words ...string) string {
	if n < 0 || n >= len(words) {
		return ""
	}
	return words[n]
}
