//go:build unix

package chrome

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"browserhost"
)

// A data directory that is a browser's own, by place, link, spelling, name or
// content, is refused before anything is made or started (AIP-63 L13, S4.3, S4.6).
func TestDataDirRefused(t *testing.T) {
	home, _ := filepath.EvalSymlinks(t.TempDir())
	config := filepath.Join(home, "xdg")
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", config)
	own := filepath.Join(home, ".config", "chromium")
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(home, "moved")
	write(t, filepath.Join(elsewhere, "Local State"), "{}", 0o600)
	link := filepath.Join(home, "link")
	linked := filepath.Join(home, "linked")
	for from, to := range map[string]string{link: own, linked: filepath.Dir(own)} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ dir, reason string }{
		"the default":                {own, "default-user-data-dir"},
		"below it":                   {filepath.Join(own, "a", "b"), "default-user-data-dir"},
		"a link to it":               {link, "default-user-data-dir"},
		"below a link, not there":    {filepath.Join(link, "a"), "default-user-data-dir"},
		"by a link above, not there": {filepath.Join(linked, "google-chrome", "x"), "default-user-data-dir"},
		"another case":               {filepath.Join(home, ".config", "Chromium"), "default-user-data-dir"},
		"not there yet":              {filepath.Join(home, ".config", "google-chrome"), "default-user-data-dir"},
		"by XDG_CONFIG_HOME":         {filepath.Join(config, "google-chrome", "x"), "default-user-data-dir"},
		"a snap's":                   {filepath.Join(home, "snap", "chromium", "common", "chromium"), "default-user-data-dir"},
		"a flatpak's":                {filepath.Join(home, ".var", "app", "org.chromium.Chromium", "config", "chromium"), "default-user-data-dir"},
		"one that was moved":         {filepath.Join(elsewhere, "x"), "default-user-data-dir"},
		"dots":                       {filepath.Join(home, "x") + "/../.config/chromium", "default-user-data-dir"},
		"Default":                    {filepath.Join(home, "Default"), "default-profile-name"},
		"profile 12":                 {filepath.Join(home, "profile 12"), "default-profile-name"},
		"Guest Profile":              {filepath.Join(home, "Guest Profile"), "default-profile-name"},
		"relative":                   {"data", "default-user-data-dir"},
		"none":                       {"", "default-user-data-dir"},
	} {
		exe := install(t, filepath.Join(t.TempDir(), "chromium"), "")
		before := list(t, home)
		_, err := New(Config{ExecutablePath: exe, DataDir: c.dir, NoSandbox: true}).Launch(t.Context(), browserhost.LaunchOptions{Key: "k", Proxy: proxy})
		e := browserhost.AsError(err)
		if err == nil || e.Code != browserhost.CodeProfileRefused || e.Cause["reason"] != c.reason || e.Execution != browserhost.NotStarted {
			t.Errorf("%s: %v, %v", name, err, e)
		} else if strings.Contains(e.Error(), home) {
			t.Errorf("%s: the refusal tells the path: %v", name, e)
		}
		if _, ok := startOf(t, exe); ok {
			t.Errorf("%s: a browser was started", name)
		}
		if after := list(t, home); !slices.Equal(before, after) {
			t.Errorf("%s: something was made: %v", name, after)
		}
	}
	for _, dir := range []string{filepath.Join(home, ".agentproto", "browser", "chrome"), filepath.Join(home, "chromium-of-ours"), filepath.Join(home, ".config", "chromium2")} {
		if err := checkDataDir(dir, ownProfiles()); err != nil {
			t.Errorf("%s is refused: %v", dir, err)
		}
	}
}

// list names everything below a directory.
func list(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		out = append(out, path)
		return err
	})
	return out
}

// Right before the start the directory must still be what was made: swapped for
// a link, opened to others or filled, it is refused (S4.8).
func TestCheckFresh(t *testing.T) {
	make := func(name string) string {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	fresh := make("fresh")
	if err := checkFresh(fresh); err != nil {
		t.Errorf("a fresh directory: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(fresh, link); err != nil {
		t.Fatal(err)
	}
	open := make("open")
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	filled := make("filled")
	write(t, filepath.Join(filled, "Preferences"), "{}", 0o600)
	for name, dir := range map[string]string{"a link": link, "open to others": open, "filled": filled, "a file": write(t, filepath.Join(fresh, "file"), "", 0o700)} {
		if err := checkFresh(dir); browserhost.CodeOf(err) != browserhost.CodeProfileRefused && browserhost.CodeOf(err) != browserhost.CodeNotReady {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The socket that a killed browser leaves is removed with its profile, and
// nothing else that a link of that name may point to.
func TestRemoveProfile(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	theirs := write(t, filepath.Join(tmp, "org.chromium.Chromium.AbC123", "SingletonSocket"), "", 0o600)
	mine := write(t, filepath.Join(tmp, "photos", "SingletonSocket"), "", 0o600)
	deeper := write(t, filepath.Join(tmp, "x", "org.chromium.Chromium.AbC123", "SingletonSocket"), "", 0o600)
	for _, target := range []string{theirs, mine, deeper} {
		dir := filepath.Join(t.TempDir(), "profile")
		write(t, filepath.Join(dir, "Default", "Cookies"), "", 0o600)
		if err := os.Symlink(target, filepath.Join(dir, "SingletonSocket")); err != nil {
			t.Fatal(err)
		}
		if err := removeProfile(dir); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Error("the profile is still there")
		}
	}
	if _, err := os.Stat(filepath.Dir(theirs)); !os.IsNotExist(err) {
		t.Error("the socket's directory is still there")
	}
	for _, path := range []string{mine, deeper} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("what is not a browser's was removed: %v", err)
		}
	}
}

// On each system the person's own places are known; this one's are the real ones.
func TestOwnProfiles(t *testing.T) {
	env := func(name string) string {
		return map[string]string{"LOCALAPPDATA": "/L", "APPDATA": "/R", "XDG_CONFIG_HOME": "/X", "CHROME_USER_DATA_DIR": "/U/"}[name]
	}
	for goos, want := range map[string][]string{
		"linux":   {"/X/google-chrome", "/h/.config/chromium", "/h/.config/BraveSoftware", "/h/snap/chromium/common/chromium", "/U"},
		"darwin":  {"/h/Library/Application Support/Google/Chrome", "/h/Library/Application Support/Arc", "/U"},
		"windows": {`/L/Google\Chrome`, `/R/Opera Software`, "/U"},
	} {
		got := ownProfilesOn(goos, []string{"/h"}, env)
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%s: %s is not among %q", goos, w, got)
			}
		}
	}
}
