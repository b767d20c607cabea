// Package browserdb finds the cookie databases of the browsers on this
// computer and opens them for reading, without changing a byte of them and
// without letting a query see more than it declared.
//
// [Find] lists directories and opens nothing (K3). [Open] reads the live file
// where that is safe. Where it is not, because a writer holds it, because it
// keeps a write-ahead log, or because a crash left work to undo, it reads a
// private copy that is gone again when it is closed. It never uses SQLite's
// immutable mode, which gives wrong answers without a word on a database with
// a log.
//
// Every connection carries an authorizer: SQLite itself asks the caller's
// function about each column that a statement would read, and refuses the
// statement at the first one that is denied. So "this scan reads no value" is
// not a promise about our SQL but a property of the connection (AIP-63 C5).
package browserdb

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"browserhost"
)

// Table is the one table that is read besides meta.
const Table = "cookies"

// DB is one open cookie database. It serves one query at a time.
type DB struct {
	pool       *sql.DB
	conn       *sql.Conn
	version    int
	compatible int
	columns    map[string]bool
	copied     *snapshot // nil when the live file is read
	release    func()
}

// Open opens the cookie database at path for reading. authorize is asked for
// every column of every table but meta; "" stands for a table of which only
// the rows are counted, and is allowed. nil allows no column.
//
// While a DB is open, another Open of the same file in this process waits for
// its Close, until ctx ends: closing one of two descriptors of a file would
// drop the locks that protect the other.
//
// A file that cannot be read gives CodeUpstream with a cause.reason: "missing",
// "unreadable" (no right, or not a file), "schema" (a database without the
// cookies we know), "busy" (held and changing; retryable) or "corrupt".
func Open(ctx context.Context, path string, authorize func(table, column string) bool) (*DB, error) {
	release, err := alone(ctx, path)
	if err != nil {
		return nil, err
	}
	db, err := open(ctx, path, authorize)
	if err != nil {
		release()
		return nil, err
	}
	db.release = release
	return db, nil
}

func open(ctx context.Context, path string, authorize func(table, column string) bool) (*DB, error) {
	logged, err := inspect(path)
	if err != nil {
		return nil, err
	}
	if !logged {
		db, err := connect(ctx, dsn(path, live), authorize)
		if err == nil || !wantsCopy(err) {
			return db, problem(ctx, err)
		}
	}
	for range copyTries {
		var db *DB
		if db, err = openCopy(ctx, path, authorize); err == nil {
			return db, nil
		}
		if r := reason(err); ctx.Err() != nil || r != busy && r != corrupt {
			break
		}
	}
	return nil, problem(ctx, err)
}

// copyTries is how often a copy is made when the file changed meanwhile. A
// browser writes in bursts 30 s apart, so the second one nearly always holds.
const copyTries = 4

func openCopy(ctx context.Context, path string, authorize func(table, column string) bool) (*DB, error) {
	s, err := take(ctx, path)
	if err != nil {
		return nil, err
	}
	db, err := connect(ctx, dsn(s.file, private), authorize)
	if err != nil {
		return nil, errors.Join(err, s.remove())
	}
	db.copied = s
	if err := s.hide(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Version is meta.version: the number of the schema.
func (db *DB) Version() int { return db.version }

// Compatible is meta.last_compatible_version: a reader that knows this version
// of the schema can read the file.
func (db *DB) Compatible() int { return db.compatible }

// HasColumn reports whether the cookies table stores a column of that name.
// Columns are asked for by name, never by position.
func (db *DB) HasColumn(name string) bool { return db.columns[name] }

// Query runs one statement. A column that the authorizer denies fails it with
// CodeInternal, cause.reason "denied", before a row is read.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*Rows, error) {
	rows, err := db.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, problem(ctx, err)
	}
	return &Rows{rows: rows, ctx: ctx}, nil
}

// Close ends every query and removes the private copy, if one was read.
func (db *DB) Close() error {
	if db.conn == nil {
		return nil
	}
	err := errors.Join(db.conn.Close(), db.pool.Close())
	db.conn = nil
	if db.copied != nil {
		err = errors.Join(err, db.copied.remove())
	}
	if db.release != nil {
		db.release()
	}
	if err != nil {
		return browserhost.Hide(browserhost.CodeInternal, err, "the browser's cookie database could not be closed")
	}
	return nil
}

// Rows are the answer of a query, as in database/sql, with the errors of this
// package.
type Rows struct {
	rows *sql.Rows
	ctx  context.Context
}

// Next moves to the next row.
func (r *Rows) Next() bool { return r.rows.Next() }

// Scan reads the row.
func (r *Rows) Scan(dest ...any) error { return problem(r.ctx, r.rows.Scan(dest...)) }

// Err is what ended the rows, if it was not their end.
func (r *Rows) Err() error { return problem(r.ctx, r.rows.Err()) }

// Close may be called at any time, also again.
func (r *Rows) Close() error { return problem(r.ctx, r.rows.Close()) }

var inUse = struct {
	sync.Mutex
	files map[string]chan struct{} // closed when the file is free again
}{files: map[string]chan struct{}{}}

// alone waits until no DB of this process has the file at path.
func alone(ctx context.Context, path string) (release func(), err error) {
	key, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fileProblem(err)
	}
	for {
		inUse.Lock()
		free, taken := inUse.files[key]
		if !taken {
			free = make(chan struct{})
			inUse.files[key] = free
			inUse.Unlock()
			return func() {
				inUse.Lock()
				delete(inUse.files, key)
				inUse.Unlock()
				close(free)
			}, nil
		}
		inUse.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return nil, problem(ctx, ctx.Err())
		}
	}
}

const headerLength = 100

// inspect reads the header of the file and reports whether it keeps a
// write-ahead log. SQLite would lay an index for the log beside the owner's
// file even to read it, so such a file is only ever copied.
func inspect(path string) (logged bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, fileProblem(err)
	}
	if !info.Mode().IsRegular() {
		return false, refuse(unreadable, nil)
	}
	f, err := os.Open(path)
	if err != nil {
		return false, fileProblem(err)
	}
	defer f.Close()
	var head [headerLength]byte
	switch n, err := f.ReadAt(head[:], 0); {
	case n == 0:
		return false, refuse(schema, err) // an empty file is an empty database
	case n < headerLength:
		return false, refuse(corrupt, err)
	case string(head[:16]) != "SQLite format 3\x00":
		return false, refuse(corrupt, nil)
	}
	return head[18] == 2 || head[19] == 2, nil
}
