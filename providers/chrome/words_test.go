package chrome

import (
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// What a browser says at its end is told without paths, addresses, ids and
// numbers, and without what a page wrote (S3.19).
func TestLastWords(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{"[55:55:1201/043435.7:ERROR:content/zygote.cc(103)] Running as root without --no-sandbox is not supported. See https://crbug.com/638180."},
			"Running as root without --no-sandbox is not supported. See …"},
		{[]string{"Cannot open /home/ada/x: 3 errors", `[1:2:INFO:CONSOLE(1)] "my secret is plain"`}, "Cannot open … 3 errors"},
		{[]string{"real cause", "[1:2:1201/1:ERROR:dbus/bus.cc:405] Failed to connect to the bus"}, "real cause"},
		{[]string{"/a /b", "DevTools listening on ws://127.0.0.1:9222/devtools/browser/ab-cd"}, "DevTools listening on …"},
		{[]string{"one", "two", "three", "four"}, "two; three; four"},
		{[]string{"Ж 4F3A99 pid 55555 user@host k=v"}, "… pid …"},
	} {
		if got := lastWords(c.lines); got != c.want {
			t.Errorf("%q\nbecomes %q\nwant    %q", c.lines, got, c.want)
		}
	}
}

func FuzzLastWords(f *testing.F) {
	f.Add("[1:2:ERROR:a/b.cc(1)] Failed to open /home/ada/.config id 4F3A99 at 10.0.0.1:80")
	f.Add("CONSOLE secret")
	bad := regexp.MustCompile(`[/\\@=_%]|[0-9]{3}|[0-9][A-Za-z]|[A-Za-z][0-9]|://`)
	f.Fuzz(func(t *testing.T, text string) {
		got := lastWords(strings.Split(text, "\n"))
		if len(got) > maxWords || bad.MatchString(got) || strings.Contains(got, "CONSOLE") {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}

// A browser gets the variables that it needs, and of the session only with a
// window (AIP-63 L13).
func TestEnvironment(t *testing.T) {
	ours := []string{"PATH=/bin", "LC_TIME=de", "HOME=/home/ada", "DISPLAY=:0", "DBUS_SESSION_BUS_ADDRESS=unix:x", "CHROME_USER_DATA_DIR=/x", "SSLKEYLOGFILE=/k", "LD_PRELOAD=/x", "http_proxy=x", "PATHS=no"}
	for headed, want := range map[bool][]string{
		false: {"PATH=/bin", "LC_TIME=de"},
		true:  {"PATH=/bin", "LC_TIME=de", "DISPLAY=:0", "DBUS_SESSION_BUS_ADDRESS=unix:x"},
	} {
		switch runtime.GOOS {
		case "linux":
			want = append(want, "HOME=/profile")
		case "darwin":
			want = append(want, "HOME=/home/ada")
		}
		if got := environment(ours, "/profile", headed); !slices.Equal(got, want) {
			t.Errorf("headed %v: %q, want %q", headed, got, want)
		}
	}
}
