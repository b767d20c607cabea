package extract

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"browserhost"
	"browserhost/consent/browserdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	canary   = "canary-e84f-extract"
	password = "AAAAAAAAAAAAAAAAAAAAAA=="
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// stub is a keyring that counts.
type stub struct {
	calls   int
	browser string
	answer  Passwords
	err     error
}

func (s *stub) Passwords(_ context.Context, browser string) (Passwords, error) {
	s.calls++
	s.browser = browser
	return s.answer, s.err
}

func unlocked(passwords ...browserhost.Secret) *stub {
	return &stub{answer: Passwords{Found: passwords}}
}

// seal encrypts as Chromium does; host "" leaves the hash out, as before schema 24.
func seal(scheme string, key []byte, host, value string) []byte {
	plain := []byte(value)
	if host != "" {
		sum := sha256.Sum256([]byte(host))
		plain = append(sum[:], plain...)
	}
	n := aes.BlockSize - len(plain)%aes.BlockSize
	plain = append(plain, bytes.Repeat([]byte{byte(n)}, n)...)
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	cipher.NewCBCEncrypter(block, bytes.Repeat([]byte{' '}, aes.BlockSize)).CryptBlocks(plain, plain)
	return append([]byte(scheme), plain...)
}

func v10(host, value string) []byte { return seal("v10", derive("peanuts", 1), host, value) }
func v11(host, value string) []byte { return seal("v11", derive(password, 1), host, value) }

// stored is one row as a test states it; the zero of the rest is a plain one.
type stored struct {
	host, name, value, partition string
	encrypted                    []byte
	expires                      time.Time // zero = session
	with                         map[string]int
}

func profile(t testing.TB, schema int, rows ...stored) browserdb.Profile {
	t.Helper()
	script, err := os.ReadFile(fmt.Sprintf("../browserdb/testdata/cookies%d.sql", schema))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "Cookies")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), string(script)); err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		if r.name == "" {
			r.name = fmt.Sprintf("c%d", i)
		}
		if r.encrypted == nil {
			r.encrypted = []byte{}
		}
		number := func(name string, otherwise int) int {
			if n, ok := r.with[name]; ok {
				return n
			}
			return otherwise
		}
		expires, ends := int64(0), 0
		if !r.expires.IsZero() {
			expires, ends = r.expires.UnixMicro()+since1601, 1
		}
		if _, err := db.ExecContext(t.Context(), "INSERT INTO cookies VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
			i, r.host, r.partition, r.name, r.value, r.encrypted, "/", expires,
			number("is_secure", 1), number("is_httponly", 1), 0, ends, number("is_persistent", ends),
			number("priority", 1), number("samesite", -1), number("source_scheme", 2), number("source_port", 443),
			0, 0, number("has_cross_site_ancestor", 0)); err != nil {
			t.Fatal(err)
		}
	}
	return browserdb.Profile{Browser: "chromium", Name: "Default", Cookies: path}
}

// values gives what was read, in the order of the names.
func values(cookies []browserhost.Cookie) []string {
	slices.SortFunc(cookies, func(a, b browserhost.Cookie) int { return strings.Compare(a.Name, b.Name) })
	all := []string{}
	for _, c := range cookies {
		all = append(all, string(c.Value))
	}
	return all
}

func want(t *testing.T, cookies []browserhost.Cookie, report Report, err error, read []string, reasons map[string]int) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if got := values(cookies); !reflect.DeepEqual(got, read) {
		t.Errorf("read %q, want %q", got, read)
	}
	if !reflect.DeepEqual(report.Reasons, reasons) {
		t.Errorf("reasons %v, want %v", report.Reasons, reasons)
	}
	sum := report.Read
	for _, n := range report.Reasons {
		sum += n
	}
	if sum != report.Matched || report.Read != len(cookies) {
		t.Errorf("the counts do not add up: %+v, %d cookies", report, len(cookies))
	}
}

