package main

import (
	"encoding/json/v2"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"
)

// clean makes a text of anybody's safe for a terminal: no control, no direction
// override, nothing invisible (ux 0.5).
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}

// object prints v for programs.
func (p *program) object(v any) error {
	out, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "%s\n", out)
	return err
}

// table prints rows for people, the first one being the heads of the columns.
func table(out io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if cell = clean(cell); cell == "" {
				cell = "-"
			}
			if i < len(row)-1 {
				cell += "\t"
			}
			fmt.Fprint(w, cell)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// list prints rows below their heads, or a word when there are none.
func (p *program) list(none string, heads []string, rows [][]string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(p.out, none)
		return err
	}
	return table(p.out, append([][]string{heads}, rows...))
}

// say prints a line for people.
func (p *program) say(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// hint prints the next step, where it does not end up in a result.
func (p *program) hint(format string, args ...any) { fmt.Fprintf(p.err, "  → "+format+"\n", args...) }

// progress tells a waiting person what takes so long; a program is told nothing.
func (p *program) progress(format string, args ...any) {
	if f, ok := p.err.(*os.File); ok && !p.json && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(p.err, format+"\n", args...)
	}
}

// when writes a time of a record for a person.
func when(recorded string) string {
	t, err := time.Parse(time.RFC3339, recorded)
	if err != nil {
		return recorded
	}
	return t.Local().Format("2006-01-02 15:04")
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
