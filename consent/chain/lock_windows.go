package chain

import (
	"os"
	"syscall"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

// lock takes the file for this process, until it is closed: one byte far
// beyond its end, so that readers are not in the way.
func lock(f *os.File) error {
	const exclusive, failAtOnce = 2, 1
	at := syscall.Overlapped{OffsetHigh: 1 << 30}
	ok, _, err := lockFileEx.Call(f.Fd(), exclusive|failAtOnce, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
	if ok == 0 {
		return err
	}
	return nil
}

// syncDir has nothing to do: the system keeps names and contents together.
func syncDir(string) error { return nil }
