package cdp

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"browserhost"
)

// A snapshot is one line per node, children indented by two spaces:
//
//	heading "Your page" level=1
//	textbox "Name" value="Ada" required focused [s1e1]
//	link "Terms" to=bank.test [s1e2]
//	... 12 nodes left out; next_offset=24000
//
// Whatever a page says stands between quotes, on one line, without control or
// invisible characters, and without anything that looks like a ref; all that is
// outside of quotes is ours. So a page can forge neither a line nor a ref.

// node is one node of a page as the script tells it. It is still the page's
// word: nothing of it is written before [clean] or [isWord] has seen it.
type node struct {
	Depth  int      `json:"d"`
	Role   string   `json:"r"`
	Name   string   `json:"n"`
	Value  *string  `json:"v"`
	Secret bool     `json:"p"` // Value is "filled" or "empty"
	States []string `json:"s"`
	Level  int      `json:"l"`
	To     string   `json:"t"` // the host, or the scheme with its colon, that a link leads to
	Ref    int      `json:"e"`
}

const (
	maxIndent = 24
	maxStates = 12
	maxTo     = 256 // bytes
)

// line writes a node; generation makes its ref.
func (n node) line(generation int) string {
	var b strings.Builder
	for range min(max(n.Depth, 0), maxIndent) {
		b.WriteString("  ")
	}
	if isWord(n.Role) {
		b.WriteString(n.Role)
	} else {
		b.WriteString("node")
	}
	if name := quote(n.Name); name != `""` {
		b.WriteString(" " + name)
	}
	if n.Value != nil {
		if v := *n.Value; n.Secret && v != "empty" {
			b.WriteString(" value=filled")
		} else if n.Secret {
			b.WriteString(" value=empty")
		} else {
			b.WriteString(" value=" + quote(v))
		}
	}
	if n.Level > 0 && n.Level < 100 {
		b.WriteString(" level=" + strconv.Itoa(n.Level))
	}
	for _, s := range n.States[:min(len(n.States), maxStates)] {
		if isWord(s) {
			b.WriteString(" " + s)
		}
	}
	if isHost(n.To) {
		b.WriteString(" to=" + n.To)
	}
	if n.Ref > 0 {
		b.WriteString(" [" + makeRef(generation, n.Ref) + "]")
	}
	return b.String()
}

// quote writes a page's own text.
func quote(s string) string {
	s = clean(s, browserhost.MaxNodeText)
	if !strings.ContainsAny(s, `"\[`) {
		return `"` + s + `"`
	}
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '[' && looksLikeRef(s[i+1:]):
			b.WriteByte('(')
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// looksLikeRef reports whether s, which follows a bracket, begins like a ref.
func looksLikeRef(s string) bool {
	s = strings.TrimLeft(s, " ")
	return len(s) > 1 && (s[0] == 's' || s[0] == 'S') && s[1] >= '0' && s[1] <= '9'
}

// clean makes one line of s: runs of white space become one space, control and
// invisible characters go, and what is longer than limit bytes is cut.
func clean(s string, limit int) string {
	var b strings.Builder
	space := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case r == utf8.RuneError, unicode.IsControl(r), isUnseen(r):
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
		if b.Len() > limit {
			break
		}
	}
	return cut(b.String(), limit)
}

// isUnseen reports whether r is a character that a person does not see and a
// model does: direction marks, zero-width spaces, tags, the supplementary
// variation selectors. The two joiners stay: Persian, Hindi and emoji need them.
func isUnseen(r rune) bool {
	return unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d' ||
		r >= 0xE0000 && r <= 0xE0FFF ||
		r == '\u115f' || r == '\u1160' || r == '\u3164' || r == '\uffa0'
}

// cut shortens s to at most limit bytes, the mark of the cut included.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit - len("…")
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// isWord reports whether s may stand outside of quotes as a role or a state.
func isWord(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 24
}

