// Package keychain keeps a few short secrets where the operating system keeps
// its own: the Keychain on macOS, the Credential Manager on Windows, the
// Secret Service on Linux. The host needs two: the identity that opens sealed
// sign-ins (consent/jar) and the host secret, under which every MAC of the
// host is made (see [Vault.MAC]).
//
// A keychain may be locked, missing, or waiting for a person to type a
// password, and its library cannot be told to give up. So a [Vault] sends one
// call at a time, waits a bounded time, and otherwise answers with the code
// keyring_unavailable (K7). Nothing falls back to a file. When the keychain
// can be used again, the next call works; no restart is needed.
//
// What this protects: a copied disk and other users of the computer. A program
// that runs as the owner can ask the same keychain (SC.7).
package keychain

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"sync"
	"time"

	"browserhost"
)

// Store says where the secrets live.
type Store string

// The stores that the owner can choose (K7). Memory forgets everything when
// the host ends, sealed sign-ins included.
const (
	Keychain Store = "keychain"
	Memory   Store = "memory"
)

const (
	// MaxItem is the length of the longest secret, in characters (K8): every
	// operating system's keychain can hold that.
	MaxItem = 80

	// DefaultTimeout bounds one call, waiting for its turn included (SC.2).
	DefaultTimeout = 5 * time.Second

	defaultService = "browserhost"
	hostSecret     = "host-secret" // item: 32 random bytes in base64
)

// ErrMissing is inside the error of [Vault.Get] for an item that the keychain
// does not hold. The keychain itself answered.
var ErrMissing = errors.New("keychain: no such item")

// Options choose a vault. The zero value is the OS keychain under the
// product's own name.
type Options struct {
	Store   Store         // "" = Keychain
	Service string        // "" = "browserhost"
	Account string        // tells state directories apart; goes before each item's name
	Timeout time.Duration // 0 = DefaultTimeout
}

// Vault is one open keychain. It is safe for concurrent use; calls take turns.
type Vault struct {
	store   store
	service string
	account string
	timeout time.Duration

	turn chan struct{} // holds a token while a call runs

	mu    sync.Mutex
	since time.Time // start of the call that runs; zero when none does

	making chan struct{} // holds a token while the host secret is fetched
	secret []byte        // the host secret; guarded by making
}

// Open returns a vault at once. The keychain is first asked by the first call,
// so a host without one starts and serves what needs none (K7).
func Open(opts Options) *Vault {
	v := &Vault{
		service: opts.Service,
		account: opts.Account,
		timeout: opts.Timeout,
		turn:    make(chan struct{}, 1),
		making:  make(chan struct{}, 1),
	}
	if v.service == "" {
		v.service = defaultService
	}
	if v.timeout <= 0 {
		v.timeout = DefaultTimeout
	}
	switch opts.Store {
	case "", Keychain:
		v.store = system{}
	case Memory:
		v.store = &memory{items: map[string]string{}}
	default: // the setting's reader has refused it; asked all the same, nothing works
		v.store = broken{}
	}
	return v
}

// Get returns the item. An item that is not there gives CodeNotFound around
// [ErrMissing]; every other failure is CodeKeyring.
func (v *Vault) Get(ctx context.Context, name string) (browserhost.Secret, error) {
	value, err := v.do(ctx, func() (string, error) { return v.store.get(v.service, v.user(name)) })
	return browserhost.Secret(value), err
}

// Set stores the item, at most [MaxItem] characters and not empty (K8). After
// an error the item may still be written, by a keychain that answers late.
func (v *Vault) Set(ctx context.Context, name string, value browserhost.Secret) error {
	if len(value) == 0 || len(value) > MaxItem {
		return browserhost.Errorf(browserhost.CodeInputInvalid, "a keychain item has 1 to %d characters", MaxItem)
	}
	_, err := v.do(ctx, func() (string, error) { return "", v.store.set(v.service, v.user(name), string(value)) })
	return err
}

// Delete removes the item. An item that is not there is no error.
func (v *Vault) Delete(ctx context.Context, name string) error {
	_, err := v.do(ctx, func() (string, error) { return "", v.store.delete(v.service, v.user(name)) })
	if errors.Is(err, ErrMissing) {
		return nil
	}
	return err
}

// MAC returns HMAC-SHA256 of data under a key that HKDF-SHA256 derives from
// the host secret and the label. The host secret is made when it is first
// needed and is kept in memory from then on, so that later calls ask the
// keychain for nothing. It implements [browserhost.Keys].
func (v *Vault) MAC(ctx context.Context, label string, data []byte) ([]byte, error) {
	secret, err := v.hostSecret(ctx)
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, secret, nil, label, sha256.Size)
	if err != nil {
		return nil, browserhost.Hide(browserhost.CodeInternal, err, "no key could be derived")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(data)
	return mac.Sum(nil), nil
}

// State asks the keychain whether it can be used now, and makes nothing. Why
// is a sentence without a path, for status and doctor; "" when ok.
func (v *Vault) State(ctx context.Context) (ok bool, why string) {
	_, err := v.Get(ctx, hostSecret)
	if err == nil || errors.Is(err, ErrMissing) {
		return true, ""
	}
	return false, browserhost.AsError(err).Message
}

func (v *Vault) hostSecret(ctx context.Context) ([]byte, error) {
	select {
	case v.making <- struct{}{}:
		defer func() { <-v.making }()
	case <-ctx.Done():
		return nil, unavailable(timeout, ctx.Err())
	}
	if v.secret != nil {
		return v.secret, nil
	}
	value, err := v.Get(ctx, hostSecret)
	if errors.Is(err, ErrMissing) {
		fresh := make([]byte, 32)
		rand.Read(fresh) // never fails
		value = browserhost.Secret(base64.StdEncoding.EncodeToString(fresh))
		err = v.Set(ctx, hostSecret, value)
	}
	if err != nil {
		return nil, err
	}
	secret, err := base64.StdEncoding.DecodeString(string(value))
	if err != nil || len(secret) != 32 {
		// Not replaced: every MAC made so far would be lost without a word.
		return nil, unavailable(damaged, nil)
	}
	v.secret = secret
	return secret, nil
}

func (v *Vault) user(name string) string {
	if v.account == "" {
		return name
	}
	return v.account + "/" + name
}
