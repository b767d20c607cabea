//go:build unix

package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Contract A: only the owner's file decides; one that others may write is refused.
func TestFileOfOthersIsRefused(t *testing.T) {
	dir := home(t, "store: memory\n")
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o644: true, 0o620: false, 0o602: false, 0o666: false} {
		if err := os.Chmod(filepath.Join(dir, FileName), mode); err != nil {
			t.Fatal(err)
		}
		_, err := Load(dir, nil, environ())
		if ok != (err == nil) || !ok && !strings.Contains(err.Error(), "0600") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

// C11: the home directory is made 0700, and a looser one is tightened.
func TestMakeHome(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		if err := MakeHome(dir); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Fatalf("%v %v", info.Mode(), err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MakeHome(filepath.Join(file, "x")); err == nil {
		t.Fatal("a home below a file")
	}
}
