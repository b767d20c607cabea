package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"browserhost/cmd/internal/wire"
)

type mcpCmd struct {
	Name string `arg:"" help:"The device, as it was paired."`
}

// Run is the cable between a client and the host; it ends well when the client
// closes its end or ends it.
func (c *mcpCmd) Run(p *program) error {
	opts, err := p.options(nil)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = wire.Bridge(ctx, opts, c.Name, p.in, p.out)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
