package chrome

import (
	"runtime"
	"strings"
)

// The variables that a browser gets from this process; anything else, such as
// SSLKEYLOGFILE, CHROME_LOG_FILE or an API key, it does not.
var (
	passed = []string{
		"PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "USER", "LOGNAME",
		"FONTCONFIG_FILE", "FONTCONFIG_PATH",
		"CHROME_DEVEL_SANDBOX", // the sandbox's own program, where the kernel needs one
		// Windows does not start a program without these.
		"SystemRoot", "SystemDrive", "windir", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
		"ProgramFiles", "ProgramFiles(x86)", "ProgramData", "ComSpec", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE",
	}
	passedToWindows = []string{"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_SESSION_TYPE", "XDG_CURRENT_DESKTOP", "DBUS_SESSION_BUS_ADDRESS"}
)

// environment is what the browser gets. On Linux its home is the profile: what
// it keeps outside of a profile, such as certificates, caches and crash dumps,
// is neither the person's nor left behind (AIP-63 L13). Without a window it
// finds no session bus.
func environment(ours []string, dir string, headed bool) []string {
	names := passed
	if headed {
		names = append(names[:len(names):len(names)], passedToWindows...)
	}
	out := []string{}
	for _, v := range ours {
		name, _, _ := strings.Cut(v, "=")
		for _, pattern := range names {
			prefix, any := strings.CutSuffix(pattern, "*")
			if name == pattern || any && strings.HasPrefix(name, prefix) || runtime.GOOS == "windows" && strings.EqualFold(name, pattern) {
				out = append(out, v)
				break
			}
		}
	}
	switch runtime.GOOS {
	case "linux":
		out = append(out, "HOME="+dir)
	case "darwin":
		for _, v := range ours {
			if strings.HasPrefix(v, "HOME=") {
				out = append(out, v)
			}
		}
	}
	return out
}
