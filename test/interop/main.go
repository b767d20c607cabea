// Command interop lets other people's programs judge a running host: the MCP
// inspector's command line and the MCP conformance suite. It runs each check
// once, compares what failed with a file of expected failures that gives a
// reason for each, and exits 1 when anything else failed, or when something on
// that list has begun to pass.
//
// The suite cannot send a credential, so it speaks to a small loopback proxy
// that adds one and passes Host and Origin on as they are. run.sh installs the
// programs and starts this; `make interop` starts run.sh.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program: 0 when all went as expected, 1 when not, 2 when it could
// not begin.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("interop", flag.ContinueOnError)
	flags.SetOutput(stderr)
	modules := flags.String("modules", "", "the node_modules directory with the inspector, the suite and node")
	authority := flags.String("host", "127.0.0.1:8863", "the host, which runs already")
	expectedFile := flags.String("expected", "test/interop/expected-failures.txt", "the expected failures")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	expected, err := readExpected(*expectedFile)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	scratch, err := os.MkdirTemp("", "browserhost-interop-")
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	defer os.RemoveAll(scratch)
	bearer := os.Getenv("BROWSERHOST_BEARER")
	if bearer == "" {
		fmt.Fprintln(stderr, "BROWSERHOST_BEARER is not set: it is the credential of a paired device")
		return 2
	}
	proxy := httptest.NewServer(newProxy(*authority, bearer))
	defer proxy.Close()

	tools := programs{modules: *modules, home: scratch}
	outcomes := map[string]error{}
	for _, c := range checks(tools, "http://"+*authority+"/mcp", proxy.URL+"/mcp", bearer) {
		fmt.Fprintln(stdout, "running", c.name)
		outcomes[c.name] = c.run(ctx)
	}
	if err := judge(stdout, outcomes, expected); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
