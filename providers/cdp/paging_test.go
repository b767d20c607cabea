package cdp

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"browserhost"
)

// Reading on gives every line once, in one generation, whatever the size of
// the pieces; each keeps to its bound and says what is left (A87, A90, S3.17).
func TestReadOn(t *testing.T) {
	s := &stage{t: t, loader: "A", nodes: rows(500)}
	for i := range s.nodes {
		s.nodes[i].Depth = i % 3
		s.nodes[i].Name += strings.Repeat("ä", i%7)
	}
	w := newWalker(s)
	whole := shoot(t, w, browserhost.MaxSnapshotChars, 0)
	if whole.NextOffset != 0 || whole.LeftOut != 0 || strings.Contains(whole.Text, "...") || strings.Count(whole.Text, "\n") != 499 {
		t.Fatalf("%+v", whole)
	}
	for _, chars := range []int{1, 30, 100, 999, 4000, 0} {
		first := shoot(t, w, chars, 0)
		var lines []string
		for page := first; ; page = shoot(t, w, chars, page.NextOffset) {
			if page.Generation != first.Generation || page.Elements != 500 {
				t.Fatalf("%d: a page of %s, %d elements", chars, page.Generation, page.Elements)
			}
			got := strings.Split(page.Text, "\n")
			if page.NextOffset > 0 {
				marker := got[len(got)-1]
				if want := fmt.Sprintf("... %d nodes left out; next_offset=%d", page.LeftOut, page.NextOffset); marker != want {
					t.Fatalf("%d: %q, want %q", chars, marker, want)
				}
				got = got[:len(got)-1]
			}
			if n := utf8.RuneCountInString(page.Text); chars > 0 && n > chars && len(got) > 1 {
				t.Fatalf("%d: an answer of %d characters in %d lines", chars, n, len(got))
			}
			lines = append(lines, got...)
			if len(lines)+page.LeftOut != 500 {
				t.Fatalf("%d: %d lines, %d left out", chars, len(lines), page.LeftOut)
			}
			if page.NextOffset == 0 {
				break
			}
		}
		want := strings.ReplaceAll(whole.Text, "[s1e", "["+first.Generation+"e")
		if strings.Join(lines, "\n") != want {
			t.Fatalf("%d: the pieces are not the whole", chars)
		}
	}
}

// Any offset will do: one inside of a line means that line, so that what a
// page says cannot come to stand at the beginning of one.
func TestReadOnAnywhere(t *testing.T) {
	s := &stage{t: t, loader: "A", nodes: rows(300)}
	w := newWalker(s)
	whole := strings.Split(shoot(t, w, browserhost.MaxSnapshotChars, 0).Text, "\n")
	end := 0
	for _, line := range whole {
		end += utf8.RuneCountInString(line) + 1
	}
	for offset := 1; offset < end; offset += 37 {
		page := shoot(t, w, 200, offset)
		at, i := 0, 0
		for ; at+len(whole[i])+1 <= offset; i++ {
			at += len(whole[i]) + 1
		}
		if got, _, _ := strings.Cut(page.Text, "\n"); got != whole[i] {
			t.Fatalf("at %d: %q, want %q", offset, got, whole[i])
		}
	}
	_, err := w.snapshot(t.Context(), browserhost.SnapshotOptions{Offset: end})
	if e := browserhost.AsError(err); e == nil || e.Code != browserhost.CodeInputInvalid || e.Cause["characters"] != end {
		t.Errorf("beyond the end: %v", err)
	}
}

// Reading on ends with the document, and never in another snapshot.
func TestReadOnEnds(t *testing.T) {
	s := &stage{t: t, loader: "A", nodes: rows(50)}
	w := newWalker(s)
	outdated := func(reason string) {
		t.Helper()
		_, err := w.snapshot(t.Context(), browserhost.SnapshotOptions{Offset: 20})
		if e := browserhost.AsError(err); e == nil || e.Code != browserhost.CodeStalePage || e.Cause["reason"] != reason {
			t.Errorf("%v, want %s", err, reason)
		}
	}
	outdated("no_snapshot")
	shoot(t, w, 100, 0)
	s.of++
	outdated("new_document")
	shoot(t, w, 100, 0)
	s.replace()
	outdated("new_document")
}

// The bounds: at each and one over it.
func TestSnapshotBounds(t *testing.T) {
	s := &stage{t: t, loader: "A", nodes: rows(3)}
	w := newWalker(s)
	for _, bad := range []browserhost.SnapshotOptions{{MaxChars: -1}, {MaxChars: browserhost.MaxSnapshotChars + 1}, {Offset: -1}} {
		if _, err := w.snapshot(t.Context(), bad); browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if len(s.asked) != 0 {
		t.Errorf("asked %v", s.asked)
	}
	if got := shoot(t, w, 1, 0); got.LeftOut != 2 || !strings.HasPrefix(got.Text, `button "Row 0" [s1e1]`+"\n... ") {
		t.Errorf("the smallest answer: %+v", got)
	}
	s.unread = 70
	got := shoot(t, w, 0, 0)
	if got.LeftOut != 70 || got.NextOffset != 0 || !strings.HasSuffix(got.Text, "\n... about 70 elements not read: the page is too large") {
		t.Errorf("%+v", got)
	}
	s.nodes, s.unread = nil, 0
	if got := shoot(t, w, 0, 0); got.Text != "" || got.LeftOut != 0 || got.Elements != 0 {
		t.Errorf("an empty page: %+v", got)
	}
	s.nodes = make([]node, 3000)
	for i := range s.nodes {
		s.nodes[i] = node{Role: "text", Name: strings.Repeat("x", 600)}
	}
	for chars, most := range map[int]int{0: browserhost.SnapshotChars, browserhost.MaxSnapshotChars: browserhost.MaxSnapshotChars, 4000: 4000} {
		got := shoot(t, w, chars, 0)
		if n := utf8.RuneCountInString(got.Text); n > most || n < most*8/10 {
			t.Errorf("%d: %d characters", chars, n)
		}
	}
}
