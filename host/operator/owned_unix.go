//go:build unix

package operator

import (
	"fmt"
	"os"
	"syscall"
)

// ownDirectory fails unless dir is this user's and closed to all others:
// whoever can put files beside a socket can put another one in its place.
func ownDirectory(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a directory of yours alone (0700)", dir)
	}
	return nil
}
