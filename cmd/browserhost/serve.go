package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"browserhost/cmd/internal/wire"
	"browserhost/host/operator"
)

type serveCmd struct {
	Listen string `help:"Address and port, in place of the settings." placeholder:"127.0.0.1:PORT"`
	Expose bool   `help:"Say that an address beyond this computer is meant."`
	Ensure bool   `help:"Do nothing, successfully, when a host is running already."`
}

// closeTime is how long browsers have for a polite end.
const closeTime = 20 * time.Second

func (c *serveCmd) Run(p *program) error {
	flags := map[string]string{}
	if c.Listen != "" {
		flags["listen"] = c.Listen
	}
	if c.Expose {
		flags["expose"] = "true"
	}
	opts, err := p.options(flags)
	if err != nil {
		return err
	}
	opts.Log = slog.New(slog.NewTextHandler(p.err, nil))
	opts.Asked = p.tellRequest
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	app, err := wire.Start(ctx, opts)
	if running, ok := errors.AsType[*wire.Running](err); ok && c.Ensure { // K37
		p.say("%s", running)
		return nil
	}
	if err != nil {
		return environment(err)
	}
	p.welcome(ctx, app)
	select {
	case <-ctx.Done():
	case <-app.Done():
	}
	stop() // a second signal ends the program at once
	polite, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	swept, err := app.Close(polite)
	if swept > 0 {
		p.say("ended %s that a browser had left behind", count(swept, "process"))
	}
	return errors.Join(app.Err(), err)
}

// welcome says where the host is and what it cannot do here (S3.40, K7).
func (p *program) welcome(ctx context.Context, app *wire.App) {
	p.say("agents: %s/mcp\nstate:  %s", app.URL(), app.Home())
	st, err := app.Desk().Status(ctx)
	if err != nil {
		return // the log has it
	}
	for _, found := range st.Providers {
		if !found.Runnable {
			fmt.Fprintf(p.err, "no browser can be launched: %s\n", clean(found.Why))
			p.hint("browserhost doctor")
		}
	}
	if st.Keyring != "" {
		fmt.Fprintf(p.err, "no sign-in can be lent and nothing can be paired: %s\n", clean(st.Keyring))
		p.hint("browserhost doctor")
	}
	if st.Devices == 0 {
		p.hint("browserhost pair NAME, in another terminal")
	}
}

// tellRequest shows a request where the owner sees it.
func (p *program) tellRequest(r operator.Request) {
	if r.Status != "pending" {
		return
	}
	fmt.Fprintf(p.err, "%s asks for %s\n", clean(r.DeviceName), operator.Subject(r.Domains))
	p.hint("browserhost requests allow %s, or deny %s", r.Code, r.Code)
}
