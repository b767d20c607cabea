// Command browserhost is the host without a screen, and the command line of the
// owner: it serves agents, and it shows and decides what they may use.
//
// Commands speak to the running host through control.sock. Those that look or
// shrink work anywhere. Those that lend, allow or pair first say what will
// happen and ask a person to type what it is about, at the terminal; no flag
// answers for them (S1.44).
//
// Tables are for people, --json is one object for programs. Errors go to
// stderr with the next step. The exit code is 0 when it worked, 1 when it was
// refused or failed, 2 when the command or its surroundings were wrong.
package main

import (
	"context"
	"io"
	"os"

	"github.com/alecthomas/kong"

	"browserhost/cmd/internal/wire"
	"browserhost/host/operator"
	"browserhost/host/settings"
)

// program is what every command has: where it reads, writes and looks.
type program struct {
	in       io.Reader
	out, err io.Writer
	environ  func(string) string
	json     bool // the command was told to answer for programs
}

// commands is the whole command line.
type commands struct {
	Serve      serveCmd      `cmd:"" help:"Run the host."`
	Status     statusCmd     `cmd:"" help:"Say how the running host does."`
	Stop       stopCmd       `cmd:"" help:"End the running host and its browsers."`
	Doctor     doctorCmd     `cmd:"" help:"Look for what is missing here."`
	Config     configCmd     `cmd:"" help:"Show the settings and where each comes from."`
	Pair       pairCmd       `cmd:"" help:"Pair an agent on this computer."`
	Devices    devicesCmd    `cmd:"" help:"List what is paired, or take a pairing back."`
	Scan       scanCmd       `cmd:"" help:"Count the cookies of each site in your browser profiles; values stay unread."`
	Grant      grantCmd      `cmd:"" help:"Lend your sign-in of sites to a device."`
	Grants     grantsCmd     `cmd:"" help:"List what is lent."`
	Revoke     revokeCmd     `cmd:"" help:"End a grant: its pages close and what was lent is deleted."`
	Requests   requestsCmd   `cmd:"" help:"List what devices ask for, and allow or deny it."`
	Ledger     ledgerCmd     `cmd:"" help:"Verify, show or copy the record of grants."`
	Mcp        mcpCmd        `cmd:"" help:"Speak MCP over stdin and stdout, for a client that starts programs."`
	Demo       demoCmd       `cmd:"" help:"Play the whole story once, on a site of its own."`
	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

func main() { os.Exit(run(os.Args[1:])) }

// run is the program but for its exit.
func run(args []string) int {
	p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Getenv}
	app, err := kong.New(&commands{}, kong.Name("browserhost"),
		kong.Description("Lets AI agents use browsers on this computer, and you decide which of your signed-in sites."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Writers(p.out, p.err), kong.Bind(p))
	if err != nil {
		panic(err) // the table above is wrong
	}
	parsed, err := app.Parse(args)
	if err != nil {
		return p.fail(usage(err))
	}
	if err := parsed.Run(app.Model); err != nil {
		return p.fail(err)
	}
	return 0
}

// answering is the flag of every command that prints something.
type answering struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

// AfterApply tells the program, whose errors then answer for programs too.
func (a answering) AfterApply(p *program) error {
	p.json = a.JSON
	return nil
}

// home is the state directory.
func (p *program) home() (string, error) {
	dir, err := settings.Home(p.environ)
	return dir, environment(err)
}

// options are the settings as the file, the variables and the flags give them.
func (p *program) options(flags map[string]string) (wire.Options, error) {
	home, err := p.home()
	if err != nil {
		return wire.Options{}, err
	}
	s, err := settings.Load(home, flags, p.environ)
	return wire.Options{Home: home, Settings: s, Version: version()}, environment(err)
}

// host reaches the running host.
func (p *program) host(ctx context.Context) (*operator.Client, error) {
	home, err := p.home()
	if err != nil {
		return nil, err
	}
	return operator.Dial(ctx, operator.Path(home))
}
