//go:build unix && !darwin

package keychain

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Without a session bus the keychain's library is never called: it would start
// a bus of its own and leave daemons behind. A program that leaves a mark
// stands in for the one that it would start.
func TestNoBusNoCall(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, "launched")
	script := "#!/bin/sh\n: > " + mark + "\nexit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "dbus-launch"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for _, address := range []string{"", "autolaunch:", "autolaunch:scope=*user"} {
		t.Setenv(busVariable, address)
		for _, runtime := range []string{"", "relative", dir} {
			t.Setenv("XDG_RUNTIME_DIR", runtime)
			v := Open(Options{})
			_, err := v.Get(t.Context(), "x")
			wantReason(t, err, noBus)
			wantReason(t, v.Set(t.Context(), "x", canary), noBus)
			wantReason(t, v.Delete(t.Context(), "x"), noBus)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a bus was launched")
	}
}

// A bus in the runtime directory is named to the library, which would not look
// there.
func TestBusInRuntimeDir(t *testing.T) {
	dir, err := os.MkdirTemp("", "rt dir") // short: a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, err := net.Listen("unix", filepath.Join(dir, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv(busVariable, "")
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if err := reachable(); err != nil {
		t.Fatal(err)
	}
	if got, want := os.Getenv(busVariable), "unix:path="+escape(dir)+"/bus"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := escape("/run/a b,c"); got != "/run/a%20b%2cc" {
		t.Errorf("escape: %q", got)
	}
}
