package browserdb

import (
	"context"
	"errors"
	"io/fs"

	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"browserhost"
)

// The reasons of [Open]'s errors.
const (
	missing    = "missing"
	unreadable = "unreadable"
	schema     = "schema"
	busy       = "busy"
	corrupt    = "corrupt"
	denied     = "denied"
)

var sentences = map[string]string{
	missing:    "the browser profile has no cookie database",
	unreadable: "the browser's cookie database cannot be read",
	schema:     "the browser's cookie database has a form that is not known here",
	busy:       "the browser is writing its cookie database",
	corrupt:    "the browser's cookie database is damaged",
}

var errOtherType = errors.New("browserdb: a value has another type than its column")

func refuse(why string, inner error) *browserhost.Error {
	e := browserhost.Hide(browserhost.CodeUpstream, inner, sentences[why]).With("reason", why)
	e.Retryable = why == busy
	return e
}

// fileProblem maps the system's word about a file.
func fileProblem(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(missing, err)
	case held(err):
		return refuse(busy, err)
	}
	return refuse(unreadable, err)
}

// problem maps any error to one that may be shown. Those that are typed
// already stay as they are.
func problem(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*browserhost.Error](err); ok {
		return e
	}
	if ctx.Err() != nil {
		return browserhost.Hide(browserhost.CodeTimeout, err, "reading the browser's cookie database was given up")
	}
	switch code(err) & 0xff {
	case codes.SQLITE_AUTH:
		return browserhost.Hide(browserhost.CodeInternal, err, "a query asked for a column that it may not read").With("reason", denied)
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED:
		return refuse(busy, err)
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB, codes.SQLITE_IOERR, codes.SQLITE_FORMAT:
		return refuse(corrupt, err)
	case codes.SQLITE_ERROR, codes.SQLITE_SCHEMA, codes.SQLITE_MISMATCH:
		return refuse(schema, err)
	case 0: // database/sql's, which quotes the value that it could not convert (AIP-63 C9)
		return refuse(schema, errOtherType)
	}
	return refuse(unreadable, err)
}

// reason gives the reason of an error of this package.
func reason(err error) string {
	e, ok := errors.AsType[*browserhost.Error](problem(context.Background(), err))
	if !ok {
		return ""
	}
	why, _ := e.Cause["reason"].(string)
	return why
}

// wantsCopy reports whether a copy may be readable where the live file is not:
// it is locked, or needs writing before it can be read.
func wantsCopy(err error) bool {
	switch code(err) & 0xff {
	case codes.SQLITE_BUSY, codes.SQLITE_LOCKED, codes.SQLITE_CANTOPEN, codes.SQLITE_READONLY:
		return true
	}
	return false
}

// code is SQLite's result code, 0 when err is not SQLite's.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}
