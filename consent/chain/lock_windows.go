package chain

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

// lock takes the file for this File until it is closed. What is locked is one
// byte far beyond the end, since Windows would keep readers from locked bytes.
func lock(f *os.File) error {
	const (
		failAtOnce, exclusive = 1, 2
		lockViolation         = syscall.Errno(33)
	)
	at := syscall.Overlapped{OffsetHigh: 1 << 30}
	ok, _, err := lockFileEx.Call(f.Fd(), exclusive|failAtOnce, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
	switch {
	case ok != 0:
		return nil
	case errors.Is(err, lockViolation):
		return ErrLocked
	}
	return err
}

// syncDir has nothing to do: the system journals names with their files.
func syncDir(string) error { return nil }
