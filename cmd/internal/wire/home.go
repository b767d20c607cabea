package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"browserhost/consent/keychain"
)

// The labels of the chains' anchors under the host secret.
const (
	consentLabel  = "anchor consent"
	activityLabel = "anchor activity"
)

// Running says that another process holds the state directory (K37).
type Running struct {
	Home string
	PID  int // 0 when it is not known
}

func (r *Running) Error() string {
	if r.PID == 0 {
		return "another host uses " + r.Home
	}
	return fmt.Sprintf("another host uses %s (process %d)", r.Home, r.PID)
}

// lockHome takes the state directory until the returned closer is closed, or
// the process ends in whatever way. The number of the holder is written beside.
func lockHome(home string) (io.Closer, error) {
	l := flock.New(filepath.Join(home, "host.lock"), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the state directory: %w", err)
	}
	pidFile := filepath.Join(home, "host.pid")
	if !ok {
		text, _ := os.ReadFile(pidFile)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return nil, &Running{home, pid}
	}
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return held{l, pidFile}, nil
}

type held struct {
	lock *flock.Flock
	pid  string
}

func (h held) Close() error {
	os.Remove(h.pid)
	return h.lock.Close()
}

var idForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// hostID is the host's account in the keychain: random, and kept in the state
// directory, so that the sign-ins sealed there open wherever it is moved.
func hostID(home string) (string, error) {
	name := filepath.Join(home, "host.id")
	text, err := os.ReadFile(name)
	seed := strings.TrimSpace(string(text))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		var b [8]byte
		rand.Read(b[:])
		seed = hex.EncodeToString(b[:])
		// In one step: half an id would stop every later start.
		if err := errors.Join(os.WriteFile(name+".new", []byte(seed+"\n"), 0o600), os.Rename(name+".new", name)); err != nil {
			return "", err
		}
	case err != nil:
		return "", err
	case !idForm.MatchString(seed):
		return "", fmt.Errorf("%s does not hold 16 hex digits", name)
	}
	return seed, nil
}

// marker begins the instance key of every browser of the host in home, for the
// sweep (AIP-63 L8). It depends on where the directory is, so that a copied one
// does not end the browsers of the first.
func marker(home, id string) string {
	abs, err := filepath.Abs(home)
	if err != nil {
		abs = home
	}
	sum := sha256.Sum256([]byte(id + "\x00" + abs))
	return hex.EncodeToString(sum[:8])
}

// openVault opens the keychain under the host's own account in it.
func openVault(store, id string) *keychain.Vault {
	return keychain.Open(keychain.Options{Store: keychain.Store(store), Account: id})
}
