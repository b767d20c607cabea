package cdp

import (
	"cmp"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"sync"
	"time"

	"browserhost"
)

// Limits of one look at a page. The walker inside has a budget of its own
// (walk/walk.js) and ends well before these: they are the wall behind it, for
// a page whose layout alone takes seconds.
const (
	walkLimit    = 20 * time.Second
	lookLimit    = 10 * time.Second
	walkAttempts = 3 // a page may be replaced while it is looked at; looking again changes nothing
)

// spot is where and what an element is now.
type spot struct {
	X, Y  float64 // CSS pixels of the main frame's viewport
	Kind  string  // what takes the effect: "button", "link", "text", "password", "select", "file", … (walk/values.js)
	Value string  // what it holds; "filled" or "empty" for a secret
}

// walker looks at the document of one page. Its other half is the script of
// walk/*.js in the page's isolated world, which holds the elements themselves:
// a ref is a generation and a place in that script's list, and means nothing
// in any other document. It is safe for concurrent use.
type walker struct {
	world world
	turn  chan struct{} // one snapshot at a time

	mu        sync.Mutex
	installed string   // the document that has the script
	last      int      // the generation tried last
	reading   *reading // the snapshot whose refs live; nil before the first
}

// reading is what remains here of a snapshot; its nodes stay in the page.
type reading struct {
	generation int
	document   string
	total      int // nodes
	elements   int // nodes with a ref
	unread     int // elements that the walk's budget left out
	marks      []mark
}

func newWalker(w world) *walker {
	return &walker{world: w, turn: make(chan struct{}, 1)}
}

// snapshot walks the page and retires the refs of the snapshot before
// (S3.25). With an offset it reads on in the last snapshot, which the page may
// have outgrown but which does not change: same generation, same lines.
func (w *walker) snapshot(ctx context.Context, opts browserhost.SnapshotOptions) (browserhost.Snapshot, error) {
	limit := cmp.Or(opts.MaxChars, browserhost.SnapshotChars)
	if limit < 1 || limit > browserhost.MaxSnapshotChars || opts.Offset < 0 {
		return browserhost.Snapshot{}, browserhost.Errorf(browserhost.CodeInputInvalid, "max_chars must be 1 to %d and offset not negative", browserhost.MaxSnapshotChars)
	}
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return browserhost.Snapshot{}, ended(ctx)
	}
	if opts.Offset > 0 {
		return w.readOn(ctx, opts.Offset, limit)
	}
	for range walkAttempts {
		s, err := w.walk(ctx, limit)
		if !errors.Is(err, errDocumentGone) {
			return s, err
		}
	}
	return browserhost.Snapshot{}, browserhost.Errorf(browserhost.CodeStalePage, "the page was replaced while it was read").With("reason", "new_document")
}

// walked is the script's answer to a walk.
type walked struct {
	Nodes    []node `json:"nodes"` // the first ones
	Total    int    `json:"total"`
	Elements int    `json:"elements"`
	Unread   int    `json:"unread"`
}

func (w *walker) walk(ctx context.Context, limit int) (browserhost.Snapshot, error) {
	w.mu.Lock()
	w.last++
	s := &reading{generation: w.last, document: w.world.document()}
	w.mu.Unlock()
	got, err := w.ask(ctx, fmt.Sprintf("walk(%d,%d)", s.generation, limit), walkLimit, true)
	if err != nil {
		return browserhost.Snapshot{}, err
	}
	var first walked
	if err := json.Unmarshal(got, &first, json.RejectUnknownMembers(true)); err != nil {
		return browserhost.Snapshot{}, unreadable(err)
	}
	if w.world.document() != s.document {
		return browserhost.Snapshot{}, errDocumentGone
	}
	s.total, s.elements, s.unread = max(first.Total, len(first.Nodes)), first.Elements, first.Unread
	w.mu.Lock()
	w.reading = s
	w.mu.Unlock()
	return w.page(ctx, s, first.Nodes, 0, limit)
}

func (w *walker) readOn(ctx context.Context, offset, limit int) (browserhost.Snapshot, error) {
	w.mu.Lock()
	s := w.reading
	w.mu.Unlock()
	switch {
	case s == nil:
		return browserhost.Snapshot{}, browserhost.Errorf(browserhost.CodeStalePage, "there is no snapshot to read on in").With("reason", "no_snapshot")
	case s.document != w.world.document():
		return browserhost.Snapshot{}, outgrown()
	}
	return w.page(ctx, s, nil, offset, limit)
}

// nodes fetches nodes of a snapshot from one on, about chars characters of them.
func (w *walker) nodes(ctx context.Context, s *reading, from, chars int) ([]node, error) {
	got, err := w.ask(ctx, fmt.Sprintf("nodes(%d,%d,%d)", s.generation, from, chars), lookLimit, false)
	if errors.Is(err, errDocumentGone) {
		return nil, outgrown()
	}
	if err != nil {
		return nil, err
	}
	var nodes []node
	if err := json.Unmarshal(got, &nodes, json.RejectUnknownMembers(true)); err != nil {
		return nil, unreadable(err)
	}
	if len(nodes) == 0 {
		return nil, outgrown()
	}
	return nodes, nil
}

// aim re-observes the element and returns where to press it: a point at which
// it, and nothing in front of it, would be hit. Every failure is not_started
// and says what was measured; no other element is ever taken in its place
// (S3.26, S3.27).
func (w *walker) aim(ctx context.Context, ref string) (spot, error) {
	return w.look(ctx, ref, "aim(%d,%d)")
}

// focus re-observes the element, gives it the focus and selects its text, or
// with appendText puts the caret at its end, so that what is typed next
// replaces or extends it. It fails as aim does, and with CodeInputInvalid when
// the element takes no text.
func (w *walker) focus(ctx context.Context, ref string, appendText bool) (spot, error) {
	return w.look(ctx, ref, fmt.Sprintf("focus(%%d,%%d,%t)", appendText))
}

// read returns what the element holds, cut at browserhost.MaxInputText bytes;
// of a secret only "filled" or "empty". The label may have changed meanwhile,
// the element may not.
func (w *walker) read(ctx context.Context, ref string) (string, error) {
	t, err := w.look(ctx, ref, "read(%d,%d)")
	return t.Value, err
}
