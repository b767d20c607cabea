package extract

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"browserhost"
	"browserhost/consent/browserdb"
)

// On another system the same letters mean another key: counted, not guessed.
func TestOtherSystems(t *testing.T) {
	const host = ".shop.test"
	p := profile(t, 24, stored{host: host, encrypted: v10(host, canary)}, stored{host: host, encrypted: v11(host, canary)}, stored{host: host, encrypted: []byte("v20x")}, stored{host: host, value: "clear"})
	for _, goos := range []string{"windows", "darwin"} {
		keyring := unlocked(password)
		cookies, report, err := read(t.Context(), p, []string{"shop.test"}, keyring, systemOf(goos), now)
		want(t, cookies, report, err, []string{"clear"}, map[string]int{UnsupportedOS: 2, AppBound: 1})
		if keyring.calls != 0 {
			t.Errorf("%s: the keyring was asked", goos)
		}
	}
}

// A schema that says it cannot be read by us is not read by us; one that grew
// compatibly, or that lacks newer columns, is.
func TestSchemas(t *testing.T) {
	change := func(statements ...string) browserdb.Profile {
		p := profile(t, 24, stored{host: "shop.test", value: "v"})
		db, err := sql.Open("sqlite", p.Cookies)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, s := range statements {
			if _, err := db.ExecContext(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	for name, p := range map[string]browserdb.Profile{
		"newer, incompatible": change("UPDATE meta SET value = 30"),
		"a column is gone":    change("ALTER TABLE cookies DROP COLUMN encrypted_value"),
		"a column is null":    change("CREATE TABLE c2 AS SELECT * FROM cookies", "DROP TABLE cookies", "ALTER TABLE c2 RENAME TO cookies", "UPDATE cookies SET is_secure = NULL"),
		"a number is text":    change("UPDATE cookies SET expires_utc = '" + canary + "'"),
	} {
		_, _, err := read(t.Context(), p, []string{"shop.test"}, unlocked(), linux, now)
		e := browserhost.AsError(err)
		if err == nil || e.Code != browserhost.CodeUpstream || e.Cause["reason"] != "schema" || strings.Contains(fmt.Sprint(e, e.Err), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string]browserdb.Profile{
		"newer, compatible": change("UPDATE meta SET value = 30 WHERE key = 'version'", "ALTER TABLE cookies ADD COLUMN more TEXT"),
		"older":             change("DROP INDEX cookies_unique_index", "ALTER TABLE cookies DROP COLUMN has_cross_site_ancestor", "ALTER TABLE cookies DROP COLUMN source_port", "ALTER TABLE cookies DROP COLUMN top_frame_site_key"),
	} {
		cookies, report, err := read(t.Context(), p, []string{"shop.test"}, unlocked(), linux, now)
		t.Run(name, func(t *testing.T) { want(t, cookies, report, err, []string{"v"}, map[string]int{}) })
	}
}

// The database's own troubles come through with their reasons.
func TestBadDatabase(t *testing.T) {
	keyring := unlocked(password)
	_, _, err := Read(t.Context(), browserdb.Profile{Cookies: filepath.Join(t.TempDir(), "none")}, []string{"shop.test"}, keyring)
	if e := browserhost.AsError(err); err == nil || e.Code != browserhost.CodeUpstream || e.Cause["reason"] != "missing" || keyring.calls != 0 {
		t.Errorf("got %v, keyring asked %d times", err, keyring.calls)
	}
}
