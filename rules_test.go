package browserhost_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "shorten baseline.txt to what is still missing; write it when there is none")

const (
	requirementsFile = "testdata/requirements.txt"
	baselineFile     = "baseline.txt"
	seedsFile        = "docs/seeds.md"
)

// requirement is one row of testdata/requirements.txt.
type requirement struct {
	id      string
	parts   []string // the parts that build it; the last one is when it is due
	notOurs bool
}

func (r requirement) rule() bool { return !strings.ContainsAny(r.id[:1], "SK") }
func (r requirement) due() string {
	if r.notOurs {
		return ""
	}
	return r.parts[len(r.parts)-1]
}

// requirements reads the list and the parts that are done.
func requirements(t *testing.T) (all []requirement, done []string) {
	t.Helper()
	form := regexp.MustCompile(`^([MTLC]\d+|S[1-4C]\.\d+[a-e]?|K\d+)$`)
	seen := map[string]bool{}
	for i, line := range strings.Split(read(t, requirementsFile), "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || strings.HasPrefix(line, "#"):
			continue
		case f[0] == "done":
			done = f[1:]
			continue
		case len(f) != 2 || !form.MatchString(f[0]) || seen[f[0]]:
			t.Fatalf("%s:%d: not a row, or twice: %q", requirementsFile, i+1, line)
		}
		seen[f[0]] = true
		all = append(all, requirement{id: f[0], parts: strings.Split(f[1], ","), notOurs: f[1] == "not-ours"})
	}
	return all, done
}

// cited is where an id is named.
type cited struct{ code, test, seeds bool }

var (
	commentBreak = regexp.MustCompile(`\n\s*//\s*`)
	aipList      = regexp.MustCompile(`AIP-63 ([MTLC]\d+(?:(?:,? and |, ?|/)[MTLC]\d+)*)`)
	aipID        = regexp.MustCompile(`[MTLC]\d+`)
	ownID        = regexp.MustCompile(`\b(?:S[1-4C]\.\d+[a-e]?|K[1-9]\d?)\b`)
)

// citations finds every id in text: rules as "AIP-63 C1, C10", the rest by name.
func citations(text string) []string {
	text = commentBreak.ReplaceAllString(text, " ")
	ids := ownID.FindAllString(text, -1)
	for _, m := range aipList.FindAllStringSubmatch(text, -1) {
		ids = append(ids, aipID.FindAllString(m[1], -1)...)
	}
	return ids
}

// allCitations reads the tree, this file and its neighbours of the same kind
// left out: an example is no citation.
func allCitations(t *testing.T) map[string]cited {
	t.Helper()
	found := map[string]cited{}
	note := func(text string, mark func(*cited)) {
		for _, id := range citations(text) {
			c := found[id]
			mark(&c)
			found[id] = c
		}
	}
	for _, s := range sources(t) {
		if s.path == "rules_test.go" {
			continue
		}
		note(s.text, func(c *cited) {
			if s.test {
				c.test = true
			} else {
				c.code = true
			}
		})
	}
	walk(t, func(name string) {
		if strings.HasSuffix(name, ".txtar") {
			note(read(t, name), func(c *cited) { c.test = true })
		}
	})
	note(read(t, seedsFile), func(c *cited) { c.seeds = true })
	return found
}

// missing says what r still lacks, "" when nothing.
func (r requirement) missing(c cited) string {
	switch {
	case r.notOurs:
		return ""
	case r.rule():
		var lack []string
		if !c.code {
			lack = append(lack, "code")
		}
		if !c.test {
			lack = append(lack, "test")
		}
		return strings.Join(lack, " and ")
	case !c.code && !c.test && !c.seeds:
		return "code, test or " + seedsFile
	}
	return ""
}

// Each rule of AIP-63 is named in code and in a test, each requirement in a
// test, in code or in docs/seeds.md; what is not stands in baseline.txt with the part
// that will bring it, and that list only gets shorter (S1.8, S1.53).
func TestRules(t *testing.T) {
	all, done := requirements(t)
	found := allCitations(t)
	lacking := map[string]requirement{}
	lack := map[string]string{}
	known := map[string]bool{}
	for _, r := range all {
		known[r.id] = true
		if m := r.missing(found[r.id]); m != "" {
			lacking[r.id], lack[r.id] = r, m
		}
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if !known[id] {
			t.Errorf("%s is cited, but no such rule or requirement exists", id)
		}
	}
	listed := baseline(t)
	if *update {
		write(t, all, lack, listed)
		listed = baseline(t)
	}
	for id := range listed {
		switch r, ok := lacking[id]; {
		case !known[id]:
			t.Errorf("%s: %s is no rule or requirement", baselineFile, id)
		case !ok:
			t.Errorf("%s: %s is met; take its line out (go test -run TestRules . -update)", baselineFile, id)
		case slices.Contains(done, r.due()):
			t.Errorf("%s: %s was due with part %s and lacks %s", baselineFile, id, r.due(), lack[id])
		}
	}
	for id, r := range lacking {
		if !listed[id] {
			t.Errorf("%s lacks %s (part %s)", id, lack[id], r.due())
		}
	}
}

// baseline reads the ids that are known to be missing; nil when there is no file.
func baseline(t *testing.T) map[string]bool {
	t.Helper()
	if _, err := os.Stat(baselineFile); err != nil && *update {
		return nil
	}
	ids := map[string]bool{}
	for line := range strings.Lines(read(t, baselineFile)) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			ids[f[0]] = true
		}
	}
	return ids
}

// write makes the baseline anew. It never adds an id to a list that exists.
func write(t *testing.T, all []requirement, lack map[string]string, listed map[string]bool) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# What neither code nor a test names yet: the id, the part that will bring it,\n" +
		"# what is missing. This list only gets shorter (rules_test.go).\n")
	for _, r := range all {
		if lack[r.id] == "" || listed != nil && !listed[r.id] {
			continue
		}
		fmt.Fprintf(&b, "%-7s part %-3s lacks %s\n", r.id, r.due(), lack[r.id])
	}
	if err := os.WriteFile(baselineFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The list has the 36 rules of AIP-63 and every numbered statement of the
// sources, so that nothing can be forgotten by leaving it out (S1.53).
func TestRequirementsAreComplete(t *testing.T) {
	all, _ := requirements(t)
	count := map[string]int{}
	for _, r := range all {
		key, _, dotted := strings.Cut(r.id, ".")
		if !dotted {
			key = r.id[:1]
		}
		count[key]++
	}
	want := map[string]int{"M": 6, "T": 4, "L": 13, "C": 13, "S1": 76, "S2": 83, "S3": 40, "S4": 45, "SC": 9, "K": 43}
	if !maps.Equal(count, want) {
		t.Errorf("the list has %v, want %v", count, want)
	}
}

// Lists of rules are read as people write them.
func TestCitations(t *testing.T) {
	for text, want := range map[string]string{
		"// AIP-63 L9":                       "L9",
		"(AIP-63 C1, C10) and K2":            "K2 C1 C10",
		"// by AIP-63 C1,\n\t// C11 and M2.": "C1 C11 M2",
		"AIP-63 T3/T4; S1.29a, SC.3":         "S1.29a SC.3 T3 T4",
		"C7 alone, L13 too, S5 and HK1 no":   "",
		"aes.K1024":                          "",
	} {
		if got := strings.Join(citations(text), " "); got != want {
			t.Errorf("citations(%q) = %q, want %q", text, got, want)
		}
	}
}