// S1: five rows, three read (the empty one too), two counted with their reasons.
func TestS1DecryptMatrix(t *testing.T) {
	const host = ".shop.test"
	p := profile(t, 24,
		stored{host: host, encrypted: v10(host, "alpha")},
		stored{host: host, encrypted: v11(host, "beta")},
		stored{host: host, encrypted: v11(host, "")},
		stored{host: host, encrypted: []byte("v12" + canary)},
		stored{host: host, encrypted: []byte("v20" + canary)})
	keyring := unlocked("another password", password)
	cookies, report, err := read(t.Context(), p, []string{"shop.test"}, keyring, linux, now)
	want(t, cookies, report, err, []string{"alpha", "beta", ""}, map[string]int{PortalKey: 1, AppBound: 1})
	if keyring.calls != 1 || keyring.browser != "chromium" {
		t.Errorf("the keyring was asked %d times, for %q", keyring.calls, keyring.browser)
	}
}

// S1, the older schema: no hash before the value, and none cut off.
func TestS1Schema23(t *testing.T) {
	const host = ".shop.test"
	long := strings.Repeat("x", 40) // longer than a hash
	p := profile(t, 23,
		stored{host: host, encrypted: v10("", "alpha")},
		stored{host: host, encrypted: v11("", "beta")},
		stored{host: host, encrypted: v11("", "")},
		stored{host: host, encrypted: v10("", long)})
	cookies, report, err := read(t.Context(), p, []string{"shop.test"}, unlocked("another password", password), linux, now)
	want(t, cookies, report, err, []string{"alpha", "beta", "", long}, map[string]int{})
}

// A profile that was run with and without a keyring, and by versions that used
// an empty password: each row finds its key.
func TestS1MixedKeys(t *testing.T) {
	const host = "shop.test"
	empty := derive("", 1)
	p := profile(t, 24,
		stored{host: host, encrypted: v10(host, "fixed")},
		stored{host: host, encrypted: seal("v10", empty, host, "empty password")},
		stored{host: host, encrypted: v11(host, "keyring")},
		stored{host: host, encrypted: seal("v11", empty, host, "empty password, v11")},
		stored{host: host, encrypted: seal("v11", derive("old", 1), host, "earlier password")},
		stored{host: host, encrypted: seal("v11", derive("lost", 1), host, canary)},
		stored{host: host, value: "in clear"},
		stored{host: host, value: ""})
	cookies, report, err := read(t.Context(), p, []string{"shop.test"}, unlocked(password, "old"), linux, now)
	if report.Reasons[HashMismatch] == 1 { // a wrong key passes the padding once in 256
		report.Reasons = map[string]int{WrongKey: 1}
	}
	want(t, cookies, report, err,
		[]string{"fixed", "empty password", "keyring", "empty password, v11", "earlier password", "in clear", ""},
		map[string]int{WrongKey: 1})
}

// An unreadable row is counted under what is wrong with it, and nothing of it
// comes out.
func TestReasons(t *testing.T) {
	const host = ".shop.test"
	later := now.Add(time.Hour)
	bent := v10(host, canary)
	bent[len(bent)-1] ^= 1
	p := profile(t, 24,
		stored{host: host, encrypted: v10(host, "good"), expires: later},
		stored{host: host, encrypted: v10(".bank.test", canary)}, // moved from another host
		stored{host: host, encrypted: bent},
		stored{host: host, encrypted: []byte("v10")},
		stored{host: host, encrypted: []byte("v10too short")},
		stored{host: host, encrypted: []byte("x")},
		stored{host: host, encrypted: []byte(canary)},
		stored{host: host, encrypted: v10(host, canary), value: canary},
		stored{host: host, encrypted: v10(host, canary+"\x00")},
		stored{host: host, encrypted: v10(host, canary+"\xff")},
		stored{host: host, value: canary + ";"},
		stored{host: host, encrypted: v10(host, canary), expires: now.Add(-time.Second)},
		stored{host: host, encrypted: v10(host, canary), expires: now},
		stored{host: host, partition: "https://top.test", encrypted: v10(host, canary), with: map[string]int{"has_cross_site_ancestor": -1}})
	keyring := unlocked()
	cookies, report, err := read(t.Context(), p, []string{"shop.test"}, keyring, linux, now)
	if n := report.Reasons[HashMismatch] + report.Reasons[WrongKey]; n != 4 || report.Reasons[HashMismatch] < 1 {
		t.Errorf("wrong values: %v", report.Reasons)
	}
	delete(report.Reasons, HashMismatch)
	report.Reasons[WrongKey] = 4
	want(t, cookies, report, err, []string{"good"}, map[string]int{WrongKey: 4, UnknownScheme: 2, TwoValues: 1, BadValue: 3, Expired: 2, PartialPartition: 1})
	if keyring.calls != 0 {
		t.Error("the keyring was asked although no row needed it (S5)")
	}
}

