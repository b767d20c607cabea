package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"browserhost/cmd/internal/wire"
	"browserhost/host/operator"
	"browserhost/host/settings"
)

// Release is set by whoever builds a release.
var release string

// version is the release, or what the build says of itself.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

type versionCmd struct{ answering }

func (c *versionCmd) Run(p *program) error {
	if p.json {
		return p.object(map[string]string{"version": version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
	}
	p.say("browserhost %s (%s %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

type statusCmd struct{ answering }

func (c *statusCmd) Run(p *program) error {
	ctx := context.Background()
	host, err := p.host(ctx)
	if err != nil {
		return err
	}
	st, err := host.Status(ctx)
	if err != nil {
		return err
	}
	if p.json {
		return p.object(st)
	}
	if err := table(p.out, statusRows(st)); err != nil {
		return err
	}
	if st.Requests > 0 {
		p.hint("browserhost requests")
	}
	if st.Keyring != "" || st.Rotation {
		p.hint("browserhost doctor")
	}
	return nil
}

func statusRows(st operator.Status) [][]string {
	rows := [][]string{
		{"host", "running since " + when(st.StartedAt) + ", version " + st.Version},
		{"agents", "http://" + st.Listen + "/mcp"},
		{"state", st.Home},
	}
	store := st.Store
	if st.Keyring != "" {
		store += ", cannot be used: " + st.Keyring
	}
	if st.Rotation {
		store += "; a new key is pending since a revoke"
	}
	rows = append(rows, []string{"store", store})
	for _, found := range st.Providers {
		row := found.ID + ": " + found.Version + " at " + found.Path
		if !found.Runnable {
			row = found.ID + ": cannot run: " + found.Why
		}
		rows = append(rows, []string{"browser", row})
	}
	if st.NoSandbox {
		rows = append(rows, []string{"sandbox", "switched off by chrome.sandbox"})
	}
	for _, b := range st.Browsers {
		row := fmt.Sprintf("%s %s, %s, %s", b.Provider, b.State, count(b.Sessions, "session"), count(b.Pages, "page"))
		if b.Reason != "" {
			row += ": " + b.Reason
		}
		rows = append(rows, []string{"instance", row})
	}
	return append(rows,
		[]string{"devices", count(st.Devices, "device")},
		[]string{"grants", count(st.Grants, "grant")},
		[]string{"requests", fmt.Sprintf("%d waiting", st.Requests)})
}

type stopCmd struct{ answering }

// stopTime is how long the end of a host may take; its browsers end first.
const stopTime = time.Minute

func (c *stopCmd) Run(p *program) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	host, err := p.host(ctx)
	if err != nil {
		return err
	}
	p.progress("ending the host and its browsers…")
	if err := host.End(ctx); err != nil {
		return err
	}
	if p.json {
		return p.object(map[string]bool{"stopped": true})
	}
	p.say("the host has ended")
	return nil
}

type doctorCmd struct{ answering }

func (c *doctorCmd) Run(p *program) error {
	opts, err := p.options(nil)
	if err != nil {
		return err
	}
	p.progress("looking…")
	checks := wire.Doctor(context.Background(), opts)
	well := true
	for _, check := range checks {
		well = well && check.OK
	}
	if p.json {
		err = p.object(map[string]any{"ok": well, "checks": checks})
	} else {
		err = p.showChecks(checks)
	}
	if err == nil && !well {
		return errReported
	}
	return err
}

func (p *program) showChecks(checks []wire.Check) error {
	wide := 0
	for _, c := range checks {
		wide = max(wide, len(c.Name))
	}
	for _, c := range checks {
		mark := "ok  "
		if !c.OK {
			mark = "FAIL"
		}
		p.say("%s  %-*s  %s", mark, wide, c.Name, clean(c.Detail))
		if c.Next != "" {
			p.say("%s  → %s", strings.Repeat(" ", 4+2+wide), clean(c.Next))
		}
	}
	return nil
}

type configCmd struct {
	Show configShowCmd `cmd:"" default:"withargs" help:"Show the settings and where each comes from."`
}

type configShowCmd struct{ answering }

func (c *configShowCmd) Run(p *program) error {
	opts, err := p.options(nil)
	if err != nil {
		return err
	}
	type setting struct {
		Key   string `json:"key"`
		Value string `json:"value"`
		From  string `json:"from"`
	}
	var all []setting
	var rows [][]string
	for _, o := range opts.Settings.Origins() {
		all = append(all, setting{o.Key, o.Value, o.From})
		rows = append(rows, []string{o.Key, o.Value, o.From})
	}
	if p.json {
		return p.object(map[string]any{"home": opts.Home, "file": settings.FileName, "settings": all})
	}
	p.say("%s in %s\n", settings.FileName, opts.Home)
	return p.list("", []string{"KEY", "VALUE", "FROM"}, rows)
}
