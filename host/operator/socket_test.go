//go:build unix

package operator

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// AIP-63 C11: the socket is 0600, in a directory that is 0700.
func TestListenModes(t *testing.T) {
	dir := filepath.Join(private(t), "a", "b")
	path := filepath.Join(dir, "control.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, want := range map[string]os.FileMode{path: 0o600, dir: 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
}

// A directory that others may look into, or that is a link to one, is refused:
// they could put a socket of their own in our place.
func TestListenInOpenDirectory(t *testing.T) {
	dir := private(t)
	link := filepath.Join(private(t), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if l, err := Listen(filepath.Join(link, "s")); err == nil {
		l.Close()
		t.Error("below a link")
	}
	for _, mode := range []os.FileMode{0o701, 0o710, 0o777} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if l, err := Listen(filepath.Join(dir, "s")); err == nil {
			l.Close()
			t.Errorf("in a directory of mode %o", mode)
		}
	}
}

// A socket is replaced only when nobody answers; what is no socket, never.
func TestListenOverWhatIsThere(t *testing.T) {
	path := filepath.Join(private(t), "control.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err := Listen(path)
	if err != nil {
		t.Fatalf("over a socket that nobody answers: %v", err)
	}
	if second, err := Listen(path); err == nil {
		second.Close()
		t.Error("over a socket that is answered")
	}
	if _, err := net.Dial("unix", path); err != nil {
		t.Errorf("the first one does not answer any more: %v", err)
	}
	l.Close()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Listen(path); err == nil {
		l.Close()
		t.Error("over a file")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("the file: %q, %v", text, err)
	}
	if _, err := Dial(t.Context(), path); err == nil {
		t.Error("a file is dialled")
	}
}

// Design §5: under the runtime directory when the path would pass 100 bytes.
func TestPath(t *testing.T) {
	run, tmp := private(t), private(t)
	t.Setenv("TMPDIR", tmp)
	fits := "/" + strings.Repeat("h", maxPath-len("//control.sock"))
	for name, c := range map[string]struct{ run, home, below string }{
		"a short home":                 {run, "/h", "/h"},
		"the longest home":             {run, fits, fits},
		"a longer home":                {run, fits + "h", run},
		"without a runtime directory":  {"", fits + "h", tmp},
		"a relative one":               {"run", fits + "h", tmp},
		"one that is too long as well": {fits, fits + "h", tmp},
	} {
		t.Setenv("XDG_RUNTIME_DIR", c.run)
		got := Path(c.home)
		if !strings.HasPrefix(got, c.below+"/") || len(got) > maxPath {
			t.Errorf("%s: %s", name, got)
		}
		if other := Path(c.home + "2"); other == got {
			t.Errorf("%s: two homes, one socket", name)
		}
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	l, err := Listen(Path(fits + "h")) // makes its directory
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := Listen(filepath.Join(fits, "control.sock.long")); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
}

// Nobody there is its own error, with a path or without.
func TestNoHost(t *testing.T) {
	dir := private(t)
	path := filepath.Join(dir, "control.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	for _, p := range []string{path, filepath.Join(dir, "none"), filepath.Join(dir, "no", "directory")} {
		if _, err := Dial(t.Context(), p); !errors.Is(err, ErrNoHost) {
			t.Errorf("%s: %v", p, err)
		}
	}
}
