package main

import (
	"bufio"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// bar is one row of the table.
type bar struct {
	name   string
	over   string // the measured benchmark
	under  string // what it is measured against, or a number
	unit   string
	limit  float64
	reason string
}

// samples holds, per "package.Benchmark" and unit, each value of the run.
type samples map[string]map[string][]float64

// verdict is what became of one bar.
type verdict struct {
	bar   bar
	ratio float64
	ok    bool
	why   string
}

func (v verdict) String() string {
	word := "ok  "
	if !v.ok {
		word = "MISS"
	}
	if v.why != "" {
		return fmt.Sprintf("%s  %s: %s", word, v.bar.name, v.why)
	}
	return fmt.Sprintf("%s  %s: %.3g, at most %.3g (%s)", word, v.bar.name, v.ratio, v.bar.limit, v.bar.reason)
}

// judge compares the medians of one run.
func (b bar) judge(s samples) verdict {
	v := verdict{bar: b}
	over, err := s.median(b.over, b.unit)
	if err != nil {
		v.why = err.Error()
		return v
	}
	under, err := strconv.ParseFloat(b.under, 64)
	if err != nil {
		if under, err = s.median(b.under, b.unit); err != nil {
			v.why = err.Error()
			return v
		}
	}
	if under == 0 {
		v.why = b.under + " measured nothing"
		return v
	}
	v.ratio = over / under
	v.ok = v.ratio <= b.limit
	return v
}

// median is the middle of what name measured in unit.
func (s samples) median(name, unit string) (float64, error) {
	values := slices.Sorted(slices.Values(s[name][unit]))
	n := len(values)
	if n == 0 {
		return 0, fmt.Errorf("%s gave no %s", name, unit)
	}
	return (values[(n-1)/2] + values[n/2]) / 2, nil
}

// parseBars reads the table. Each row has a reason; no name is there twice; an
// empty table is an error, since it could not be missed.
func parseBars(in *bufio.Scanner) ([]bar, error) {
	var bars []bar
	seen := map[string]bool{}
	for n := 1; in.Scan(); n++ {
		f := strings.Fields(in.Text())
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if len(f) < 6 {
			return nil, fmt.Errorf("line %d: a row has a name, two benchmarks, a unit, a limit and a reason", n)
		}
		limit, err := strconv.ParseFloat(f[4], 64)
		if err != nil || limit <= 0 {
			return nil, fmt.Errorf("line %d: %q is no limit", n, f[4])
		}
		if seen[f[0]] {
			return nil, fmt.Errorf("line %d: %q is there twice", n, f[0])
		}
		seen[f[0]] = true
		bars = append(bars, bar{name: f[0], over: f[1], under: f[2], unit: f[3], limit: limit, reason: strings.Join(f[5:], " ")})
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if len(bars) == 0 {
		return nil, errors.New("no bar in it")
	}
	return bars, nil
}

var processors = regexp.MustCompile(`-\d+$`)

// parseResults reads go test's benchmark lines; all other lines are passed
// over, but one that says that a test failed is an error.
func parseResults(in *bufio.Scanner) (samples, error) {
	s := samples{}
	pkg := ""
	for in.Scan() {
		line := in.Text()
		if name, ok := strings.CutPrefix(line, "pkg: "); ok {
			_, pkg, _ = strings.Cut(name, "/")
			continue
		}
		if strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "panic:") {
			return nil, fmt.Errorf("the run failed: %s", line)
		}
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		if _, err := strconv.Atoi(f[1]); err != nil {
			continue
		}
		name := pkg + "." + processors.ReplaceAllString(f[0], "")
		if s[name] == nil {
			s[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is no number", name, f[i])
			}
			s[name][f[i+1]] = append(s[name][f[i+1]], v)
		}
	}
	return s, in.Err()
}
