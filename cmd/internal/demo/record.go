package demo

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"browserhost/cmd/internal/wire"
)

func (s *story) verify(ctx context.Context) (string, error) {
	book, err := s.desk.Ledger(ctx)
	if err != nil || !book.OK {
		return "", fmt.Errorf("the ledger does not verify: %s: %w", book.Problem, err)
	}
	named, err := s.verifyForged(ctx, book.Path)
	if err != nil {
		return "", err
	}
	files, err := s.search()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d records verify; in a copy with one byte changed, %s; the cookie is in none of %d files and in no answer", book.Records, named, files), nil
}

// verifyForged changes one byte of the first record in a copy; verifying must
// name that place.
func (s *story) verifyForged(ctx context.Context, path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	at := bytes.Index(text, []byte(site))
	if at < 0 {
		return "", errors.New("the ledger does not name the site")
	}
	text[at] ^= 1
	copied := filepath.Join(s.dir, "forged.jsonl")
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		return "", err
	}
	v, err := wire.VerifyLedger(ctx, wire.Options{Home: s.home()}, copied)
	switch {
	case err != nil:
		return "", err
	case v.OK || v.Seq == nil:
		return "", errors.New("a forged ledger verifies")
	}
	return v.Problem, nil
}

// search looks for the owner's session cookie, in the forms in which it could
// have slipped out, in every file of the host and in every answer. The owner's
// own profile is the one place where it belongs.
func (s *story) search() (files int, err error) {
	forms := canary(s.site.Session())
	s.seenLock.Lock()
	answers := s.seen.Bytes()
	s.seenLock.Unlock()
	if form, ok := forms.in(answers); ok {
		return 0, fmt.Errorf("an answer to an agent holds the cookie (%s)", form)
	}
	err = filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // a browser tidies up while we look
			return nil
		case err != nil:
			return err
		case path == s.owner:
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		files++
		if form, ok := forms.in(text); ok {
			return fmt.Errorf("%s holds the cookie (%s)", path, form)
		}
		return err
	})
	return files, err
}

// forms are the spellings of one value, by name.
type forms map[string][]byte

func canary(value string) forms {
	v := []byte(value)
	f := forms{
		"as it is": v,
		"hex":      []byte(hex.EncodeToString(v)),
		"escaped":  []byte(url.QueryEscape(value)),
	}
	for phase := range 3 { // base64 of a text that holds it, wherever it begins
		padded := append(bytes.Repeat([]byte{0}, phase), v...)
		enc := base64.StdEncoding.EncodeToString(padded)
		f[fmt.Sprintf("base64, phase %d", phase)] = []byte(enc[4 : len(enc)-4])
	}
	return f
}

func (f forms) in(text []byte) (string, bool) {
	for name, form := range f {
		if bytes.Contains(text, form) {
			return name, true
		}
	}
	return "", false
}
