package operator

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// socketName is the door's name in the state directory.
const socketName = "control.sock"

// maxPath is how long a socket's path may be on every system, in bytes.
const maxPath = 100

// ErrNoHost says that nobody answers at control.sock.
var ErrNoHost = errors.New("no host is running")

// Path is where the host of a state directory has its control.sock: in it, or
// under the runtime directory of the user where the path would be too long for
// a socket.
func Path(home string) string {
	if at := filepath.Join(home, socketName); len(at) <= maxPath {
		return at
	}
	sum := sha256.Sum256([]byte(home))
	name := "browserhost-" + hex.EncodeToString(sum[:8]) + ".sock"
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		if at := filepath.Join(dir, name); len(at) <= maxPath {
			return at
		}
	}
	return filepath.Join(os.TempDir(), "browserhost-"+strconv.Itoa(os.Getuid()), name)
}

// Listener is an open control.sock.
type Listener struct{ net *net.UnixListener }

// Listen opens control.sock at path, for this user alone: the file is 0600 and
// its directory, made when it is missing, must be the user's own and 0700
// (AIP-63 C11). A socket that is left of a host that died is replaced; one that
// is answered, or a file that is no socket, is an error and stays.
func Listen(path string) (*Listener, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	if len(path) > maxPath {
		return nil, fmt.Errorf("%s is too long for a socket: %d bytes, at most %d", path, len(path), maxPath)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := ownDirectory(dir); err != nil {
		return nil, err
	}
	if err := clearStale(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &Listener{l}, nil
}

// Close closes the door and removes the socket. Closing it again is no error.
func (l *Listener) Close() error {
	if err := l.net.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// clearStale removes a socket at path that nobody answers.
func clearStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is in the way: it is not a socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return fmt.Errorf("another host answers at %s", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s is in the way: %w", path, err)
	}
	return os.Remove(path)
}
