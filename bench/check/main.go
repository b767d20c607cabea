// Command check reads what go test -bench printed and a table of bars, and
// exits 1 when a bar is missed. A bar is a ratio between two benchmarks of the
// same run, so that it holds on a slow machine and on a busy one.
//
//	go test -run '^$' -bench . -count 5 ./... | tee last.txt
//	check -bars bars.txt last.txt
//
// A row of the table is
//
//	NAME  PACKAGE.BENCHMARK  PACKAGE.BENCHMARK  UNIT  LIMIT  REASON…
//
// and says: the median of the first, divided by the median of the second, is at
// most LIMIT. PACKAGE is the path inside the module, BENCHMARK is written as go
// test prints it, without the number of processors; the second may be a plain
// number, for a metric that is a ratio or a count already. A benchmark that did not run misses its bar.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program: 0 when every bar holds, 1 when one is missed, 2 when it
// was used wrongly or a file cannot be read.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	barsFile := flags.String("bars", "bench/bars.txt", "the table of bars")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(stderr, "usage: check [-bars FILE] RESULTS")
		return 2
	}
	bars, err := load(*barsFile, parseBars)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	results, err := load(flags.Arg(0), parseResults)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	missed := 0
	for _, b := range bars {
		v := b.judge(results)
		if !v.ok {
			missed++
		}
		fmt.Fprintln(stdout, v)
	}
	if missed > 0 {
		fmt.Fprintf(stderr, "%d of %d bars missed\n", missed, len(bars))
		return 1
	}
	fmt.Fprintf(stdout, "%d bars, all held\n", len(bars))
	return 0
}

func load[T any](name string, parse func(*bufio.Scanner) (T, error)) (T, error) {
	f, err := os.Open(name)
	if err != nil {
		var zero T
		return zero, err
	}
	defer f.Close()
	v, err := parse(bufio.NewScanner(f))
	if err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}
