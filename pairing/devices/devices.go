// Package devices keeps the paired agents of this computer: who they are, what
// the owner ticked for them, and how their bearer is recognised.
//
// A local agent becomes a device when the owner mints it. It then carries a
// bearer of the form apd1.<id>.<mac>. The bearer is handed out once; the store
// keeps only what is needed to recognise it, so that a copied store lets
// nobody in. Every check looks at the file again, so that a device that
// another process removed is refused on its very next request.
package devices

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"browserhost"
)

// RoleAgent is the role of a minted device.
const RoleAgent = "agent"

// MaxDevices bounds the store, MaxName a device's name in characters.
const (
	MaxDevices = 256
	MaxName    = 64
)

// Options complete a [Store].
type Options struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// CanMint is asked before a device is minted; its error is the answer.
	// Without a keychain no new device may come to be (K7). Nil allows.
	CanMint func(ctx context.Context) error
}

// Store is the list of devices. It is safe for concurrent use.
type Store struct {
	path string // "" = memory only
	opts Options

	mu       sync.Mutex
	records  []record                           // oldest first
	file     fs.FileInfo                        // what records were read from; nil = no file
	broken   bool                               // the file can no longer be read: nobody is recognised
	lastSeen map[browserhost.DeviceID]time.Time // newer than the file
	onRevoke []func(browserhost.DeviceID)
}

// Open reads the store at path; a missing file is an empty store, and a path
// of "" keeps everything in memory. A file that cannot be read or understood
// is an error: to start over it would lose every pairing.
func Open(path string, opts Options) (*Store, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Store{path: path, opts: opts, lastSeen: map[browserhost.DeviceID]time.Time{}}
	if path == "" {
		return s, nil
	}
	var err error
	if s.records, s.file, err = read(path); err != nil {
		return nil, fmt.Errorf("read the device store %s: %w", path, err)
	}
	return s, nil
}

// Mint makes a device and returns its bearer, which is shown once and cannot
// be had again. The name is cleaned of control and direction characters, has
// 1 to MaxName characters, and no two devices share one. Scopes are known and
// not empty. The error is CodeInputInvalid, or what CanMint answered.
func (s *Store) Mint(ctx context.Context, name string, scopes []browserhost.Scope) (browserhost.Device, browserhost.Secret, error) {
	none := browserhost.Device{}
	name, err := cleanName(name)
	if err != nil {
		return none, "", err
	}
	if err := checkScopes(scopes); err != nil {
		return none, "", err
	}
	if s.opts.CanMint != nil {
		if err := s.opts.CanMint(ctx); err != nil {
			return none, "", err
		}
	}
	random := make([]byte, 16+32)
	if _, err := rand.Read(random); err != nil {
		return none, "", err
	}
	id := browserhost.DeviceID(hex.EncodeToString(random[:16]))
	mac := MAC(random[16:], id) // the secret is not kept: the verifier is enough to recognise the MAC
	r := record{
		ID: id, Name: name, Role: RoleAgent, Scopes: inOrder(scopes),
		CreatedAt: browserhost.FormatTime(s.opts.Now()), Verifier: verifierOf(mac),
	}
	err = s.change(func() error {
		if len(s.records) >= MaxDevices {
			return invalid("there are already %d devices", MaxDevices)
		}
		if slices.ContainsFunc(s.records, func(o record) bool { return strings.EqualFold(o.Name, name) }) {
			return invalid("a device is already called %q", name)
		}
		s.records = append(s.records, r)
		return nil
	})
	if err != nil {
		return none, "", err
	}
	return r.device(), bearer(id, mac), nil
}

// Verify recognises a bearer. It takes the same work for a bearer that is
// malformed, unknown or wrong, and looks at the file first. A store that can
// no longer be read recognises nobody.
func (s *Store) Verify(text string) (browserhost.Device, bool) {
	id, mac, wellFormed := parseBearer(text)
	given := verifierOf(mac)
	gone := s.refresh()
	defer s.tell(gone)

	s.mu.Lock()
	defer s.mu.Unlock()
	want, found := record{Verifier: verifierOf("")}, false
	for _, r := range s.readable() {
		if subtle.ConstantTimeCompare([]byte(r.ID), []byte(id)) == 1 {
			want, found = r, true
		}
	}
	equal := subtle.ConstantTimeCompare([]byte(given), []byte(want.Verifier)) == 1
	if !wellFormed || !found || !equal {
		return browserhost.Device{}, false
	}
	s.lastSeen[want.ID] = s.opts.Now()
	return s.seen(want).device(), true
}

// List returns the devices, oldest first.
func (s *Store) List() []browserhost.Device {
	gone := s.refresh()
	defer s.tell(gone)
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]browserhost.Device, 0, len(s.records))
	for _, r := range s.readable() {
		list = append(list, s.seen(r).device())
	}
	return list
}

// Find returns the device with this id or, letter case aside, this name.
func (s *Store) Find(nameOrID string) (browserhost.Device, bool) {
	for _, d := range s.List() {
		if string(d.ID) == nameOrID || strings.EqualFold(d.Name, nameOrID) {
			return d, true
		}
	}
	return browserhost.Device{}, false
}

