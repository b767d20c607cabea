package browserdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"modernc.org/sqlite"
)

type way int

const (
	live    way = iota // the owner's file
	private            // our copy of it
)

// dsn names the file for SQLite. The live file is opened read-only and given
// half a second to become free. The copy may be written, since a journal left
// by a crash is rolled back in it, and is locked for good, so that the index of
// a log stays in memory.
func dsn(path string, w way) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	q := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(500)", "query_only(1)", "trusted_schema(0)", "cell_size_check(1)", "temp_store(2)", "mmap_size(0)"}}
	if w == private {
		q.Set("mode", "rw")
		q.Add("_pragma", "locking_mode(exclusive)")
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// connector opens connections of a driver of our own, whose hook puts the
// authorizer on each of them before anything of ours runs.
type connector struct {
	driver *sqlite.Driver
	dsn    string
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c connector) Driver() driver.Driver                        { return c.driver }

func connect(ctx context.Context, dsn string, authorize func(table, column string) bool) (*DB, error) {
	d := &sqlite.Driver{}
	d.RegisterConnectionHook(func(c sqlite.ExecQuerierContext, _ string) error {
		r, ok := c.(sqlite.AuthorizerRegisterer)
		if !ok {
			return errors.New("browserdb: the driver has no authorizer")
		}
		return r.RegisterAuthorizer(policy(authorize))
	})
	pool := sql.OpenDB(connector{d, dsn})
	pool.SetMaxOpenConns(1)
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	db := &DB{pool: pool, conn: conn, columns: map[string]bool{}}
	if err := db.describe(ctx); err != nil {
		return nil, errors.Join(err, conn.Close(), pool.Close())
	}
	return db, nil
}

// functions are what a statement may call.
var functions = []string{"count", "substr", "length"}

// policy answers SQLite's question about every step of a statement. What is
// not listed is denied: writing, attaching, recursion, loading code, and every
// pragma but the one that names columns.
func policy(authorize func(table, column string) bool) sqlite.AuthorizerFn {
	return func(action sqlite.AuthorizerActionCode, arg1, arg2, _, _ string) sqlite.AuthorizerReturnCode {
		allow := false
		switch action {
		case sqlite.AuthSelect:
			allow = true
		case sqlite.AuthFunction:
			allow = slices.Contains(functions, strings.ToLower(arg2))
		case sqlite.AuthPragma:
			allow = arg1 == "table_info"
		case sqlite.AuthRead:
			switch arg1 {
			case "sqlite_master", "meta":
				allow = true
			case Table:
				allow = arg2 == "" || authorize != nil && authorize(arg1, arg2)
			}
		}
		if allow {
			return sqlite.AuthorizerOK
		}
		return sqlite.AuthorizerDeny
	}
}

// describe reads the schema, which also takes SQLite's first lock and undoes
// what a crash left. The cookies must be a stored table: a view, or a virtual
// table, could bring in what the authorizer was not asked about.
func (db *DB) describe(ctx context.Context) error {
	stored, err := db.number(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name IN ('meta', '"+Table+"')")
	if err != nil {
		return err
	}
	if stored != 2 {
		return refuse(schema, nil)
	}
	if db.version, err = db.number(ctx, "SELECT value FROM meta WHERE key = 'version'"); err != nil {
		return err
	}
	if db.compatible, err = db.number(ctx, "SELECT value FROM meta WHERE key = 'last_compatible_version'"); err != nil {
		return err
	}
	rows, err := db.conn.QueryContext(ctx, "PRAGMA table_info("+Table+")") // leaves generated columns out
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var id, typ, notNull, def, key any
		if err := rows.Scan(&id, &name, &typ, &notNull, &def, &key); err != nil {
			return err
		}
		db.columns[name] = true
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if !db.columns["host_key"] {
		return refuse(schema, nil)
	}
	return nil
}

func (db *DB) number(ctx context.Context, query string) (int, error) {
	var n int
	err := db.conn.QueryRowContext(ctx, query).Scan(&n)
	if code(err) == 0 && err != nil && ctx.Err() == nil { // no row, or not a number
		return 0, refuse(schema, errOtherType)
	}
	return n, err
}
