package browserdb

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func plant(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Every place where a browser of the family keeps profiles, per system.
func TestFind(t *testing.T) {
	for system, want := range map[string]map[string]string{
		"linux": {
			"cfg/google-chrome/Default/Cookies":                                      "chrome  Default",
			"cfg/google-chrome/Profile 2/Cookies":                                    "chrome  Profile 2",
			"cfg/google-chrome/Profile 10/Network/Cookies":                           "chrome  Profile 10",
			"cfg/google-chrome-beta/Default/Cookies":                                 "chrome-beta  Default",
			"cfg/chromium/Default/Cookies":                                           "chromium  Default",
			"cfg/microsoft-edge/Default/Cookies":                                     "edge  Default",
			"cfg/BraveSoftware/Brave-Browser/Default/Cookies":                        "brave  Default",
			"cfg/vivaldi/Default/Cookies":                                            "vivaldi  Default",
			"cfg/opera/Cookies":                                                      "opera  Default",
			".var/app/com.google.Chrome/config/google-chrome/Default/Cookies":        "chrome flatpak Default",
			".var/app/org.chromium.Chromium/config/chromium/Default/Cookies":         "chromium flatpak Default",
			"snap/chromium/common/chromium/Default/Cookies":                          "chromium snap Default",
			"snap/brave/current/.config/BraveSoftware/Brave-Browser/Default/Cookies": "brave snap Default",
		},
		"darwin": {
			"Library/Application Support/Google/Chrome/Default/Cookies": "chrome  Default",
			"Library/Application Support/Arc/User Data/Default/Cookies": "arc  Default",
		},
		"windows": {
			"AppData/Local/Google/Chrome/User Data/Default/Network/Cookies":       "chrome  Default",
			"AppData/Roaming/Opera Software/Opera Stable/Default/Network/Cookies": "opera  Default",
		},
	} {
		home := t.TempDir()
		for path := range want {
			plant(t, filepath.Join(home, path))
		}
		for _, not := range []string{
			"cfg/google-chrome/Profile x/Cookies", "cfg/google-chrome/System Profile/Cookies",
			"cfg/google-chrome/Guest Profile/Cookies", "cfg/google-chrome/Profile 3/Preferences",
			"cfg/google-chrome/Profile 4/Cookies/is a directory", "cfg/firefox/Default/Cookies",
		} {
			plant(t, filepath.Join(home, not))
		}
		got := map[string]string{}
		for _, p := range find(system, Roots{Home: home, Config: filepath.Join(home, "cfg")}) {
			path, err := filepath.Rel(home, p.Cookies)
			if err != nil || p.LastUsed.IsZero() || p.Dir == "" {
				t.Errorf("%+v: %v", p, err)
			}
			got[filepath.ToSlash(path)] = fmt.Sprintf("%s %s %s", p.Browser, p.Package, p.Name)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v", system, got)
		}
	}
}

// Named directories come first and once, profiles in the order that people
// count in, and nothing is found where nothing was named.
func TestFindOrder(t *testing.T) {
	home, extra := t.TempDir(), t.TempDir()
	for _, p := range []string{"Profile 10", "Profile 9", "Default"} {
		plant(t, filepath.Join(extra, p, "Cookies"))
	}
	plant(t, filepath.Join(home, ".config/chromium/Default/Cookies"))
	var got []string
	for _, p := range find("linux", Roots{Home: home, Extra: []string{extra, extra + "/", filepath.Join(home, ".config/chromium")}}) {
		got = append(got, filepath.Base(p.Dir)+" "+p.Name)
	}
	e := filepath.Base(extra)
	want := []string{e + " Default", e + " Profile 9", e + " Profile 10", "chromium Default"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := find("linux", Roots{}); got != nil {
		t.Errorf("found %v", got)
	}
}
