package settings

import (
	"fmt"
	"os"
	"path/filepath"
)

// Root is the directory that the agentproto programs share: AGENTPROTO_HOME,
// else .agentproto in the user's home directory.
func Root(environ func(string) string) (string, error) {
	if dir := environ("AGENTPROTO_HOME"); dir != "" {
		return clean("AGENTPROTO_HOME", dir)
	}
	user := environ("HOME")
	if user == "" {
		var err error
		if user, err = os.UserHomeDir(); err != nil {
			return "", fmt.Errorf("find the home directory: %w", err)
		}
	}
	return filepath.Join(user, ".agentproto"), nil
}

// Home is where this host keeps its state: BROWSERHOST_HOME, else browserhost
// below [Root].
func Home(environ func(string) string) (string, error) {
	if dir := environ("BROWSERHOST_HOME"); dir != "" {
		return clean("BROWSERHOST_HOME", dir)
	}
	root, err := Root(environ)
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "browserhost"), nil
}

func clean(name, dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("%s: %q is not an absolute path", name, clip(dir))
	}
	return filepath.Clean(dir), nil
}

// MakeHome creates home with what is missing above it, for this user alone,
// and tightens a home that was looser (AIP-63 C11).
func MakeHome(home string) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return fmt.Errorf("make the home directory: %w", err)
	}
	info, err := os.Stat(home)
	if err != nil {
		return fmt.Errorf("make the home directory: %w", err)
	}
	if readableByOthers(info) {
		if err := os.Chmod(home, 0o700); err != nil {
			return fmt.Errorf("keep the home directory to yourself: %w", err)
		}
	}
	return nil
}

// Private reports whether a file or directory is closed to other users, as far
// as this system says so.
func Private(info os.FileInfo) bool { return !readableByOthers(info) }
