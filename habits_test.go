package browserhost_test

import (
	"bytes"
	"go/ast"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// long lists the files that may pass maxLines, each with its reason.
var long = map[string]string{}

const maxLines = 400

// Small files: a reader keeps one in the head.
func TestFileSize(t *testing.T) {
	for _, s := range sources(t) {
		lines := strings.Count(s.text, "\n")
		why, listed := long[s.path]
		switch {
		case lines > maxLines && !listed:
			t.Errorf("%s has %d lines; at most %d without a reason", s.path, lines, maxLines)
		case listed && (lines <= maxLines || why == ""):
			t.Errorf("%s needs no line in the list of long files, or its line has no reason", s.path)
		}
	}
	for name := range long {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("the list of long files names %s: %v", name, err)
		}
	}
}

// One package comment per package, and it says what the package is for.
func TestPackageComments(t *testing.T) {
	comments, files := map[string][]string{}, map[string]bool{}
	onlyTests := map[string]bool{}
	all := sources(t)
	for _, s := range all {
		files[s.pkg] = true
		if _, ok := onlyTests[s.pkg]; !ok {
			onlyTests[s.pkg] = true
		}
		if !strings.HasSuffix(s.path, "_test.go") {
			onlyTests[s.pkg] = false
		}
	}
	for _, s := range all {
		if s.file.Doc == nil || strings.HasSuffix(s.path, "_test.go") && !onlyTests[s.pkg] {
			continue
		}
		if text := s.file.Doc.Text(); len(strings.Fields(text)) >= 8 {
			comments[s.pkg] = append(comments[s.pkg], s.path)
		}
	}
	for pkg := range files {
		if n := len(comments[pkg]); n != 1 {
			t.Errorf("package %s has %d package comments, want one: %v", pkg, n, comments[pkg])
		}
	}
}

// No test is skipped and nothing waits for a time to pass: a missing part is
// installed, an event is waited for. In a synctest bubble a sleep waits for
// nothing: it moves the bubble's clock (K28, S3.38).
func TestNoSkipNoSleep(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isSel(call.Fun, "synctest", "Test") {
				ast.Inspect(call, func(n ast.Node) bool { noSkip(t, s, n); return true })
				return false
			}
			noSkip(t, s, n)
			if isSel(n, "time", "Sleep") {
				t.Errorf("%s: a sleep; wait for the event", s.fset.Position(n.Pos()))
			}
			return true
		})
	}
	skip := regexp.MustCompile(`(?m)^(\[[^\]]*\] *)*skip\b`)
	walk(t, func(name string) {
		if ext := path.Ext(name); ext == ".txtar" || ext == ".txt" && strings.Contains(name, "/testdata/script") {
			if skip.MatchString(read(t, name)) {
				t.Errorf("%s: a skipped script", name)
			}
		}
	})
}

// noSkip complains when n is a call's t.Skip, or a relative of it.
func noSkip(t *testing.T, s source, n ast.Node) {
	for _, v := range []string{"t", "b", "f", "tb"} {
		for _, name := range []string{"Skip", "Skipf", "SkipNow"} {
			if isSel(n, v, name) {
				t.Errorf("%s: a skipped test; install what is missing", s.fset.Position(n.Pos()))
			}
		}
	}
}

// isSel reports whether n is pkg.name.
func isSel(n ast.Node, pkg, name string) bool {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg && sel.Sel.Name == name
}

// No file names a place on the machine where it was written.
func TestNoBuildMachine(t *testing.T) {
	places := regexp.MustCompile("/work" + `/(main|shared|\.library)\b|/ro` + `ot/(go|\.|work)|/tmp/` + `(bh|bash_jobs)\b`)
	walk(t, func(name string) {
		text := []byte(read(t, name))
		if bytes.IndexByte(text, 0) >= 0 {
			return // a picture
		}
		for i, line := range bytes.Split(text, []byte("\n")) {
			if hit := places.Find(line); hit != nil {
				t.Errorf("%s:%d names %s", name, i+1, hit)
			}
		}
	})
}

// The toolchain is named once for people and machines, and everywhere the same (K31).
func TestToolchain(t *testing.T) {
	mod := read(t, "go.mod")
	want := regexp.MustCompile(`(?m)^toolchain (go\S+)$`).FindStringSubmatch(mod)
	if want == nil || !strings.Contains(mod, "\ngo 1.27.0\n") {
		t.Fatal("go.mod names no toolchain, or another language version")
	}
	for _, name := range []string{"Makefile", ".ci/run", "README.md", "packaging/clean-root.sh"} {
		for _, got := range regexp.MustCompile(`GOTOOLCHAIN\s*[:?]?=\s*(go\S+)`).FindAllStringSubmatch(read(t, name), -1) {
			if got[1] != want[1] {
				t.Errorf("%s says %s, go.mod says %s", name, got[1], want[1])
			}
		}
		if !strings.Contains(read(t, name), "GOTOOLCHAIN") {
			t.Errorf("%s does not name the toolchain", name)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
