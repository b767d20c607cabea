package browserdb

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Profile is one profile of one browser that has a cookie database.
type Profile struct {
	Browser  string    // "chrome", "chrome-beta", "chromium", "edge", "brave", "vivaldi", "opera", …
	Package  string    // how it was installed, where that moves the profile: "", "flatpak" or "snap"
	Name     string    // "Default", "Profile 1"
	Dir      string    // the browser's user data directory; for the owner's eyes only
	Cookies  string    // the database
	LastUsed time.Time // when the database was last written
}

// Roots say where to look. The zero value finds nothing.
type Roots struct {
	Home   string   // the owner's home directory
	Config string   // XDG_CONFIG_HOME; "" = .config in Home
	Extra  []string // further user data directories of Chromium, looked at first
}

type place struct{ browser, pack, dir string }

var (
	// configPlaces lie in the configuration directory on Linux and its kin.
	configPlaces = []place{
		{"chrome", "", "google-chrome"},
		{"chrome-beta", "", "google-chrome-beta"},
		{"chrome-unstable", "", "google-chrome-unstable"},
		{"chromium", "", "chromium"},
		{"edge", "", "microsoft-edge"},
		{"edge-beta", "", "microsoft-edge-beta"},
		{"edge-dev", "", "microsoft-edge-dev"},
		{"brave", "", "BraveSoftware/Brave-Browser"},
		{"vivaldi", "", "vivaldi"},
		{"opera", "", "opera"},
	}
	boxedPlaces = []place{
		{"chrome", "flatpak", ".var/app/com.google.Chrome/config/google-chrome"},
		{"chromium", "flatpak", ".var/app/org.chromium.Chromium/config/chromium"},
		{"edge", "flatpak", ".var/app/com.microsoft.Edge/config/microsoft-edge"},
		{"brave", "flatpak", ".var/app/com.brave.Browser/config/BraveSoftware/Brave-Browser"},
		{"vivaldi", "flatpak", ".var/app/com.vivaldi.Vivaldi/config/vivaldi"},
		{"chromium", "snap", "snap/chromium/common/chromium"},
		{"brave", "snap", "snap/brave/current/.config/BraveSoftware/Brave-Browser"},
	}
	macPlaces = []place{
		{"chrome", "", "Library/Application Support/Google/Chrome"},
		{"chrome-beta", "", "Library/Application Support/Google/Chrome Beta"},
		{"chromium", "", "Library/Application Support/Chromium"},
		{"edge", "", "Library/Application Support/Microsoft Edge"},
		{"brave", "", "Library/Application Support/BraveSoftware/Brave-Browser"},
		{"vivaldi", "", "Library/Application Support/Vivaldi"},
		{"opera", "", "Library/Application Support/com.operasoftware.Opera"},
		{"arc", "", "Library/Application Support/Arc/User Data"},
	}
	windowsPlaces = []place{
		{"chrome", "", "AppData/Local/Google/Chrome/User Data"},
		{"chromium", "", "AppData/Local/Chromium/User Data"},
		{"edge", "", "AppData/Local/Microsoft/Edge/User Data"},
		{"brave", "", "AppData/Local/BraveSoftware/Brave-Browser/User Data"},
		{"vivaldi", "", "AppData/Local/Vivaldi/User Data"},
		{"opera", "", "AppData/Roaming/Opera Software/Opera Stable"},
	}
)

// places lists the user data directories of an operating system.
func places(system string, roots Roots) []place {
	var all []place
	for _, dir := range roots.Extra {
		all = append(all, place{"chromium", "", dir})
	}
	under := func(root string, some []place) {
		for _, p := range some {
			if root != "" {
				all = append(all, place{p.browser, p.pack, filepath.Join(root, filepath.FromSlash(p.dir))})
			}
		}
	}
	switch system {
	case "darwin":
		under(roots.Home, macPlaces)
	case "windows":
		under(roots.Home, windowsPlaces)
	default:
		config := roots.Config
		if config == "" && roots.Home != "" {
			config = filepath.Join(roots.Home, ".config")
		}
		under(config, configPlaces)
		under(roots.Home, boxedPlaces)
	}
	return all
}

// Find lists every profile with a cookie database. It lists directories and
// opens no file (K3). Directories that are not there, or may not be listed,
// hold no profile.
func Find(roots Roots) []Profile { return find(runtime.GOOS, roots) }

func find(system string, roots Roots) []Profile {
	var all []Profile
	seen := map[string]bool{}
	for _, p := range places(system, roots) {
		if dir := filepath.Clean(p.dir); !seen[dir] {
			seen[dir] = true
			all = append(all, profiles(p)...)
		}
	}
	return all
}

var numbered = regexp.MustCompile(`^Profile ([0-9]{1,6})$`)

func profiles(p place) []Profile {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil
	}
	var all []Profile
	add := func(name, dir string) {
		if file, used, ok := database(dir); ok {
			all = append(all, Profile{p.browser, p.pack, name, p.dir, file, used})
		}
	}
	for _, e := range entries {
		if name := e.Name(); name == "Default" || numbered.MatchString(name) {
			add(name, filepath.Join(p.dir, name))
		}
	}
	if len(all) == 0 { // older Opera keeps its one profile in the directory itself
		add("Default", p.dir)
	}
	slices.SortStableFunc(all, func(a, b Profile) int { return cmp.Compare(order(a.Name), order(b.Name)) })
	return all
}

// order puts Default before Profile 1, and Profile 2 before Profile 10.
func order(name string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "Profile "))
	if err != nil {
		return -1
	}
	return n
}

// database gives the path of a profile's cookies without opening them. Newer
// browsers keep them one level down on Windows.
func database(profile string) (file string, used time.Time, ok bool) {
	for _, file := range []string{filepath.Join(profile, "Network", "Cookies"), filepath.Join(profile, "Cookies")} {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file, info.ModTime(), true
		}
	}
	return "", time.Time{}, false
}
