package chain

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
)

// Whatever bytes a file has, checking ends with a report that fits them, and a
// start on it closes what is cut short and appends a row that links.
func FuzzVerify(f *testing.F) {
	f.Add(content(f, "testdata/reference.jsonl"))
	f.Add([]byte(`{"word":"one","seq":0,"at":"2026-01-01T00:00:00.000Z"}` + "\n"))
	f.Add([]byte("{}\n\n{"))
	f.Add([]byte(`{"seq":0}` + "\n" + `{"seq":1,"prev":"x"}` + "\n"))
	f.Add(bytes.Repeat([]byte{0}, 100))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "rows.jsonl")
		write(t, path, text)
		r := verified(t, path, Options{})
		lines := bytes.Count(text, []byte("\n"))
		tail := len(text) - 1 - bytes.LastIndexByte(text, '\n')
		_, err := study(text[len(text)-tail:])
		cut := err != nil && !errors.Is(err, errMember) && tail <= MaxRow // what a crash can leave
		if r.Torn != tail || r.Records+len(r.Remains) > lines || r.Bad == nil && r.Records+len(r.Remains) != lines {
			t.Fatalf("%+v %+v of %d lines", r, r.Bad, lines)
		}
		c, again := start(t, path, fixed)
		if again.Records != r.Records || again.Torn != r.Torn || again.Head != r.Head {
			t.Fatalf("%+v, then %+v", r, again)
		}
		put(t, c, "next")
		end(t, c)
		after := verified(t, path, Options{})
		if after.Torn != 0 || r.Bad == nil && (tail == 0 || cut) && after.Bad != nil {
			t.Fatalf("%+v, after a row %+v %+v", r, after, after.Bad)
		}
		if r.OK() && (!after.OK() || after.Records != r.Records+1) {
			t.Fatalf("%+v, after a row %+v %+v", r, after, after.Bad)
		}
	})
}

// What is read at a glance is what a JSON decoder reads.
func FuzzGlance(f *testing.F) {
	for line := range bytes.Lines(content(f, "testdata/reference.jsonl")) {
		f.Add(bytes.TrimSpace(line))
	}
	f.Add([]byte(`{"seq":0}`))
	f.Add([]byte(`{"a":{"seq":1,"at":"2026-01-01T00:00:00.000Z"},"seq":2}`))
	f.Add([]byte(`{"a":"\",\"seq\":1}`))
	f.Add([]byte(`{"a":[{"b":1,"seq":3}`))
	f.Add([]byte(`{"a":"}","s\u0065q":4,"seq":5}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, ok := glance(line)
		exact, err := study(line)
		if ok && err == nil && (m.seq != exact.seq || m.prev != exact.prev || m.has&^hasAt != exact.has&^hasAt) {
			t.Fatalf("%q: at a glance %+v, studied %+v", line, m, exact)
		}
		if ok && errors.Is(err, errMember) && bytes.Count(line, []byte(`"`)) < 4 {
			t.Fatalf("%q: %+v, %v", line, m, err)
		}
	})
}
