package chrome

import (
	"regexp"
	"strings"
)

// Bounds of what is told of a browser's last words.
const (
	maxWords     = 300 // bytes
	maxWordLines = 3
)

var (
	logPrefix = regexp.MustCompile(`^\[[^\]]*\] ?`) // [pid:tid:date:LEVEL:file(line)]
	plainWord = regexp.MustCompile(`^(--)?[A-Za-z][A-Za-z-]{0,30}$|^\d{1,2}$`)
)

// lastWords makes of the last lines of standard error what may be told: plain
// words, names of flags and small numbers. Anything else, such as a path, an
// address or an id, becomes "…". What a page wrote to its console is left out
// altogether, and so is the complaint that there is no message bus, which it is
// not given.
func lastWords(lines []string) string {
	var told []string
	for _, line := range lines {
		if strings.Contains(line, "CONSOLE") || strings.Contains(line, ":dbus/") {
			continue
		}
		line = logPrefix.ReplaceAllString(line, "")
		var words []string
		for _, w := range strings.Fields(line) {
			if !plainWord.MatchString(strings.TrimRight(w, ":,.;")) {
				w = "…"
			}
			if w == "…" && len(words) > 0 && words[len(words)-1] == "…" {
				continue
			}
			words = append(words, w)
		}
		if len(words) > 0 && (len(words) > 1 || words[0] != "…") {
			told = append(told, strings.Join(words, " "))
		}
	}
	text := strings.Join(told[max(0, len(told)-maxWordLines):], "; ")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords-len("…")], "") + "…"
	}
	return text
}
