package cdp

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"browserhost"
)

// refusals are the measured causes for which an element is not acted on, as
// they stand in cause.reason, each with what is said about it. The script
// names one of them; anything else is a defect of ours.
var refusals = map[string]string{
	"older_snapshot": "the ref is of an older snapshot",
	"unknown":        "no snapshot has shown this ref",
	"new_document":   "the document of the ref was replaced",
	"detached":       "the element is no longer in the page",
	"relabelled":     "the element now has another role or name",
	"recycled":       "the element now does something else, or stands for another row",
	"hidden":         "the element is not shown now",
	"disabled":       "the element is disabled",
	"readonly":       "the element is read-only",
	"covered":        "something else would be hit at the element's place",
	"offscreen":      "the element cannot be brought into view",
	"focus_refused":  "the page did not let the element have the focus",
	"not_editable":   "the element takes no text",
}

// looked is the script's answer about one element.
type looked struct {
	Refused string   `json:"refused"`
	Changed []string `json:"changed"` // relabelled, recycled: what differs
	By      string   `json:"by"`      // covered: tag and id of what is in front
	X       float64  `json:"x"`
	Y       float64  `json:"y"`
	Kind    string   `json:"kind"`
	Value   string   `json:"value"`
}

// look asks the script about the element of ref. The fence has three rails:
// the generation, the document and, in the script, the element itself.
func (w *walker) look(ctx context.Context, ref, question string) (spot, error) {
	generation, element, ok := parseRef(ref)
	if !ok {
		return spot{}, browserhost.Errorf(browserhost.CodeInputInvalid, "a ref looks like s1e3").State(browserhost.NotStarted)
	}
	w.mu.Lock()
	s := w.reading
	w.mu.Unlock()
	switch {
	case s == nil || generation > s.generation:
		return spot{}, refuse("unknown")
	case generation < s.generation:
		return spot{}, refuse("older_snapshot")
	case s.document != w.world.document():
		return spot{}, refuse("new_document")
	}
	got, err := w.ask(ctx, fmt.Sprintf(question, generation, element), lookLimit, false)
	if errors.Is(err, errDocumentGone) {
		return spot{}, refuse("new_document")
	}
	if err != nil {
		e := *browserhost.AsError(err)
		return spot{}, e.State(browserhost.NotStarted)
	}
	var l looked
	if err := json.Unmarshal(got, &l, json.RejectUnknownMembers(true)); err != nil {
		return spot{}, unreadable(err).State(browserhost.NotStarted)
	}
	if l.Refused == "" {
		return spot{X: l.X, Y: l.Y, Kind: l.Kind, Value: l.Value}, nil
	}
	if _, ok := refusals[l.Refused]; !ok {
		return spot{}, unreadable(fmt.Errorf("refused for %q", l.Refused)).State(browserhost.NotStarted)
	}
	e := refuse(l.Refused)
	if changed := slices.DeleteFunc(l.Changed, func(what string) bool { return !isWord(what) }); len(changed) > 0 {
		e.With("changed", changed)
	}
	if by := clean(l.By, maxCover); by != "" {
		e.With("covered_by", by)
	}
	return spot{}, e
}

// maxCover is how much of a covering element's tag and id is told, in bytes.
const maxCover = 64

// refuse makes the error of a refusal: always not_started (S3.27).
func refuse(reason string) *browserhost.Error {
	code := browserhost.CodeStaleElement
	if reason == "not_editable" {
		code = browserhost.CodeInputInvalid
	}
	return browserhost.Errorf(code, "%s", refusals[reason]).With("reason", reason).State(browserhost.NotStarted)
}

// outgrown is the error of reading on in a snapshot whose document is gone.
func outgrown() *browserhost.Error {
	return browserhost.Errorf(browserhost.CodeStalePage, "the page of that snapshot was replaced").With("reason", "new_document")
}

func unreadable(err error) *browserhost.Error {
	return browserhost.Hide(browserhost.CodeInternal, err, "the page was read, but not in a form that is known")
}

func ended(ctx context.Context) *browserhost.Error {
	return browserhost.Hide(browserhost.CodeTimeout, context.Cause(ctx), "the call ended before the page was read")
}

// ask puts one question to the script. Where the document has none, install
// brings it in first; without install that is [errDocumentGone], because the
// script that knew the ref went with its document.
func (w *walker) ask(ctx context.Context, question string, limit time.Duration, install bool) (jsontext.Value, error) {
	document := w.world.document()
	w.mu.Lock()
	there := w.installed == document
	w.mu.Unlock()
	if there || !install {
		got, err := w.world.eval(ctx, scriptAt+"?."+question+"??null", limit)
		if err != nil || !isNull(got) {
			return got, err
		}
		if !install {
			return nil, errDocumentGone
		}
	}
	got, err := w.world.eval(ctx, "("+scriptAt+"??="+script+")."+question, limit)
	if err != nil {
		return nil, err
	}
	if isNull(got) {
		return nil, errDocumentGone
	}
	w.mu.Lock()
	w.installed = document
	w.mu.Unlock()
	return got, nil
}

func isNull(v jsontext.Value) bool {
	v = bytes.TrimSpace(v)
	return len(v) == 0 || string(v) == "null"
}

// makeRef writes a ref, parseRef reads one back.
func makeRef(generation, element int) string {
	return "s" + strconv.Itoa(generation) + "e" + strconv.Itoa(element)
}

func parseRef(ref string) (generation, element int, ok bool) {
	g, e, ok := strings.Cut(strings.TrimPrefix(ref, "s"), "e")
	if !ok || len(ref) > 24 {
		return 0, 0, false
	}
	generation, err1 := strconv.Atoi(g)
	element, err2 := strconv.Atoi(e)
	if err1 != nil || err2 != nil || generation < 1 || element < 1 || makeRef(generation, element) != ref {
		return 0, 0, false
	}
	return generation, element, true
}