// isHost reports whether s may stand outside of quotes as a host name, an
// address or a scheme.
func isHost(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~+:[]", rune(c)) {
			return false
		}
	}
	return s != "" && len(s) <= maxTo && !(s[0] == '[' && looksLikeRef(s[1:]))
}

// mark is a place in a snapshot: the node that begins after so many characters.
type mark struct{ chars, node int }

// before returns the last known mark that is not after offset.
func (s *reading) before(offset int) mark {
	i, found := slices.BinarySearchFunc(s.marks, offset, func(m mark, o int) int { return m.chars - o })
	if found {
		return s.marks[i]
	}
	if i == 0 {
		return mark{}
	}
	return s.marks[i-1]
}

// remember keeps a mark, so that reading on need not begin at the top.
func (s *reading) remember(m mark) {
	i, found := slices.BinarySearchFunc(s.marks, m.chars, func(m mark, o int) int { return m.chars - o })
	if !found {
		s.marks = slices.Insert(s.marks, i, m)
	}
}

// page answers with the lines from offset on, as many as limit characters
// hold, the marker of what was left out included. Lines are never cut, so that
// what a page says cannot come to stand at the beginning of one: an answer has
// at least one line, and an offset inside of a line means that line. nodes are
// the first nodes after the mark before offset, where they are known.
func (w *walker) page(ctx context.Context, s *reading, nodes []node, offset, limit int) (browserhost.Snapshot, error) {
	at := s.before(offset) // the next line to be seen
	first := at
	var lines []string
	used, full := 0, false
	for !full && at.node < s.total {
		if len(nodes) == 0 {
			var err error
			if nodes, err = w.nodes(ctx, s, at.node, max(offset-at.chars, 0)+max(limit-used, 0)); err != nil {
				return browserhost.Snapshot{}, err
			}
		}
		text := nodes[0].line(s.generation)
		size := utf8.RuneCountInString(text) + 1
		switch {
		case at.chars+size <= offset: // before the answer
			first = mark{at.chars + size, at.node + 1}
		case len(lines) > 0 && used+size-1 > limit:
			full = true
			continue
		default:
			lines, used = append(lines, text), used+size
		}
		nodes = nodes[1:]
		at = mark{at.chars + size, at.node + 1}
	}
	if len(lines) == 0 && offset > 0 {
		return browserhost.Snapshot{}, browserhost.Errorf(browserhost.CodeInputInvalid, "the snapshot has %d characters", at.chars).With("characters", at.chars)
	}
	answer := browserhost.Snapshot{Generation: "s" + strconv.Itoa(s.generation), Elements: s.elements}
	for {
		answer.LeftOut, answer.NextOffset = s.total-at.node+s.unread, 0
		if at.node < s.total {
			answer.NextOffset = first.chars + used
		}
		marker := leftOut(s.total-at.node, s.unread, answer.NextOffset)
		if marker == "" || len(lines) < 2 || used+utf8.RuneCountInString(marker) <= limit {
			if marker != "" {
				lines = append(lines, marker)
			}
			break
		}
		last := lines[len(lines)-1]
		lines, used = lines[:len(lines)-1], used-utf8.RuneCountInString(last)-1
		at = mark{first.chars + used, at.node - 1}
	}
	if answer.NextOffset > 0 {
		s.remember(at)
	}
	answer.Text = strings.Join(lines, "\n")
	return answer, nil
}

// leftOut is the marker at the end of an answer that is not everything (A87, A90).
func leftOut(nodes, unread, next int) string {
	var parts []string
	if nodes > 0 {
		parts = append(parts, fmt.Sprintf("%d nodes left out; next_offset=%d", nodes, next))
	}
	if unread > 0 {
		parts = append(parts, fmt.Sprintf("about %d elements not read: the page is too large", unread))
	}
	if len(parts) == 0 {
		return ""
	}
	return "... " + strings.Join(parts, "; ")
}
