//go:build unix

package extract

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"browserhost"
)

func wantReason(t *testing.T, err error, want reason) {
	t.Helper()
	if e := browserhost.AsError(err); err == nil || e.Code != browserhost.CodeKeyring || e.Cause["reason"] != string(want) {
		t.Fatalf("got %v, want reason %s", err, want)
	}
}

// Without a session bus nothing is started to get one (S2).
func TestS2NoBus(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, "launched")
	if err := os.WriteFile(filepath.Join(dir, "dbus-launch"), []byte("#!/bin/sh\n: > "+mark+"\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for _, address := range []string{"", "autolaunch:", "autolaunch:scope=*user"} {
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", address)
		for _, runtime := range []string{"", "relative", dir} {
			t.Setenv("XDG_RUNTIME_DIR", runtime)
			_, err := SecretService().Passwords(t.Context(), "chromium")
			wantReason(t, err, noBus)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a bus was launched")
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(dir, "nobody"))
	_, err := SecretService().Passwords(t.Context(), "chromium")
	wantReason(t, err, failed)
}

// S2: a bus that accepts and never answers costs the time-out and no more.
func TestS2HungBus(t *testing.T) {
	dir, err := os.MkdirTemp("", "rt") // short: a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	bus, err := net.Listen("unix", filepath.Join(dir, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close() })
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	t.Setenv("XDG_RUNTIME_DIR", dir)
	start := time.Now()
	_, err = secretService{timeout: 50 * time.Millisecond}.Passwords(t.Context(), "chromium")
	wantReason(t, err, noAnswer)
	if took := time.Since(start); took > askTime {
		t.Errorf("took %v", took)
	}
}

// Which marks a browser's password carries.
func TestItems(t *testing.T) {
	for browser, want := range map[string]item{
		"chrome":          {"chrome", "Chrome Safe Storage"},
		"chrome-unstable": {"chrome", "Chrome Safe Storage"},
		"brave":           {"brave", "Brave Safe Storage"},
		"chromium":        {"chromium", "Chromium Safe Storage"},
		"edge-dev":        {"chromium", "Chromium Safe Storage"},
	} {
		if got := items(browser); got != want {
			t.Errorf("%s: %v", browser, got)
		}
	}
}
