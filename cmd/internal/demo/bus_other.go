//go:build !linux

package demo

import (
	"context"
	"errors"
	"io"
)

const onBus = "BROWSERHOST_DEMO_BUS"

func havePrivateBus() bool { return false }

func runOnBus(context.Context, io.Writer, string, []string) (int, error) {
	return 0, errors.New("a private bus exists on Linux only")
}

func startKeyring(context.Context) error { return errors.New("a private keyring exists on Linux only") }