// S1.71: what decides where a browser sends a cookie is kept.
func TestAttributes_S1_71(t *testing.T) {
	end := time.Date(2027, 1, 2, 3, 4, 5, 678_000, time.UTC)
	full := stored{host: ".shop.test", name: "a", value: "v", expires: end, partition: "https://top.test", with: map[string]int{
		"samesite": 0, "priority": 2, "has_cross_site_ancestor": 1, "source_port": 8443,
	}}
	bare := stored{host: "app.shop.test", name: "b", value: "v", with: map[string]int{
		"is_secure": 0, "is_httponly": 0, "samesite": 2, "priority": 0, "source_scheme": 1, "source_port": -1, "has_cross_site_ancestor": 1,
	}}
	odd := stored{host: ".shop.test", name: "c", value: "v", expires: now.Add(-time.Hour), with: map[string]int{
		"is_persistent": 0, "samesite": 99, "priority": -5, "source_scheme": 0, "source_port": 1 << 20,
	}}
	lax := stored{host: ".shop.test", name: "d", value: "v", with: map[string]int{"samesite": 1}}
	got, _, err := read(t.Context(), profile(t, 24, full, bare, odd, lax), []string{"shop.test"}, unlocked(), linux, now)
	if err != nil {
		t.Fatal(err)
	}
	values(got) // sorts
	wanted := []browserhost.Cookie{
		{Name: "a", Value: "v", Domain: ".shop.test", Path: "/", Expires: end, Secure: true, HTTPOnly: true, SameSite: "None", Priority: "High", SourceScheme: "Secure", SourcePort: 8443, PartitionKey: "https://top.test", CrossSite: true},
		{Name: "b", Value: "v", Domain: "app.shop.test", Path: "/", SameSite: "Strict", Priority: "Low", SourceScheme: "NonSecure"},
		{Name: "c", Value: "v", Domain: ".shop.test", Path: "/", Secure: true, HTTPOnly: true, SourceScheme: "Unset"},
		{Name: "d", Value: "v", Domain: ".shop.test", Path: "/", Secure: true, HTTPOnly: true, SameSite: "Lax", Priority: "Medium", SourceScheme: "Secure", SourcePort: 443},
	}
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("got %#v", got)
	}
}

