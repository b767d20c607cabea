package chrome

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// temporary is where the directories of launches live, below the data
// directory: one per instance key, which a killed run may have left.
const temporary = "temporary"

// makeProfile makes the directory of one launch. What an earlier run left
// under the same key is removed first.
func makeProfile(dataDir, key string) (string, error) {
	if err := checkDataDir(dataDir, ownProfiles()); err != nil {
		return "", err
	}
	parent := filepath.Join(dataDir, temporary)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", notReady(err, "the directory for the browser could not be made")
	}
	parent, err := filepath.EvalSymlinks(parent)
	if err != nil {
		return "", notReady(err, "the directory for the browser could not be made")
	}
	if key == "" || key != filepath.Base(key) || strings.HasPrefix(key, ".") {
		return "", refused("arg-override", "the key of the browser is not a name")
	}
	dir := filepath.Join(parent, key)
	if err := removeProfile(dir); err != nil {
		return "", notReady(err, "what an earlier browser left could not be removed")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", notReady(err, "the directory for the browser could not be made")
	}
	return dir, nil
}

// checkFresh looks once more right before the start: the directory is a real
// one, empty, closed to others and in nobody's profile (AIP-63 L13).
func checkFresh(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return notReady(err, "the directory for the browser is gone")
	}
	inside, err := os.ReadDir(dir)
	if err != nil {
		return notReady(err, "the directory for the browser cannot be read")
	}
	if !info.IsDir() || len(inside) > 0 || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		return refused("default-user-data-dir", "the directory for the browser is not fresh")
	}
	return checkDataDir(dir, ownProfiles())
}

// removeProfile removes the directory of a launch, and the socket directory
// beside it that a killed browser leaves in the temporary directory.
func removeProfile(dir string) error {
	if socket, err := os.Readlink(filepath.Join(dir, "SingletonSocket")); err == nil {
		socketDir := filepath.Dir(socket)
		if filepath.Dir(socketDir) == filepath.Clean(os.TempDir()) && socketDirForm.MatchString(filepath.Base(socketDir)) {
			for _, name := range []string{"SingletonSocket", "SingletonCookie", ""} { // not more than is known to be there
				os.Remove(filepath.Join(socketDir, name))
			}
		}
	}
	return os.RemoveAll(dir)
}

var socketDirForm = regexp.MustCompile(`^\.?(org\.chromium\.Chromium|com\.google\.Chrome)\.[A-Za-z0-9]{6}$`)

// profileName is how browsers name the profiles in a user data directory.
var profileName = regexp.MustCompile(`(?i)^(default|profile \d+|guest profile|system profile)$`)

// checkDataDir refuses a directory that is, or is in, a browser's own: one of
// theirs by place, by name, or by what lies there (S4.3, S4.6). Symbolic links
// are followed as far as the path exists, and names are compared without case,
// as some disks do.
func checkDataDir(dir string, theirs []string) error {
	if !filepath.IsAbs(dir) {
		return refused("default-user-data-dir", "the data directory of the browser is not absolute")
	}
	real, err := resolve(dir)
	if err != nil {
		return notReady(err, "the data directory of the browser cannot be read")
	}
	if profileName.MatchString(filepath.Base(real)) {
		return refused("default-profile-name", "the data directory has the name of a browser's profile")
	}
	for up := real; ; up = filepath.Dir(up) {
		if _, err := os.Lstat(filepath.Join(up, "Local State")); err == nil {
			return refused("default-user-data-dir", "the data directory lies in that of a browser")
		}
		for _, d := range theirs {
			if same(up, d) {
				return refused("default-user-data-dir", "the data directory lies in that of a browser of this person")
			}
		}
		if up == filepath.Dir(up) {
			return nil
		}
	}
}

// same reports whether two paths are one directory.
func same(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	ia, err := os.Stat(a)
	if err != nil {
		return false
	}
	ib, err := os.Stat(b)
	return err == nil && os.SameFile(ia, ib)
}

// resolve follows the symbolic links of the part of a path that exists.
func resolve(path string) (string, error) {
	path = filepath.Clean(path)
	real, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
		return real, err
	}
	parent, err := resolve(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

// Where browsers of the Chromium family keep what is the person's.
var (
	linuxNames = []string{
		"google-chrome", "google-chrome-beta", "google-chrome-unstable", "google-chrome-for-testing", "chromium",
		"microsoft-edge", "microsoft-edge-beta", "microsoft-edge-dev", "BraveSoftware", "vivaldi", "opera",
	}
	linuxHomes = []string{
		"snap/chromium/common/chromium", "snap/brave",
		".var/app/com.google.Chrome", ".var/app/org.chromium.Chromium", ".var/app/com.brave.Browser",
		".var/app/com.microsoft.Edge", ".var/app/com.vivaldi.Vivaldi",
	}
	macNames = []string{
		"Google/Chrome", "Google/Chrome Beta", "Google/Chrome Dev", "Google/Chrome Canary", "Chromium", "Microsoft Edge",
		"BraveSoftware", "Vivaldi", "com.operasoftware.Opera", "Arc",
	}
	windowsNames = []string{
		`Google\Chrome`, `Google\Chrome Beta`, `Google\Chrome Dev`, `Google\Chrome SxS`, `Chromium`, `Microsoft\Edge`,
		`BraveSoftware`, `Vivaldi`, `Opera Software`,
	}
)

// ownProfiles lists the person's own directories, whether they exist or not.
func ownProfiles() []string {
	homes := []string{}
	if home, err := os.UserHomeDir(); err == nil {
		homes = append(homes, home)
	}
	if u, err := user.Current(); err == nil && u.HomeDir != "" {
		homes = append(homes, u.HomeDir)
	}
	return ownProfilesOn(runtime.GOOS, homes, os.Getenv)
}

func ownProfilesOn(goos string, homes []string, env func(string) string) []string {
	var out []string
	add := func(base string, names []string) {
		if base != "" {
			for _, n := range names {
				dir := filepath.Join(base, filepath.FromSlash(n))
				if real, err := resolve(dir); err == nil {
					dir = real
				}
				out = append(out, dir)
			}
		}
	}
	switch goos {
	case "windows":
		add(env("LOCALAPPDATA"), windowsNames)
		add(env("APPDATA"), windowsNames)
	case "darwin":
		for _, h := range homes {
			add(filepath.Join(h, "Library", "Application Support"), macNames)
		}
	default:
		add(env("XDG_CONFIG_HOME"), linuxNames)
		add(env("CHROME_CONFIG_HOME"), linuxNames)
		for _, h := range homes {
			add(filepath.Join(h, ".config"), linuxNames)
			add(h, linuxHomes)
		}
	}
	if d := env("CHROME_USER_DATA_DIR"); d != "" {
		out = append(out, filepath.Clean(d))
	}
	return out
}
