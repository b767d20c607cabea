package chain

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"browserhost"
)

// digest is the SHA-256 of a line; the zero digest stands for no line.
type digest [sha256.Size]byte

func digestOf(line []byte) digest { return sha256.Sum256(line) }

// String is the digest in hex, "" for no line.
func (d digest) String() string {
	if d == (digest{}) {
		return ""
	}
	return hex.EncodeToString(d[:])
}

// parse reads 64 lowercase hex digits.
func (d *digest) parse(text []byte) bool {
	if len(text) != hex.EncodedLen(len(d)) {
		return false
	}
	for i := range d {
		hi, lo := nibble[text[2*i]], nibble[text[2*i+1]]
		if hi|lo > 0xf {
			return false
		}
		d[i] = hi<<4 | lo
	}
	return true
}

// nibble is the value of a lowercase hex digit, 0xff for any other byte.
var nibble = func() (t [256]byte) {
	for c := range t {
		t[c] = 0xff
		if i := bytes.IndexByte([]byte("0123456789abcdef"), byte(c)); i >= 0 {
			t[c] = byte(i)
		}
	}
	return t
}()

// body is an encoded row before it has its place in the chain.
type body struct {
	text  []byte // one JSON object
	dated bool   // has a member at
}

// encode writes a row as JSON and refuses what cannot be one.
func encode(row any) (body, error) {
	refused := func(err error) (body, error) {
		return body{}, browserhost.Hide(browserhost.CodeInputInvalid, err, "a row is not one JSON object without seq and prev")
	}
	text, err := json.Marshal(row, json.Deterministic(true))
	if err != nil {
		return refused(err)
	}
	has, err := own(text)
	switch {
	case err != nil:
		return refused(err)
	case has&(hasSeq|hasPrev) != 0:
		return refused(errors.New("it has a member of the chain"))
	case bytes.IndexByte(text, '\n') >= 0:
		return refused(errors.New("it has more than one line"))
	}
	return body{text, has&hasAt != 0}, nil
}

// own says which of the chain's members a body has itself. Where their names
// occur nowhere in it, it is not read again.
func own(text []byte) (uint8, error) {
	has := func(name string) bool { return bytes.Contains(text, []byte(name)) }
	if text[0] != '{' || has(`\`) || has(`"seq"`) || has(`"prev"`) {
		m, err := study(text)
		return m.has, err
	}
	switch {
	case bytes.HasPrefix(text, []byte(`{"at":`)):
		return hasAt, nil
	case has(`"at"`):
		m, err := study(text)
		return m.has, err
	}
	return 0, nil
}

// seal adds the chain's members, and the newline.
func (b body) seal(seq int64, now time.Time, prev digest) ([]byte, error) {
	out := slices.Grow(bytes.TrimSuffix(b.text, []byte("}")), 160)
	if len(out) > 1 {
		out = append(out, ',')
	}
	out = strconv.AppendInt(append(out, `"seq":`...), seq, 10)
	if !b.dated {
		out = append(out, `,"at":"`...)
		out = now.UTC().AppendFormat(out, browserhost.TimeLayout)
		out = append(out, '"')
	}
	if prev != (digest{}) {
		out = append(out, `,"prev":"`...)
		out = hex.AppendEncode(out, prev[:])
		out = append(out, '"')
	}
	out = append(out, '}', '\n')
	if len(out)-1 > MaxRow {
		return nil, browserhost.Errorf(browserhost.CodeInputInvalid, "a row is longer than %d bytes", MaxRow)
	}
	return out, nil
}

// members is what a line says about its place.
type members struct {
	seq  int64
	prev digest
	has  uint8
}

const (
	hasSeq = 1 << iota
	hasAt
	hasPrev
)

// errMember says that a line is a JSON object, but not one of a chain: its seq
// is no integer, its prev is no digest, or a member of the chain is there twice.
var errMember = errors.New("a member of the chain is malformed")

func (m *members) mark(bit uint8) error {
	if m.has&bit != 0 {
		return errMember
	}
	m.has |= bit
	return nil
}

// glance reads the end of a line, where the chain's members are in every row
// written here. ok is false for a line of another form, which study reads.
//
// It does not look at the rest of the line, and need not: what ends like this
// is, if it is a JSON object at all, one with these members at its outermost
// level, since a string cannot hold a bare quote and one brace closes
// everything. That the rest is what was written, its hash says.
func glance(line []byte) (m members, ok bool) {
	text, ok := bytes.CutSuffix(line, []byte("}"))
	if !ok || line[0] != '{' {
		return m, false
	}
	if before, value, ok := cutText(text, `,"prev":"`, 2*sha256.Size); ok {
		if !m.prev.parse(value) {
			return m, false
		}
		m.has |= hasPrev
		text = before
	}
	if before, value, ok := cutText(text, `,"at":"`, len(browserhost.TimeLayout)); ok && bytes.IndexByte(value, '"') < 0 {
		m.has |= hasAt
		text = before
	}
	n, unit := len(text), int64(1)
	for ; n > 0 && '0' <= text[n-1] && text[n-1] <= '9' && unit < 1e18; n-- {
		m.seq += unit * int64(text[n-1]-'0')
		unit *= 10
	}
	digits := text[n:]
	if text = text[:n]; string(text) != `{"seq":` && !bytes.HasSuffix(text, []byte(`,"seq":`)) {
		return m, false
	}
	m.has |= hasSeq
	return m, len(digits) == 1 || len(digits) > 1 && digits[0] != '0'
}

// cutText cuts a member off the end of text: its name with what is around it,
// and a string of n bytes.
func cutText(text []byte, name string, n int) (before, value []byte, ok bool) {
	at := len(text) - len(name) - n - 1
	if at < 0 || text[len(text)-1] != '"' || string(text[at:at+len(name)]) != name {
		return text, nil, false
	}
	return text[:at], text[at+len(name) : len(text)-1], true
}

// study reads a line of any form.
func study(line []byte) (m members, err error) {
	var odd error
	in := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true))
	if t, err := in.ReadToken(); err != nil || t.Kind() != '{' {
		return m, errors.Join(errors.New("not a JSON object"), err)
	}
	for in.PeekKind() == '"' {
		t, err := in.ReadToken()
		if err != nil {
			return m, err
		}
		name := t.String()
		value, err := in.ReadValue()
		if err != nil {
			return m, err
		}
		odd = cmp.Or(odd, m.take(name, value))
	}
	if _, err := in.ReadToken(); err != nil {
		return m, err
	}
	if _, err := in.ReadToken(); !errors.Is(err, io.EOF) {
		return m, errors.Join(errors.New("more than one JSON value"), err)
	}
	return m, odd
}

// take notes a member, if it is one of the chain's.
func (m *members) take(name string, value jsontext.Value) error {
	switch name {
	case "seq":
		if json.Unmarshal(value, &m.seq) != nil {
			return errMember
		}
		return m.mark(hasSeq)
	case "at":
		return m.mark(hasAt)
	case "prev":
		var text string
		if json.Unmarshal(value, &text) != nil || !m.prev.parse([]byte(text)) {
			return errMember
		}
		return m.mark(hasPrev)
	}
	return nil
}
