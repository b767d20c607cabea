// Package jar holds what the owner lent and what was lent with it: the list of
// grants, in clear, and the cookies of each grant, sealed.
//
//	<dir>/grants.json        {"version":1,"grants":[…]}: no secret is in it
//	<dir>/jar/<grant>.age    one age file per grant
//
// Every sealed file is made for one identity, which exists in the keychain and
// nowhere else; the recipient that belongs to it is never written either, for
// whoever has it could forge a file. The plaintext begins with a header of
// grant, device, sequence number and version, checked on opening, so that files
// cannot be swapped (K8). A revoke ends with [Jar.Rotate]: the surviving grants
// are sealed for a new identity and the old one is deleted, after which no copy
// of the revoked file, wherever it lies, can be opened (AIP-63 C8, S1.45).
//
// Without a keychain nothing is written: sealing is refused with the code
// keyring_unavailable (K7). One process uses a directory at a time.
package jar

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"browserhost"
)

// Keychain is where the identity is kept: consent/keychain in the product. A
// missing item is an error with CodeNotFound; any other error means that the
// keychain cannot be used now. A call is bounded by the keychain itself.
type Keychain interface {
	Get(ctx context.Context, name string) (browserhost.Secret, error)
	Set(ctx context.Context, name string, value browserhost.Secret) error
	Delete(ctx context.Context, name string) error
}

const (
	grantsFile = "grants.json"
	sealedDir  = "jar"
	sealedExt  = ".age"
	marker     = "rotating" // exists while a rotation is not finished
)

// Jar is an open directory of grants. It is safe for concurrent use. What only
// reads the list never waits for the keychain.
type Jar struct {
	dir  string
	keys Keychain

	mu     sync.Mutex // guards grants and their file
	grants []browserhost.Grant

	sealing chan struct{}                 // holds a token while sealed files or the identity are in use
	seqs    map[browserhost.GrantID]int64 // highest sequence number seen; guarded by sealing
}

// Open reads the list of grants, which must be whole and valid, makes what is
// missing with modes 0600 and 0700, and tightens what is wider (AIP-63 C11,
// S1.48). It removes sealed files that no living grant names and what a killed
// process left half written. The keychain is not asked, so a host with a locked
// one opens its jar; see [Jar.Pending].
func Open(dir string, keys Keychain) (*Jar, error) {
	j := &Jar{
		dir:     dir,
		keys:    keys,
		sealing: make(chan struct{}, 1),
		seqs:    map[browserhost.GrantID]int64{},
	}
	for _, d := range []string{dir, filepath.Join(dir, sealedDir)} {
		if err := privateDir(d); err != nil {
			return nil, browserhost.Hide(browserhost.CodeInternal, err, "the directory for grants cannot be used")
		}
		if err := dropHalfWritten(d); err != nil {
			return nil, browserhost.Hide(browserhost.CodeInternal, err, "the directory for grants cannot be cleaned")
		}
	}
	var err error
	if j.grants, err = readGrants(filepath.Join(dir, grantsFile)); err != nil {
		return nil, err
	}
	if err := j.dropOrphans(); err != nil {
		return nil, browserhost.Hide(browserhost.CodeInternal, err, "the sealed sign-ins cannot be listed")
	}
	return j, nil
}

// Grants returns every grant, ended ones included, oldest first. The list is
// the caller's own.
func (j *Jar) Grants() []browserhost.Grant {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]browserhost.Grant, len(j.grants))
	for i, g := range j.grants {
		all[i] = clone(g)
	}
	return all
}

// Grant returns one grant, ended or not.
func (j *Jar) Grant(id browserhost.GrantID) (browserhost.Grant, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := j.index(id); i >= 0 {
		return clone(j.grants[i]), true
	}
	return browserhost.Grant{}, false
}

