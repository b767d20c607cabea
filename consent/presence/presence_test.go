package presence

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"browserhost"
	"browserhost/consent/browserdb"
)

const canary = "canary-2b77-presence"

func script(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("../browserdb/testdata/cookies24.sql")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func profile(t testing.TB, statements ...string) browserdb.Profile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Cookies")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range append([]string{script(t)}, statements...) {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return browserdb.Profile{Browser: "chromium", Name: "Default", Cookies: path}
}

func cookie(host, name string) string {
	return fmt.Sprintf("INSERT INTO cookies VALUES(1,'%s','','%s','%s',CAST('v10%s' AS BLOB),'/',1,1,1,0,1,1,1,1,2,443,0,0,0)", host, name, canary, canary)
}

// S3's names: a count for shop.test takes the site and what is below it, and
// neither of the look-alikes.
func TestS3Count(t *testing.T) {
	p := profile(t,
		cookie(".shop.test", "sid"), cookie(".shop.test", "cart"), cookie("app.shop.test", "sid"),
		cookie("notshop.test", "sid"), cookie("shop.test.evil.test", "sid"),
		cookie("a.shop.co.uk", "sid"), cookie("127.0.0.1", "sid"), cookie("localhost", "sid"))
	got, err := Count(t.Context(), p, []string{"shop.test", "app.shop.test", "bank.test"})
	want := []Site{
		{"shop.test", 3, map[string]int{".shop.test": 2, "app.shop.test": 1}},
		{"app.shop.test", 1, map[string]int{"app.shop.test": 1}},
		{"bank.test", 0, map[string]int{}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("wanted ones: %+v, %v", got, err)
	}
	got, err = Count(t.Context(), p, nil)
	want = []Site{
		{"127.0.0.1", 1, map[string]int{"127.0.0.1": 1}},
		{"evil.test", 1, map[string]int{"shop.test.evil.test": 1}},
		{"localhost", 1, map[string]int{"localhost": 1}},
		{"notshop.test", 1, map[string]int{"notshop.test": 1}},
		{"shop.co.uk", 1, map[string]int{"a.shop.co.uk": 1}},
		{"shop.test", 3, map[string]int{".shop.test": 2, "app.shop.test": 1}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("all: %+v, %v", got, err)
	}
	if got, err := Count(t.Context(), p, []string{}); err != nil || len(got) != 0 {
		t.Errorf("none wanted: %+v, %v", got, err)
	}
}

// S5, AIP-63 C5: the scan runs on a connection on which SQLite refuses a value,
// and asks it for the host and nothing else.
func TestS5LookingIsNotReading(t *testing.T) {
	p := profile(t, cookie("shop.test", "sid"))
	db, err := browserdb.Open(t.Context(), p.Cookies, onlyHosts)
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range []string{"value", "encrypted_value", "name", "path", "expires_utc"} {
		_, err := db.Query(t.Context(), "SELECT "+column+" FROM cookies")
		if e := browserhost.AsError(err); err == nil || e.Cause["reason"] != "denied" {
			t.Errorf("%s: %v", column, err)
		}
	}
	db.Close()

	asked := map[string]bool{}
	db, err = browserdb.Open(t.Context(), p.Cookies, func(table, column string) bool {
		asked[table+"."+column] = true
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(t.Context(), byHost)
	if err != nil {
		t.Fatal(err)
	}
	rows.Close()
	if want := map[string]bool{"cookies.host_key": true}; !reflect.DeepEqual(asked, want) {
		t.Errorf("the scan reads %v", asked)
	}
}

// A scan that fails is an error with a reason, never a count of zero, and
// shows no path.
func TestFailedScan(t *testing.T) {
	_, err := Count(t.Context(), browserdb.Profile{Cookies: filepath.Join(t.TempDir(), "Cookies")}, nil)
	if e := browserhost.AsError(err); err == nil || e.Code != browserhost.CodeUpstream || e.Cause["reason"] != "missing" || strings.Contains(e.Message, "/") {
		t.Errorf("missing: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Count(ctx, profile(t), nil); browserhost.CodeOf(err) != browserhost.CodeTimeout {
		t.Errorf("called off: %v", err)
	}
}

// A million cookies of 20,000 hosts, against the bare statement on the bare
// driver: the whole of browserdb and of the folding may cost as much again.
func BenchmarkPresence(b *testing.B) {
	p := profile(b, `INSERT INTO cookies WITH RECURSIVE n(x) AS (SELECT 0 UNION ALL SELECT x+1 FROM n WHERE x < 999999)
		SELECT x,'.h'||(x%20000)||'.shop'||(x%5000)||'.test','','n'||(x/20000),'',x'763130','/',0,1,1,0,0,0,1,1,2,443,0,0,0 FROM n`)
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			sites, err := Count(b.Context(), p, nil)
			if err != nil || len(sites) != 5000 {
				b.Fatal(len(sites), err)
			}
		}
	})
	b.Run("select", func(b *testing.B) {
		for b.Loop() {
			db, err := sql.Open("sqlite", "file:"+p.Cookies+"?mode=ro")
			if err != nil {
				b.Fatal(err)
			}
			rows, err := db.QueryContext(b.Context(), byHost)
			if err != nil {
				b.Fatal(err)
			}
			hosts := 0
			for rows.Next() {
				var host string
				var n int
				if err := rows.Scan(&host, &n); err != nil {
					b.Fatal(err)
				}
				hosts++
			}
			rows.Close()
			db.Close()
			if hosts != 20000 {
				b.Fatal(hosts)
			}
		}
	})
}

// AIP-63 C5, K3, S3: before a value is read there are the names of the granted
// sites' cookies, one per row, and of no other site's.
func TestNames(t *testing.T) {
	p := profile(t,
		cookie(".shop.test", "sid"), cookie("shop.test", "sid"), cookie("app.shop.test", "cart"),
		cookie("notshop.test", "other"), cookie("shop.test.evil.test", "other"))
	got, err := Names(t.Context(), p, []string{"shop.test", "app.shop.test"})
	if want := []string{"sid", "cart", "sid"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if _, err := Names(t.Context(), p, nil); browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
		t.Errorf("no list of sites means %v, not all of them", err)
	}
	for column, may := range map[string]bool{"host_key": true, "name": true, "value": false, "encrypted_value": false, "path": false} {
		if hostsAndNames(browserdb.Table, column) != may {
			t.Errorf("column %s: may be read is %v", column, !may)
		}
	}
}
