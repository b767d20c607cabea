package browserhost_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "browserhost"

// source is one Go file of the tree, whatever system or tag it is for.
type source struct {
	path string // slash-separated, from the root
	pkg  string // its folder, "." for the root
	test bool
	file *ast.File
	fset *token.FileSet
	text string
}

// imports returns the import paths of s.
func (s source) imports() []string {
	var all []string
	for _, i := range s.file.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err == nil {
			all = append(all, p)
		}
	}
	return all
}

// walk calls f for every file of the tree that is ours: no build output, no
// tools, nothing of git.
func walk(t *testing.T, f func(name string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		p = filepath.ToSlash(p)
		if d.IsDir() {
			switch p {
			case ".git", ".cache", "bin":
				return fs.SkipDir
			}
			if path.Base(p) == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			f(p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sources parses every Go file of the tree outside testdata.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	walk(t, func(name string) {
		if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
			return
		}
		text := read(t, name)
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{
			path: name, pkg: path.Dir(name), file: file, fset: fset, text: text,
			test: strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/"),
		})
	})
	if len(all) == 0 {
		t.Fatal("no Go file found: the test does not run at the root of the tree")
	}
	return all
}

// covers reports whether pattern names pkg.
func covers(pattern, pkg string) bool {
	if below, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(pkg, below+"/")
	}
	return pattern == pkg
}

func covered(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, pkg) })
}

// rowOf finds the most exact row for pkg.
func rowOf(pkg string) (row, bool) {
	for _, r := range law {
		if r.pkg == pkg {
			return r, true
		}
	}
	for _, r := range law {
		if covers(r.pkg, pkg) {
			return r, true
		}
	}
	return row{}, false
}

// ownerOf finds the line about the module that importPath belongs to.
func ownerOf(importPath string) (owner, bool) {
	for _, o := range owners {
		if importPath == o.module || strings.HasPrefix(importPath, o.module+"/") {
			return o, true
		}
	}
	return owner{}, false
}

// judge returns why pkg may not import imp, or "".
func judge(pkg, imp string, test bool) string {
	ours, isOurs := strings.CutPrefix(imp, module+"/")
	switch {
	case imp == module:
		return ""
	case isOurs:
		if ours == "consent/widen" && !slices.Contains(widenBy, pkg) {
			return "only wire may import what widens consent"
		}
		if test {
			if strings.HasPrefix(ours, "ui/") && !strings.HasPrefix(pkg, "ui/") {
				return "only the screen's own tests may import the screen"
			}
			return ""
		}
		r, ok := rowOf(pkg)
		if !ok {
			return "the package has no row in the import table"
		}
		if !covered(r.may, ours) {
			return r.why
		}
		return ""
	case !strings.Contains(strings.Split(imp, "/")[0], "."):
		return "" // the standard library
	}
	o, ok := ownerOf(imp)
	if !ok {
		return "the dependency has no line in the table of owners"
	}
	if !test && !slices.Contains(o.by, pkg) {
		return "the dependency belongs to " + strings.Join(o.by, ", ")
	}
	return ""
}

// The import law: who may import whom, and who owns which dependency (K27, K34).
func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		if _, ok := rowOf(s.pkg); !ok {
			t.Errorf("%s: package %s has no row in the import table", s.path, s.pkg)
		}
		for _, imp := range s.imports() {
			if why := judge(s.pkg, imp, s.test); why != "" {
				t.Errorf("%s imports %s: %s", s.path, imp, why)
			}
		}
	}
}

// Each row of both tables says why, and no row is there twice.
func TestTablesGiveReasons(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range law {
		if r.why == "" || seen[r.pkg] {
			t.Errorf("row %q: no reason, or twice", r.pkg)
		}
		seen[r.pkg] = true
	}
	for _, o := range owners {
		if o.why == "" || seen[o.module] {
			t.Errorf("owner line %q: no reason, or twice", o.module)
		}
		if len(o.by) > 1 && !strings.HasPrefix(o.why, "shared: ") {
			t.Errorf("owner line %q: shared without saying why", o.module)
		}
		seen[o.module] = true
	}
}

// The law refuses what it is there to refuse.
func TestJudgeRefuses(t *testing.T) {
	for _, c := range []struct {
		pkg, imp string
		test     bool
		ok       bool
	}{
		{"host/guard", "browserhost", false, true},
		{"host/guard", "browserhost/host/policy", false, false},
		{"host/guard", "browserhost/host/policy", true, true},
		{"host", "browserhost/host/policy", false, true},
		{"host", "browserhost/consent/gate", false, false},
		{"consent/gate", "browserhost/consent/widen", false, false}, // AIP-63 C7
		{"consent/gate", "browserhost/consent/widen", true, false},
		{"test/real", "browserhost/consent/widen", true, false},
		{"cmd/internal/wire", "browserhost/consent/widen", false, true},
		{"cmd/internal/wire", "browserhost/ui/tray", false, false},
		{"cmd/browserhost", "browserhost/consent/jar", false, false},
		{"providers/chrome", "browserhost/consent/jar", false, false},
		{"util", "browserhost/host", false, false},
		{"consent/jar", "filippo.io/age", false, true},
		{"consent/narrow", "filippo.io/age", false, false},
		{"host/rest", "github.com/modelcontextprotocol/go-sdk/mcp", false, false},
		{"host/rest", "github.com/modelcontextprotocol/go-sdk/mcp", true, true},
		{"providers/cdp", "example.com/unknown", true, false},
		{"host/guard", "go.uber.org/goleak", false, false},
		{"ui/tray", "browserhost/host/operator", false, true},
		{"host/rest", "browserhost/ui/view", true, false},
	} {
		if why := judge(c.pkg, c.imp, c.test); (why == "") != c.ok {
			t.Errorf("judge(%s, %s, test=%v) = %q, want allowed = %v", c.pkg, c.imp, c.test, why, c.ok)
		}
	}
}

// All but the screen must load on a server: nothing of Fyne and nothing of
// cgo in what is linked.
func TestHeadlessClosure(t *testing.T) {
	roots := []string{"."}
	for _, s := range sources(t) {
		if pkg := "./" + s.pkg; !s.test && !covered(screen, s.pkg) && !slices.Contains(roots, pkg) && s.pkg != "." {
			roots = append(roots, pkg)
		}
	}
	cmd := exec.Command("go", append([]string{"list", "-deps", "-f", `{{.ImportPath}} {{len .CgoFiles}}`}, roots...)...)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	for line := range strings.Lines(string(out)) {
		pkg, cgo, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(pkg, "fyne.io/") || cgo != "0" {
			t.Errorf("a package without a screen links %s (%s cgo files)", pkg, cgo)
		}
	}
}
