package browserdb

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// S5, K3: listing profiles opens none of their files. The kernel reports every
// opening in three profile directories.
func TestS5FindOpensNothing(t *testing.T) {
	home := t.TempDir()
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	for _, profile := range []string{"Default", "Profile 1", "Profile 2"} {
		dir := filepath.Join(home, ".config/chromium", profile)
		for _, name := range []string{"Cookies", "Cookies-journal", "Login Data", "Web Data", "Preferences"} {
			plant(t, filepath.Join(dir, name))
		}
		if _, err := unix.InotifyAddWatch(watch, dir, unix.IN_OPEN|unix.IN_ACCESS); err != nil {
			t.Fatal(err)
		}
	}
	found := Find(Roots{Home: home})
	if len(found) != 3 {
		t.Fatalf("found %v", found)
	}
	if opened := events(t, watch); opened != nil {
		t.Errorf("opened: %q", opened)
	}
	if _, err := Open(t.Context(), found[0].Cookies, nil); err == nil {
		t.Fatal("opened a file of text")
	}
	if opened := events(t, watch); len(opened) == 0 {
		t.Error("the watch sees no opening: this test proves nothing")
	}
}

// events returns the names of the files that were opened; directories do not count.
func events(t *testing.T, watch int) (names []string) {
	t.Helper()
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(watch, buf)
		if errors.Is(err, unix.EAGAIN) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
			at += unix.SizeofInotifyEvent
			if e.Mask&unix.IN_ISDIR == 0 {
				names = append(names, strings.TrimRight(string(buf[at:at+int(e.Len)]), "\x00"))
			}
			at += int(e.Len)
		}
	}
}