// S3, the names: only what the grant covers, and not the public suffix above
// a granted name or below it.
func TestS3Names(t *testing.T) {
	p := profile(t, 24,
		stored{host: ".shop.test", value: "1"}, stored{host: "app.shop.test", value: "2"},
		stored{host: "notshop.test", value: canary}, stored{host: "shop.test.evil.test", value: canary},
		stored{host: ".test", value: canary}, stored{host: "test", value: canary}, stored{host: "xshop.test", value: canary},
		stored{host: "s3.amazonaws.com", value: canary}, stored{host: "bob.amazonaws.com", value: "3"})
	cookies, report, err := read(t.Context(), p, []string{"shop.test"}, unlocked(), linux, now)
	want(t, cookies, report, err, []string{"1", "2"}, map[string]int{})
	cookies, report, err = read(t.Context(), p, []string{"amazonaws.com"}, unlocked(), linux, now)
	want(t, cookies, report, err, []string{"3"}, map[string]int{SuffixCookie: 1})
	for _, bad := range [][]string{nil, {}, {"*"}, {"test"}, {"co.uk"}, {"github.io"}, {"127.0.0.1"}, {""}, {"shop .test"}, {"shop.test", "%"}, {"' OR 1=1 --"}} {
		if cookies, _, err := read(t.Context(), p, bad, unlocked(), linux, now); cookies != nil || browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// AIP-63 C5: rows of other sites are not fetched at all. Their values lie on
// pages that do not exist any more, and the read does not notice.
func TestOtherSitesAreNotFetched(t *testing.T) {
	p := profile(t, 24, stored{host: ".shop.test", value: "mine"}, stored{host: ".bank.test", encrypted: append([]byte("v10"), make([]byte, 3*4096)...)})
	file, err := os.ReadFile(p.Cookies)
	if err != nil {
		t.Fatal(err)
	}
	// The last pages are the overflow of the other site's value: broken now.
	for i := len(file) - 3*4096 + 4096/2; i < len(file); i++ {
		file[i] = 0xff
	}
	for page := len(file)/4096 - 3; page < len(file)/4096; page++ {
		copy(file[page*4096:], []byte{0xff, 0xff, 0xff, 0xff}) // points to no page
	}
	if err := os.WriteFile(p.Cookies, file, 0o600); err != nil {
		t.Fatal(err)
	}
	cookies, report, err := read(t.Context(), p, []string{"shop.test"}, unlocked(), linux, now)
	want(t, cookies, report, err, []string{"mine"}, map[string]int{})
	if _, _, err := read(t.Context(), p, []string{"bank.test"}, unlocked(), linux, now); browserhost.CodeOf(err) != browserhost.CodeUpstream {
		t.Errorf("the broken page was not met: %v; this test proves nothing", err)
	}
}

// S2: a keyring that cannot be asked, or that keeps the key behind a lock,
// fails the whole read; half a sign-in is not handed on.
func TestS2Keyring(t *testing.T) {
	const host = ".shop.test"
	p := profile(t, 24, stored{host: host, encrypted: v10(host, canary)}, stored{host: host, encrypted: v11(host, canary)})
	broken := &stub{err: unavailable(noBus, nil)}
	locked := &stub{answer: Passwords{Locked: true}}
	lockedButOld := &stub{answer: Passwords{Found: []browserhost.Secret{"old"}, Locked: true}}
	for name, s := range map[string]*stub{"no bus": broken, "locked": locked, "the right one is locked": lockedButOld} {
		cookies, report, err := read(t.Context(), p, []string{"shop.test"}, s, linux, now)
		if cookies != nil || report.Read != 0 || browserhost.CodeOf(err) != browserhost.CodeKeyring {
			t.Errorf("%s: %d cookies, %v", name, len(cookies), err)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, errors.Unwrap(err)), canary) {
			t.Errorf("%s: the value is in %v", name, err)
		}
	}
	// What is locked does not matter when what is open is enough.
	enough := &stub{answer: Passwords{Found: []browserhost.Secret{password}, Locked: true}}
	cookies, report, err := read(t.Context(), p, []string{"shop.test"}, enough, linux, now)
	want(t, cookies, report, err, []string{canary, canary}, map[string]int{})
	// An open keyring that knows nothing of the browser is a reason, not a failure.
	cookies, report, err = read(t.Context(), p, []string{"shop.test"}, unlocked(), linux, now)
	want(t, cookies, report, err, []string{canary}, map[string]int{NoKey: 1})
	// No row that needs a key: not even a broken keyring matters.
	broken.calls = 0
	only := profile(t, 24, stored{host: host, encrypted: v10(host, "x")}, stored{host: ".bank.test", encrypted: v11(".bank.test", canary)})
	cookies, report, err = read(t.Context(), only, []string{"shop.test"}, broken, linux, now)
	want(t, cookies, report, err, []string{"x"}, map[string]int{})
	if broken.calls != 0 {
		t.Errorf("the keyring was asked %d times (S5)", broken.calls)
	}
}
