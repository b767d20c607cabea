package browserdb

import (
	"context"
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
)

const canary = "canary-93d1-browserdb"

func TestMain(m *testing.M) {
	if os.Getenv(writerVariable) != "" {
		writerMain() // this process plays the browser: see writer_test.go
	}
	goleak.VerifyTestMain(m)
}

func hostKey(table, column string) bool { return table == "cookies" && column == "host_key" }
func everything(_, _ string) bool       { return true }

// build makes a profile with a cookie database of two cookies.
func build(t testing.TB, more ...string) (path string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "Default")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "Cookies")
	script, err := os.ReadFile("testdata/cookies24.sql")
	if err != nil {
		t.Fatal(err)
	}
	run(t, path, append([]string{string(script), insert("shop.test", "sid"), insert("bank.test", "sid")}, more...)...)
	return path
}

func insert(host, name string) string {
	return fmt.Sprintf("INSERT INTO cookies VALUES(1,'%s','','%s','%s',x'763130','/',0,1,1,0,0,0,1,1,2,443,0,0,0)", host, name, canary)
}

func run(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func count(ctx context.Context, path string) (n int, copied bool, err error) {
	db, err := Open(ctx, path, hostKey)
	if err != nil {
		return 0, false, err
	}
	defer db.Close()
	rows, err := db.Query(ctx, "SELECT count(host_key) FROM cookies")
	if err != nil {
		return 0, false, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&n); err != nil {
			return 0, false, err
		}
	}
	return n, db.copied != nil, rows.Err()
}