// Revoke removes a device; its next request is refused. It needs no keychain,
// for it only narrows. An unknown device is CodeNotFound.
func (s *Store) Revoke(ctx context.Context, id browserhost.DeviceID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.change(func() error {
		i := slices.IndexFunc(s.records, func(r record) bool { return r.ID == id })
		if i < 0 {
			return browserhost.Errorf(browserhost.CodeNotFound, "there is no such device")
		}
		s.records = slices.Delete(slices.Clone(s.records), i, i+1)
		return nil
	})
	if err != nil {
		return err
	}
	s.tell([]browserhost.DeviceID{id})
	return nil
}

// OnRevoke registers what happens when a device is gone, by [Store.Revoke] or
// by another process's hand (AIP-63 C13). It is called after the device is
// refused, once per device, without a lock held.
func (s *Store) OnRevoke(f func(browserhost.DeviceID)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onRevoke = append(s.onRevoke, f)
}

// Flush writes the times at which devices were last seen. Checking a bearer
// writes nothing, so the host calls Flush when it stops.
func (s *Store) Flush() error {
	s.mu.Lock()
	clean := len(s.lastSeen) == 0
	s.mu.Unlock()
	if clean {
		return nil
	}
	return s.change(func() error { return nil })
}

// change does one change: the file as it is now, what f does to it, the file
// as it is then. When anything fails, nothing has changed.
func (s *Store) change(f func() error) error {
	gone := s.refresh()
	defer s.tell(gone)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.records
	if s.broken {
		return errors.New("the device store can no longer be read")
	}
	if err := f(); err != nil {
		s.records = before
		return err
	}
	s.records = slices.Clone(s.records)
	for i, r := range s.records {
		s.records[i] = s.seen(r)
	}
	if s.path != "" {
		info, err := write(s.path, s.records)
		if err != nil {
			s.records = before
			return fmt.Errorf("write the device store: %w", err)
		}
		s.file = info
	}
	clear(s.lastSeen)
	return nil
}

// refresh reads the file again when another process changed it, and returns
// the devices that this took away.
func (s *Store) refresh() (gone []browserhost.DeviceID) {
	if s.path == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = nil, nil
	}
	if err == nil && same(info, s.file) && !s.broken {
		return nil
	}
	before := s.records
	records, info, err := read(s.path)
	if s.broken = err != nil; s.broken {
		return nil // unreadable is not revoked: nobody is served, and nobody's grants end
	}
	s.records, s.file = records, info
	for _, r := range before {
		if !slices.ContainsFunc(s.records, func(n record) bool { return n.ID == r.ID }) {
			delete(s.lastSeen, r.ID)
			gone = append(gone, r.ID)
		}
	}
	return gone
}

func (s *Store) tell(gone []browserhost.DeviceID) {
	if len(gone) == 0 {
		return
	}
	s.mu.Lock()
	listeners := slices.Clone(s.onRevoke)
	s.mu.Unlock()
	for _, id := range gone {
		for _, f := range listeners {
			f(id)
		}
	}
}

// readable returns the records, none while the file cannot be read.
func (s *Store) readable() []record {
	if s.broken {
		return nil
	}
	return s.records
}

// seen returns r with the newest time it was seen.
func (s *Store) seen(r record) record {
	if t, ok := s.lastSeen[r.ID]; ok {
		r.LastSeen = browserhost.FormatTime(t)
	}
	return r
}

func (r record) device() browserhost.Device {
	return browserhost.Device{
		ID: r.ID, Name: r.Name, Role: r.Role, Local: true, Scopes: slices.Clone(r.Scopes),
		CreatedAt: r.CreatedAt, LastSeen: r.LastSeen,
	}
}

// cleanName makes a name safe for a terminal, a dialog and a log.
func cleanName(name string) (string, error) {
	name = strings.Join(strings.FieldsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError { // direction marks, zero widths, private use
			return -1
		}
		return r
	}, name)
	name = strings.Join(strings.Fields(name), " ")
	switch {
	case name == "":
		return "", invalid("a device needs a name")
	case utf8.RuneCountInString(name) > MaxName:
		return "", invalid("a name has at most %d characters", MaxName)
	case browserhost.DeviceID(name).Valid():
		return "", invalid("a name may not look like a device id")
	}
	return name, nil
}

func checkScopes(scopes []browserhost.Scope) error {
	if len(scopes) == 0 {
		return invalid("a device needs at least one scope")
	}
	for _, s := range scopes {
		if !slices.Contains(browserhost.AllScopes(), s) {
			return invalid("%q is not a scope", string(s))
		}
	}
	return nil
}

// inOrder returns the scopes once each, in the order of the pairing window.
func inOrder(scopes []browserhost.Scope) []browserhost.Scope {
	all := browserhost.AllScopes()
	out := slices.Clone(scopes)
	slices.SortFunc(out, func(a, b browserhost.Scope) int { return cmp.Compare(slices.Index(all, a), slices.Index(all, b)) })
	return slices.Compact(out)
}

func invalid(format string, v ...any) error {
	return browserhost.Errorf(browserhost.CodeInputInvalid, format, v...)
}
