package main

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"io"
	"strings"

	"browserhost"
	"browserhost/cmd/internal/wire"
	"browserhost/host/operator"
)

type devicesCmd struct {
	List   devicesListCmd   `cmd:"" default:"withargs" help:"List what is paired."`
	Revoke devicesRevokeCmd `cmd:"" help:"Take a pairing back, and all that was lent to it."`
}

type devicesListCmd struct{ answering }

func (c *devicesListCmd) Run(p *program) error {
	ctx := context.Background()
	host, err := p.host(ctx)
	if err != nil {
		return err
	}
	devices, err := host.Devices(ctx)
	if err != nil {
		return err
	}
	if p.json {
		return p.object(map[string]any{"devices": devices})
	}
	var rows [][]string
	for _, d := range devices {
		seen := "never"
		if d.LastSeen != "" {
			seen = when(d.LastSeen)
		}
		rows = append(rows, []string{d.Name, string(d.ID), scopes(d.Scopes), when(d.CreatedAt), seen})
	}
	if len(rows) == 0 {
		p.hint("browserhost pair NAME")
	}
	return p.list("nothing is paired", []string{"NAME", "ID", "MAY", "PAIRED", "SEEN"}, rows)
}

// scopes writes what a device may do; the usual set has a name.
func scopes(list []browserhost.Scope) string {
	var words []string
	for _, s := range list {
		words = append(words, string(s))
	}
	return strings.Join(words, " ")
}

type devicesRevokeCmd struct {
	answering
	Device string `arg:"" help:"Its name or id."`
}

func (c *devicesRevokeCmd) Run(p *program) error {
	ctx := context.Background()
	host, err := p.host(ctx)
	if err != nil {
		return err
	}
	device, err := find(ctx, host, c.Device)
	if err != nil {
		return err
	}
	out, err := host.RevokeDevice(ctx, device.ID)
	if err != nil {
		return err
	}
	if p.json {
		return p.object(out)
	}
	p.say("%s is not paired any more; %s ended, %s closed", clean(device.Name), count(len(out.Grants), "grant"), count(out.Pages, "page"))
	return nil
}

// find looks a device up by id or, letter case aside, by name.
func find(ctx context.Context, host *operator.Client, nameOrID string) (browserhost.Device, error) {
	devices, err := host.Devices(ctx)
	if err != nil {
		return browserhost.Device{}, err
	}
	for _, d := range devices {
		if string(d.ID) == nameOrID || strings.EqualFold(d.Name, nameOrID) {
			return d, nil
		}
	}
	return browserhost.Device{}, &mistake{browserhost.Errorf(browserhost.CodeNotFound, "no device is called %q", clean(nameOrID)), exitFailed, "browserhost devices"}
}

type pairCmd struct {
	answering
	Name   string   `arg:"" help:"What you call the agent, such as claude."`
	Scopes []string `help:"What it may do, in place of the usual: ${enum}." enum:"browser:read,browser:launch,browser:control,browser:browse,profile:use,browser:files,browser:inspect,browser:script"`
}

func (c *pairCmd) Run(p *program) error {
	ctx := context.Background()
	host, err := p.host(ctx)
	if err != nil {
		return err
	}
	st, err := host.Status(ctx)
	if err != nil {
		return err
	}
	spec := operator.PairSpec{Name: c.Name}
	for _, s := range c.Scopes {
		spec.Scopes = append(spec.Scopes, browserhost.Scope(s))
	}
	typed, err := p.confirm(c.Name, func(tty io.Writer) error {
		may := spec.Scopes
		if may == nil {
			may = browserhost.DefaultScopes()
		}
		_, err := fmt.Fprintf(tty, "An agent called %s will be able to use browsers of this host (%s).\nNone of your sign-ins is part of that: it has to ask for each site.\n", clean(c.Name), scopes(may))
		return err
	})
	if err != nil {
		return err
	}
	paired, err := host.Pair(ctx, spec, typed)
	if err != nil {
		return err
	}
	snippet := clientOf(paired, st)
	if p.json {
		return p.object(map[string]any{"device": paired.Device, "bearer": paired.Bearer, "url": "http://" + st.Listen + "/mcp", "client": snippet})
	}
	return p.showPaired(paired, st, snippet)
}

// client is what an MCP client that starts programs is told.
type client struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitzero"`
}

// kept says whether the bridge finds the bearer by itself.
func kept(st operator.Status) bool { return st.Store == "keychain" && st.Keyring == "" }

func clientOf(paired operator.Paired, st operator.Status) client {
	c := client{Command: "browserhost", Args: []string{"mcp", paired.Device.Name}}
	if !kept(st) {
		c.Env = map[string]string{wire.BearerVariable: paired.Bearer}
	}
	return c
}

func (p *program) showPaired(paired operator.Paired, st operator.Status, snippet client) error {
	text, err := json.Marshal(snippet, json.Deterministic(true))
	if err != nil {
		return err
	}
	p.say("paired %s (%s)", clean(paired.Device.Name), paired.Device.ID)
	p.say("\nFor an MCP client that starts programs:\n  %s", text)
	if kept(st) {
		p.say("It holds no secret: the credential is in your keychain.")
	}
	p.say("\nFor an MCP client that speaks HTTP: http://%s/mcp with the header\n  Authorization: Bearer %s", st.Listen, paired.Bearer)
	p.say("This is shown once, and is as good as a password.")
	return nil
}
