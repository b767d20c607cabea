package jar

import (
	"context"
	"errors"
	"path/filepath"

	"filippo.io/age"

	"browserhost"
)

// The two items of the keychain. There is a second one only during a rotation.
const (
	current = "jar-identity"
	next    = "jar-identity-next"
)

// Rotate seals every surviving grant for a new identity and deletes the old
// one, so that no copy of an older file can be opened any more (S1.45). It may
// be cut short at any point: then [Jar.Pending] is true, both identities are
// known, every file opens with one of them, and the next Rotate, Seal or Unseal
// goes on. With a locked keychain it fails with CodeKeyring and stays pending.
//
// A sealed file that opens with neither identity is removed; the identity that
// could have opened it is gone already.
func (j *Jar) Rotate(ctx context.Context) error {
	if err := j.lock(ctx); err != nil {
		return err
	}
	defer j.unlock()
	if err := write(j.marker(), nil); err != nil {
		return browserhost.Hide(browserhost.CodeInternal, err, "the new key could not be prepared")
	}
	return j.finish(ctx)
}

// Pending reports whether a rotation is not finished, for instance because the
// keychain was locked. It survives a restart and asks the keychain for nothing.
func (j *Jar) Pending() bool { return exists(j.marker()) }

func (j *Jar) marker() string { return filepath.Join(j.dir, sealedDir, marker) }

// finish carries a rotation to its end from wherever it stopped. The order is
// what makes it safe: the new identity is in the keychain before a file needs
// it, and the old one is replaced after the last file has left it.
func (j *Jar) finish(ctx context.Context) error {
	old, err := j.identity(ctx, current)
	if err != nil {
		return err
	}
	files, err := j.sealed()
	if err != nil {
		return browserhost.Hide(browserhost.CodeInternal, err, "the sealed sign-ins cannot be listed")
	}
	fresh, err := j.identity(ctx, next)
	if err != nil {
		return err
	}
	switch {
	case old == nil && fresh == nil && len(files) == 0: // nothing was ever sealed
		return j.finished()
	case old == nil && fresh == nil:
		return keyMissing()
	case fresh == nil:
		if fresh, err = j.newIdentity(ctx, next); err != nil {
			return err
		}
	}
	both := []age.Identity{fresh}
	if old != nil {
		both = append(both, old)
	}
	for _, id := range files {
		if err := j.reseal(id, both, fresh); err != nil {
			return browserhost.Hide(browserhost.CodeInternal, err, "a sealed sign-in could not be sealed again")
		}
	}
	if err := j.keys.Set(ctx, current, browserhost.Secret(fresh.String())); err != nil {
		return err
	}
	if err := j.keys.Delete(ctx, next); err != nil {
		return err
	}
	return j.finished()
}

// reseal moves one file to the fresh identity, or removes it when its grant is
// revoked or it cannot be opened. A file without a grant is kept: its grant may
// be about to be recorded.
func (j *Jar) reseal(id browserhost.GrantID, both []age.Identity, fresh *age.HybridIdentity) error {
	if g, ok := j.Grant(id); ok && g.RevokedAt != "" {
		return remove(j.path(id))
	}
	head, cookies, err := j.read(id, both)
	if errors.Is(err, errAltered) {
		return remove(j.path(id))
	}
	if err != nil {
		return err
	}
	return j.write(head, cookies, fresh)
}

func (j *Jar) finished() error {
	if err := remove(j.marker()); err != nil {
		return browserhost.Hide(browserhost.CodeInternal, err, "the new key is in use, but could not be marked so")
	}
	return nil
}

// identities returns what sealed files may be opened with, the one to seal for
// last. A waiting rotation is finished first if it can be.
func (j *Jar) identities(ctx context.Context) ([]age.Identity, error) {
	names := []string{current}
	if j.Pending() && j.finish(ctx) != nil {
		names = append(names, next)
	}
	var ids []age.Identity
	for _, name := range names {
		id, err := j.identity(ctx, name)
		if err != nil {
			return nil, err
		}
		if id != nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// identity reads an item; nil means that there is none.
func (j *Jar) identity(ctx context.Context, name string) (*age.HybridIdentity, error) {
	text, err := j.keys.Get(ctx, name)
	if browserhost.CodeOf(err) == browserhost.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	id, err := age.ParseHybridIdentity(string(text))
	if err != nil { // the parser quotes what it parses: its error is not kept (AIP-63 C9)
		return nil, browserhost.Errorf(browserhost.CodeKeyring, "the key in the keychain is damaged").With("reason", "damaged")
	}
	return id, nil
}

func keyMissing() error {
	return browserhost.Errorf(browserhost.CodeKeyring, "the keychain does not hold the key of the sealed sign-ins").With("reason", "key_missing")
}

// newIdentity makes an identity and stores it. The post-quantum kind fits the
// 80 characters of a keychain item and costs no more time (K8).
func (j *Jar) newIdentity(ctx context.Context, name string) (*age.HybridIdentity, error) {
	id, err := age.GenerateHybridIdentity()
	if err != nil {
		return nil, browserhost.Hide(browserhost.CodeInternal, err, "no key could be made")
	}
	if err := j.keys.Set(ctx, name, browserhost.Secret(id.String())); err != nil {
		return nil, err
	}
	return id, nil
}
