//go:build unix && !darwin

package keychain

import (
	"os"
	"path/filepath"
	"strings"
)

const busVariable = "DBUS_SESSION_BUS_ADDRESS"

// reachable refuses where there is no session bus. The D-Bus library would
// start one by itself and leave its daemons behind as orphans; nothing is
// called that could make it try. It looks for the bus in fewer places than we
// do, so a bus found in the runtime directory is named to it.
func reachable() error {
	if address := os.Getenv(busVariable); address != "" && !strings.HasPrefix(address, "autolaunch:") {
		return nil
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) {
		return unavailable(noBus, nil)
	}
	socket := filepath.Join(dir, "bus")
	info, err := os.Stat(socket)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return unavailable(noBus, err)
	}
	return os.Setenv(busVariable, "unix:path="+escape(socket))
}

// escape writes a path as the D-Bus specification wants it in an address.
func escape(path string) string {
	const plain = "-_/.\\*0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	const hex = "0123456789abcdef"
	var out strings.Builder
	for i := range len(path) {
		if c := path[i]; strings.IndexByte(plain, c) >= 0 {
			out.WriteByte(c)
		} else {
			out.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return out.String()
}
