//go:build !unix

package browserdb

import (
	"errors"
	"syscall"
)

// hide does nothing: an open file cannot be removed here, so the copy stays
// until Close.
func (s *snapshot) hide() error { return nil }

const (
	sharingViolation = syscall.Errno(32)
	lockViolation    = syscall.Errno(33)
)

// held reports whether another program has the file for itself, as Chrome has
// its cookies while it runs.
func held(err error) bool {
	return errors.Is(err, sharingViolation) || errors.Is(err, lockViolation)
}
