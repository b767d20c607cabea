//go:build real && linux

package cdp

import (
	"testing"

	"browserhost"

	"github.com/chromedp/cdproto/accessibility"
)

// What a snapshot costs: on a small page against the least that anything in a
// page can cost, a bare round trip to it; on a page of 5,000 links against
// Chromium's own accessibility tree, as raw JSON and without reading it.
func BenchmarkSnapshot(b *testing.B) {
	small, large := lookAt(b, "controls.html"), lookAt(b, "big.html")
	snapshot := func(l *looking) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				if s, err := l.Snapshot(b.Context(), browserhost.SnapshotOptions{}); err != nil || s.Elements == 0 {
					b.Fatal(s.Elements, err)
				}
			}
		}
	}
	b.Run("small", snapshot(small))
	b.Run("evaluate", func(b *testing.B) {
		for b.Loop() {
			if v, err := small.eval(b.Context(), "1", lookLimit); err != nil || string(v) != "1" {
				b.Fatal(string(v), err)
			}
		}
	})
	b.Run("large", snapshot(large))
	b.Run("tree", func(b *testing.B) {
		for b.Loop() {
			if v, err := large.ask(b.Context(), cmd(accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})); err != nil || len(v) < 1<<20 {
				b.Fatal(len(v), err)
			}
		}
	})
}

// What input costs: three events of a click, sent in one go, against one bare
// round trip. Coming to rest is not part of it.
func BenchmarkClick(b *testing.B) {
	l := lookAt(b, "controls.html")
	l.Snapshot(b.Context(), browserhost.SnapshotOptions{})
	events, err := clicks(browserhost.ClickOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range events {
		events[i].X, events[i].Y = 600, 10 // the heading: nothing to press
	}
	b.Run("dispatch", func(b *testing.B) {
		for b.Loop() {
			if state, err := l.dispatch(b.Context(), mouse(events)); err != nil {
				b.Fatal(state, err)
			}
		}
	})
	b.Run("evaluate", func(b *testing.B) {
		for b.Loop() {
			if _, err := l.eval(b.Context(), "1", lookLimit); err != nil {
				b.Fatal(err)
			}
		}
	})
}
