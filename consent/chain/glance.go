package chain

import (
	"bytes"
	"unicode/utf8"
)

// glance reads a line in the form in which rows are written here, without
// blanks, escapes, fractions and deep nesting, several times faster than a JSON
// decoder could. ok is false for every other line, right or wrong: study reads
// those. What glance accepts, study accepts with the same members.
func glance(line []byte) (m members, ok bool) {
	if len(line) < 2 || line[0] != '{' || bytes.IndexByte(line, '\\') >= 0 || !plain(line) {
		return m, false
	}
	s := scanner{text: line, at: 1}
	if s.skip('}') {
		return m, s.at == len(line)
	}
	for {
		name, ok := s.string()
		if !ok || !s.skip(':') {
			return m, false
		}
		from := s.at
		if !s.value(0) || !m.glimpse(name, line[from:s.at]) {
			return m, false
		}
		if s.skip('}') {
			return m, s.at == len(line)
		}
		if !s.skip(',') {
			return m, false
		}
	}
}

// plain reports whether text has no control character and is valid UTF-8.
func plain(text []byte) bool {
	var or byte
	for _, c := range text {
		if c < ' ' {
			return false
		}
		or |= c
	}
	return or < utf8.RuneSelf || utf8.Valid(text)
}

// glimpse is take for values that a scanner has passed.
func (m *members) glimpse(name, value []byte) bool {
	switch string(name) {
	case "seq":
		if value[0] < '0' || value[0] > '9' || len(value) > 18 {
			return false
		}
		for _, c := range value {
			m.seq = 10*m.seq + int64(c-'0')
		}
		return m.mark(hasSeq) == nil
	case "at":
		return m.mark(hasAt) == nil
	case "prev":
		return value[0] == '"' && m.prev.parse(value[1:len(value)-1]) && m.mark(hasPrev) == nil
	}
	return true
}

// maxDepth is how deep a row may nest to be read at a glance.
const maxDepth = 8

// scanner passes over JSON in plain text.
type scanner struct {
	text []byte
	at   int
}

// skip passes over c, if it comes next.
func (s *scanner) skip(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

// string passes over a string and returns what is between its quotes.
func (s *scanner) string() ([]byte, bool) {
	if !s.skip('"') {
		return nil, false
	}
	n := bytes.IndexByte(s.text[s.at:], '"')
	if n < 0 {
		return nil, false
	}
	from := s.at
	s.at += n + 1
	return s.text[from : from+n], true
}

// value passes over a value inside so many others.
func (s *scanner) value(depth int) bool {
	if s.at >= len(s.text) || depth > maxDepth {
		return false
	}
	switch c := s.text[s.at]; c {
	case '"':
		_, ok := s.string()
		return ok
	case '{':
		s.at++
		return s.list('}', func() bool {
			_, ok := s.string()
			return ok && s.skip(':') && s.value(depth+1)
		})
	case '[':
		s.at++
		return s.list(']', func() bool { return s.value(depth + 1) })
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.integer()
	}
}

// list passes over items up to the closing bracket.
func (s *scanner) list(end byte, item func() bool) bool {
	if s.skip(end) {
		return true
	}
	for item() {
		if s.skip(end) {
			return true
		}
		if !s.skip(',') {
			return false
		}
	}
	return false
}

func (s *scanner) word(w string) bool {
	if !bytes.HasPrefix(s.text[s.at:], []byte(w)) {
		return false
	}
	s.at += len(w)
	return true
}

// integer passes over a whole number.
func (s *scanner) integer() bool {
	s.skip('-')
	from := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	n := s.at - from
	return n == 1 || n > 1 && s.text[from] != '0'
}
