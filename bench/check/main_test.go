package main

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

// A run that holds its bars passes, one that misses a bar or did not measure it
// fails, and the line says which and why.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		results string
		code    int
		says    string
	}{
		{"pass.txt", 0, "ok    append: 1.1, at most 1.25 (the chain costs little beside the disk)"},
		{"miss.txt", 1, "MISS  append: 1.3, at most 1.25"},
		{"absent.txt", 1, "MISS  append: consent/chain.BenchmarkFsync gave no ns/op"},
		{"nowhere.txt", 2, ""},
	} {
		t.Run(c.results, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run([]string{"-bars", "testdata/bars.txt", "testdata/" + c.results}, &out, &errs)
			if code != c.code || !strings.Contains(out.String(), c.says) {
				t.Errorf("exit %d, want %d\n%s%s", code, c.code, &out, &errs)
			}
		})
	}
}

// A table that cannot be missed, or does not say why, is no table.
func TestParseBarsRefuses(t *testing.T) {
	for _, text := range []string{
		"",
		"# only a comment\n",
		"a p.B p.C ns/op 1\n",
		"a p.B p.C ns/op zero reason\n",
		"a p.B p.C ns/op -1 reason\n",
		"a p.B p.C ns/op 1 reason\na p.B p.C ns/op 2 reason\n",
	} {
		if bars, err := parseBars(bufio.NewScanner(strings.NewReader(text))); err == nil {
			t.Errorf("parseBars(%q) = %v, want an error", text, bars)
		}
	}
}

// The table that is in use can be read.
func TestBarsInUse(t *testing.T) {
	if _, err := load("../bars.txt", parseBars); err != nil {
		t.Error(err)
	}
}

// A failed run is no measurement.
func TestParseResultsRefusesAFailedRun(t *testing.T) {
	for _, text := range []string{
		"--- FAIL: BenchmarkX\n",
		"FAIL\tbrowserhost/host\t0.1s\n",
		"panic: out of reach\n",
		"BenchmarkX-2 10 fast ns/op\n",
	} {
		if s, err := parseResults(bufio.NewScanner(strings.NewReader(text))); err == nil {
			t.Errorf("parseResults(%q) = %v, want an error", text, s)
		}
	}
}