// Put adds g, or replaces the grant of the same id, and is on the disk when it
// returns. It refuses a record that breaks the rules of its shape
// (input_invalid), and one that would bring a revoked grant back or move it to
// another device (AIP-63 C8, C12).
func (j *Jar) Put(ctx context.Context, g browserhost.Grant) error {
	if err := ctx.Err(); err != nil {
		return browserhost.Hide(browserhost.CodeTimeout, err, "the grant was not recorded in time")
	}
	if err := check(g); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	next := slices.Clone(j.grants)
	if i := j.index(g.ID); i < 0 {
		next = append(next, clone(g))
	} else {
		switch old := next[i]; {
		case old.RevokedAt != "" && g.RevokedAt != old.RevokedAt:
			return revoked()
		case old.DeviceID != g.DeviceID:
			return browserhost.Errorf(browserhost.CodeInputInvalid, "a grant cannot move to another device")
		}
		next[i] = clone(g)
	}
	if err := writeGrants(filepath.Join(j.dir, grantsFile), next); err != nil {
		return browserhost.Hide(browserhost.CodeInternal, err, "the list of grants could not be written")
	}
	j.grants = next
	return nil
}

// Sealed reports whether sealed cookies of the grant are on the disk.
func (j *Jar) Sealed(id browserhost.GrantID) bool {
	if !grantID.MatchString(string(id)) {
		return false
	}
	info, err := os.Lstat(j.path(id))
	return err == nil && info.Mode().IsRegular()
}

// Delete removes the sealed cookies of the grant; none are fine. It needs no
// keychain, so that a revoke never waits for one (S1.45). Copies made earlier
// stay readable until [Jar.Rotate].
func (j *Jar) Delete(ctx context.Context, id browserhost.GrantID) error {
	if !grantID.MatchString(string(id)) {
		return browserhost.Errorf(browserhost.CodeInputInvalid, "that is not the id of a grant")
	}
	if err := j.lock(ctx); err != nil {
		return err
	}
	defer j.unlock()
	if err := remove(j.path(id)); err != nil {
		return browserhost.Hide(browserhost.CodeInternal, err, "the sealed sign-ins could not be deleted")
	}
	return nil
}

func (j *Jar) path(id browserhost.GrantID) string {
	return filepath.Join(j.dir, sealedDir, string(id)+sealedExt)
}

// lock takes the turn of the sealed files. Whoever holds it may wait for the
// keychain, so waiting for it ends with ctx.
func (j *Jar) lock(ctx context.Context) error {
	select {
	case j.sealing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return browserhost.Hide(browserhost.CodeTimeout, ctx.Err(), "the sealed sign-ins are in use")
	}
}

func (j *Jar) unlock() { <-j.sealing }

// index needs j.mu.
func (j *Jar) index(id browserhost.GrantID) int {
	return slices.IndexFunc(j.grants, func(g browserhost.Grant) bool { return g.ID == id })
}

// sealed lists the ids of the sealed files.
func (j *Jar) sealed() ([]browserhost.GrantID, error) {
	entries, err := os.ReadDir(filepath.Join(j.dir, sealedDir))
	if err != nil {
		return nil, err
	}
	var ids []browserhost.GrantID
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), sealedExt); ok && e.Type().IsRegular() && grantID.MatchString(id) {
			ids = append(ids, browserhost.GrantID(id))
		}
	}
	return ids, nil
}

// dropOrphans removes sealed files without a living grant: of a revoke that
// was cut short, or of an import that never became a grant.
func (j *Jar) dropOrphans() error {
	ids, err := j.sealed()
	for _, id := range ids {
		if g, ok := j.Grant(id); !ok || g.RevokedAt != "" {
			err = errors.Join(err, remove(j.path(id)))
		}
	}
	return err
}

func clone(g browserhost.Grant) browserhost.Grant {
	g.Domains = slices.Clone(g.Domains)
	g.Sinks = slices.Clone(g.Sinks)
	for i, s := range g.Sinks {
		if s.AckSeq != nil {
			g.Sinks[i].AckSeq = new(*s.AckSeq)
		}
	}
	return g
}

func revoked() error {
	return browserhost.Errorf(browserhost.CodeConsentRequired, "the grant was revoked").With("reason", "grant_revoked")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