func wantReason(t *testing.T, err error, code browserhost.Code, want string) {
	t.Helper()
	e, ok := errors.AsType[*browserhost.Error](err)
	if !ok || e.Code != code || e.Cause["reason"] != want {
		t.Fatalf("got %v, want %s with reason %q", err, code, want)
	}
	if strings.ContainsAny(e.Message, `/\`) || strings.Contains(fmt.Sprintf("%v %v", e, e.Err), canary) {
		t.Errorf("a path or a value is in %q, %v", e.Message, e.Err)
	}
}

// The owner's file is read as it is and stays as it is.
func TestOpen(t *testing.T) {
	path := build(t)
	before := snapshotOf(t, filepath.Dir(path))
	n, copied, err := count(t.Context(), path)
	if err != nil || n != 2 || copied {
		t.Fatalf("%d rows, copied %v, %v", n, copied, err)
	}
	if after := snapshotOf(t, filepath.Dir(path)); !reflect.DeepEqual(before, after) {
		t.Errorf("the profile changed: %v, was %v", keysOf(after), keysOf(before))
	}
	db, err := Open(t.Context(), path, hostKey)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if db.Version() != 24 || db.Compatible() != 24 || !db.HasColumn("samesite") || db.HasColumn("is_nonsense") {
		t.Errorf("version %d, compatible %d", db.Version(), db.Compatible())
	}
}

// AIP-63 C5, K3: a statement that would read a column that was not declared is
// refused by SQLite, wherever in it the column stands; nothing else can bring
// a value in either.
func TestAuthorizer(t *testing.T) {
	path := build(t, "CREATE TABLE secrets(value TEXT)", "CREATE VIEW looks AS SELECT value AS host_key FROM cookies")
	db, err := Open(t.Context(), path, hostKey)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	allowed := []string{
		"SELECT host_key FROM cookies",
		"SELECT host_key, COUNT(*) FROM cookies GROUP BY host_key",
		"SELECT count(*) FROM cookies WHERE substr(host_key, -length('.test')) = '.test'",
	}
	for _, q := range allowed {
		rows, err := db.Query(t.Context(), q)
		if err != nil {
			t.Errorf("%s: %v", q, err)
			continue
		}
		if !rows.Next() {
			t.Errorf("%s: no row, %v", q, rows.Err())
		}
		rows.Close()
	}
	denied := []string{
		"SELECT value FROM cookies",
		"SELECT encrypted_value FROM cookies",
		"SELECT * FROM cookies",
		"SELECT host_key FROM cookies WHERE value = 'x'",
		"SELECT host_key FROM cookies ORDER BY encrypted_value",
		"SELECT count(value) FROM cookies",
		"SELECT c.value FROM (SELECT value FROM cookies) AS c",
		"SELECT host_key FROM cookies GROUP BY substr(value, 1, 1)",
		"SELECT host_key FROM looks",
		"SELECT value FROM secrets",
		"SELECT rowid FROM cookies",
		"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT x FROM n",
		"SELECT load_extension('x')",
		"SELECT hex(host_key) FROM cookies",
		"ATTACH ':memory:' AS other",
		"PRAGMA journal_mode = wal",
		"PRAGMA quick_check",
		"DELETE FROM cookies",
		"UPDATE cookies SET host_key = ''",
		"CREATE TEMP TABLE t AS SELECT value FROM cookies",
		"CREATE TEMP TABLE t(x)",
	}
	for _, q := range denied {
		rows, err := db.Query(t.Context(), q)
		if err == nil {
			n := 0
			for rows.Next() {
				n++
			}
			err = rows.Err()
			rows.Close()
			if err == nil {
				t.Errorf("%s: %d rows", q, n)
			}
		}
		if strings.Contains(fmt.Sprint(err, errors.Unwrap(err)), canary) {
			t.Errorf("%s: the value is in %v", q, err)
		}
	}
	_, err = db.Query(t.Context(), denied[0])
	wantReason(t, err, browserhost.CodeInternal, "denied")
}

// No authorizer function means no column, not every column.
func TestNoAuthorizer(t *testing.T) {
	db, err := Open(t.Context(), build(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Query(t.Context(), "SELECT host_key FROM cookies")
	wantReason(t, err, browserhost.CodeInternal, "denied")
}

// A generated column cannot smuggle a value in under an allowed name.
func TestGeneratedColumn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "Cookies")
	run(t, path, "CREATE TABLE meta(key, value)", "INSERT INTO meta VALUES('version',24),('last_compatible_version',24)",
		"CREATE TABLE cookies(value TEXT, host_key TEXT AS (value))", "INSERT INTO cookies(value) VALUES('"+canary+"')")
	_, err := Open(t.Context(), path, hostKey)
	wantReason(t, err, browserhost.CodeUpstream, "schema")
}

// Every file that cannot be read has a typed reason, and no path is shown.
func TestBadFiles(t *testing.T) {
	meta := "CREATE TABLE meta(key, value)"
	numbers := "INSERT INTO meta VALUES('version',24),('last_compatible_version',24)"
	table := "CREATE TABLE cookies(host_key TEXT)"
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"missing":   {func(string) error { return nil }, "missing"},
		"directory": {func(p string) error { return os.Mkdir(p, 0o700) }, "unreadable"},
		"empty":     {func(p string) error { return os.WriteFile(p, nil, 0o600) }, "schema"},
		"short":     {func(p string) error { return os.WriteFile(p, []byte("SQLite format 3\x00"), 0o600) }, "corrupt"},
		"text":      {func(p string) error { return os.WriteFile(p, []byte(strings.Repeat(canary, 50)), 0o600) }, "corrupt"},
		"no tables": {func(p string) error { run(t, p, "CREATE TABLE other(x)"); return nil }, "schema"},
		"no meta":   {func(p string) error { run(t, p, table); return nil }, "schema"},
		"no version": {func(p string) error {
			run(t, p, meta, table)
			return nil
		}, "schema"},
		"no number": {func(p string) error {
			run(t, p, meta, table, "INSERT INTO meta VALUES('version','"+canary+"'),('last_compatible_version',24)")
			return nil
		}, "schema"},
		"other columns": {func(p string) error {
			run(t, p, meta, numbers, "CREATE TABLE cookies(host TEXT)")
			return nil
		}, "schema"},
		"a view": {func(p string) error {
			run(t, p, meta, numbers, "CREATE TABLE real(host_key TEXT)", "CREATE VIEW cookies AS SELECT * FROM real")
			return nil
		}, "schema"},
		"torn in the middle": {func(p string) error {
			b, err := os.ReadFile(build(t))
			if err != nil {
				return err
			}
			return os.WriteFile(p, append(b[:100:100], make([]byte, len(b)-100)...), 0o600)
		}, "corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "Cookies")
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), path, everything)
			wantReason(t, err, browserhost.CodeUpstream, c.want)
		})
	}
}

// Two readers of one file take turns; a waiting one can be called off.
func TestTurns(t *testing.T) {
	path := build(t)
	first, err := Open(t.Context(), path, hostKey)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = Open(ctx, path, hostKey)
	if browserhost.CodeOf(err) != browserhost.CodeTimeout {
		t.Fatalf("got %v", err)
	}
	done := make(chan error)
	go func() {
		_, _, err := count(t.Context(), path)
		done <- err
	}()
	if err := errors.Join(first.Close(), <-done, first.Close()); err != nil {
		t.Error(err)
	}
}

func snapshotOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "-shm") {
			all[e.Name()] = "" // a running writer's own
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

func keysOf(m map[string]string) (names []string) {
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

// Bytes that somebody else chose are a database, or a typed error, in bounded
// time; a query on them never panics.
func FuzzOpen(f *testing.F) {
	good, err := os.ReadFile(build(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte("SQLite format 3\x00"))
	f.Add([]byte{})
	for _, at := range []int{16, 18, 20, 52, 100, 105, 200, 4096, 4100, len(good) - 20} {
		bent := slices.Clone(good)
		bent[at] ^= 0xff
		f.Add(bent)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "Cookies")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, _, err := count(ctx, path)
		if _, ok := errors.AsType[*browserhost.Error](err); err != nil && !ok {
			t.Fatalf("not typed: %v", err)
		}
	})
}
