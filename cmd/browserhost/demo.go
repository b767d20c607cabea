package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"browserhost/cmd/internal/demo"
)

type demoCmd struct {
	JSON bool `name:"json" help:"Print one JSON object per step."`
}

// Run plays the story; it fails when a step does.
func (c *demoCmd) Run(p *program) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	args := []string{"demo"}
	if c.JSON {
		args = append(args, "--json")
	}
	ok, err := demo.Run(ctx, p.out, demo.Options{JSON: c.JSON, Version: version(), Args: args})
	if err != nil {
		return err
	}
	if !ok {
		return errReported
	}
	return nil
}
