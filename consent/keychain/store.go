package keychain

import (
	"errors"
	"sync"

	"github.com/zalando/go-keyring"
)

// store is what a vault needs of a keychain. Its calls may block for ever.
type store interface {
	get(service, user string) (string, error)
	set(service, user, value string) error
	delete(service, user string) error
}

// system is the operating system's own keychain.
type system struct{}

func (system) get(service, user string) (string, error) {
	if err := reachable(); err != nil {
		return "", err
	}
	value, err := keyring.Get(service, user)
	return value, missing(err)
}

func (system) set(service, user, value string) error {
	if err := reachable(); err != nil {
		return err
	}
	return keyring.Set(service, user, value)
}

func (system) delete(service, user string) error {
	if err := reachable(); err != nil {
		return err
	}
	return missing(keyring.Delete(service, user))
}

func missing(err error) error {
	if errors.Is(err, keyring.ErrNotFound) {
		return ErrMissing
	}
	return err
}

// memory forgets everything when the process ends.
type memory struct {
	mu    sync.Mutex
	items map[string]string
}

func (m *memory) get(_, user string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.items[user]
	if !ok {
		return "", ErrMissing
	}
	return value, nil
}

func (m *memory) set(_, user, value string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.items[user] = value
	return nil
}

func (m *memory) delete(_, user string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.items, user)
	return nil
}

// broken stands for a store that does not exist.
type broken struct{}

func (broken) get(_, _ string) (string, error) { return "", unavailable(noStore, nil) }
func (broken) set(_, _, _ string) error        { return unavailable(noStore, nil) }
func (broken) delete(_, _ string) error        { return unavailable(noStore, nil) }
