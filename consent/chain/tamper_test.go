package chain

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"browserhost"
)

// AIP-63 C10, D10: an edited row, a missing one, one too many, a missing end
// and a forged head are all found, and the row is named.
func TestTampering(t *testing.T) {
	whole := written(t)
	text, head := content(t, whole), content(t, whole+".head")
	rows := bytes.SplitAfter(text, []byte("\n"))[:3]
	join := func(r ...[]byte) []byte { return bytes.Join(r, nil) }
	edit := func(text []byte, old, new string) []byte {
		if !bytes.Contains(text, []byte(old)) {
			t.Fatalf("no %s in %s", old, text)
		}
		return bytes.Replace(text, []byte(old), []byte(new), 1)
	}
	prev := func(row int) string { return string(rows[row][bytes.Index(rows[row], []byte(`"prev":"`))+8:][:8]) }
	for _, c := range []struct {
		name   string
		text   []byte
		head   []byte
		keys   browserhost.Keys
		seq    int64 // of the named row; -1 for none
		anchor string
		ok     bool
	}{
		{"whole", text, head, fixed.Keys, -1, Matches, true},
		{"no head", text, nil, fixed.Keys, -1, None, true},
		{"locked keychain", text, head, keys{}, -1, None, true},
		{"no keychain", text, head, nil, -1, None, true},
		{"another key", text, head, keys{"two"}, -1, None, true}, // K7: store: memory forgets its own
		{"first row edited", edit(text, "one", "onE"), head, fixed.Keys, 0, Matches, false},
		{"middle row edited", edit(text, "two", "twO"), head, fixed.Keys, 1, Matches, false},
		{"middle row no JSON", edit(text, `{"word":"two`, `["word":"two`), head, fixed.Keys, 1, Matches, false},
		{"middle row's prev edited", edit(text, prev(1), "00000000"), head, fixed.Keys, 1, Matches, false},
		{"middle row's prev no digest", edit(text, prev(1), "zzzzzzzz"), head, fixed.Keys, 1, Matches, false},
		{"middle row's number edited", edit(text, `"seq":1`, `"seq":7`), head, fixed.Keys, 1, Matches, false},
		{"last row edited", edit(text, "three", "threE"), head, fixed.Keys, -1, Mismatch, false},
		{"last row no JSON", edit(text, `{"word":"three`, `["word":"three`), head, fixed.Keys, 2, Mismatch, false},
		{"last row no JSON, no head", edit(text, `{"word":"three`, `["word":"three`), nil, fixed.Keys, 2, None, false},
		{"first row missing", join(rows[1], rows[2]), head, fixed.Keys, 0, Truncated, false},
		{"middle row missing", join(rows[0], rows[2]), head, fixed.Keys, 1, Truncated, false},
		{"last row missing", join(rows[0], rows[1]), head, fixed.Keys, -1, Truncated, false},
		{"half of the last row missing", join(rows[0], rows[1], rows[2][:20]), head, fixed.Keys, -1, Truncated, false},
		{"first row twice", join(rows[0], rows[0], rows[1], rows[2]), head, fixed.Keys, 1, Mismatch, false},
		{"rows exchanged", join(rows[0], rows[2], rows[1]), head, fixed.Keys, 1, Mismatch, false},
		{"blank line", join(rows[0], []byte("\n"), rows[1], rows[2]), head, fixed.Keys, 1, Mismatch, false},
		{"row with two numbers", join(rows[0], []byte(`{"seq":1,"x":1,"seq":1 }`+"\n")), nil, fixed.Keys, 1, None, false},
		{"all rows missing", nil, head, fixed.Keys, -1, Truncated, false},
		{"head forged", text, edit(head, `"seq":2`, `"seq":1`), fixed.Keys, -1, Mismatch, false},
		{"head no JSON", text, []byte("x"), fixed.Keys, -1, Mismatch, false},
		{"head with a member too many", text, edit(head, `{`, `{"x":1,`), fixed.Keys, -1, Mismatch, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy.jsonl")
			write(t, path, c.text)
			if c.head != nil {
				write(t, path+".head", c.head)
			}
			r := verified(t, path, Options{Keys: c.keys, Label: "test"})
			seq := int64(-1)
			if r.Bad != nil {
				seq = r.Bad.Seq
				if r.Bad.Line != int(seq)+1 || r.Bad.Why == "" || r.Records != int(seq) {
					t.Errorf("%+v, %d records before", r.Bad, r.Records)
				}
			}
			if r.OK() != c.ok || seq != c.seq || r.Anchor != c.anchor {
				t.Errorf("ok %v, row %d, anchor %s; want %v, %d, %s", r.OK(), seq, r.Anchor, c.ok, c.seq, c.anchor)
			}
		})
	}
}

// Of a chain that is long enough to be read side by side, any byte that is
// changed is found, and the row that it is in is named.
func TestAnyByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	f, _ := start(t, path, fixed)
	for n := range 1500 {
		if _, _, err := f.Append(t.Context(), word{strings.Repeat(fmt.Sprint(n), 100)}); err != nil {
			t.Fatal(err)
		}
	}
	end(t, f)
	text := content(t, path)
	if len(text) < 2*pieceSize {
		t.Fatalf("%d bytes are too few", len(text))
	}
	for at := 11; at < len(text); at += len(text) / 29 {
		if text[at] == '\n' {
			continue
		}
		text[at] ^= 1
		write(t, path, text)
		r := verified(t, path, fixed)
		want := bytes.Count(text[:at], []byte("\n"))
		named := r.Bad != nil && r.Bad.Seq == int64(want)
		if want == 1499 { // no row vouches for it; the head does
			named = r.Anchor == Mismatch
		}
		if r.OK() || !named {
			t.Errorf("byte %d, row %d: %+v %+v", at, want, r, r.Bad)
		}
		text[at] ^= 1
	}
	write(t, path, text)
	if r := verified(t, path, fixed); !r.OK() || r.Records != 1500 {
		t.Errorf("%+v", r)
	}
}

// A chain with a fault is opened and goes on, but the head that proves the
// fault stays: a start must not heal what was cut off (AIP-63 C10).
func TestEvidenceStays(t *testing.T) {
	path := written(t)
	rows := bytes.SplitAfter(content(t, path), []byte("\n"))
	head := content(t, path+".head")
	write(t, path, bytes.Join(rows[:2], nil))
	for range 2 {
		f, r := start(t, path, fixed)
		if r.OK() {
			t.Errorf("%+v", r)
		}
		put(t, f, "another three", "four")
		end(t, f)
		if !bytes.Equal(head, content(t, path+".head")) {
			t.Error("the head was replaced")
		}
		if r := verified(t, path, fixed); r.OK() || r.Anchor != Mismatch {
			t.Errorf("%+v", r)
		}
	}
}
