package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// readExpected reads the expected failures: a check and the reason per line.
func readExpected(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	expected := map[string]string{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		check, reason, _ := strings.Cut(line, " ")
		if reason = strings.TrimSpace(reason); reason == "" {
			return nil, fmt.Errorf("%s:%d: %s has no reason", name, n, check)
		}
		if expected[check] != "" {
			return nil, fmt.Errorf("%s:%d: %s is there twice", name, n, check)
		}
		expected[check] = reason
	}
	return expected, nil
}

// judge prints what became of each check and returns an error when it was not
// what the list says.
func judge(w io.Writer, outcomes map[string]error, expected map[string]string) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(outcomes)) {
		err, reason := outcomes[name], expected[name]
		switch {
		case err == nil && reason == "":
			fmt.Fprintf(w, "ok    %s\n", name)
		case err != nil && reason != "":
			fmt.Fprintf(w, "known %s: %s\n", name, reason)
		case err != nil:
			fmt.Fprintf(w, "FAIL  %s: %v\n", name, err)
			problems = append(problems, fmt.Errorf("%s failed", name))
		default:
			fmt.Fprintf(w, "FAIL  %s passes now\n", name)
			problems = append(problems, fmt.Errorf("%s passes now; take its line out of the expected failures", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		if _, ran := outcomes[name]; !ran {
			problems = append(problems, fmt.Errorf("%s is an expected failure, but no such check ran", name))
		}
	}
	if len(outcomes) == 0 {
		problems = append(problems, errors.New("no check ran"))
	}
	return errors.Join(problems...)
}
