//go:build !linux && !darwin

package operator

import (
	"context"
	"net"
	"runtime"

	"browserhost"
)

// peer is nobody here: without a proof of who connects there is no door.
type peer struct{ uid, pid int }

func supported() error {
	return browserhost.Errorf(browserhost.CodeUnsupported, "the command line cannot reach a host on %s yet", runtime.GOOS)
}

func peerOf(*net.UnixConn) (*peer, error) { return nil, supported() }

func (*peer) alive() bool { return false }

func (*peer) ended(context.Context) error { return supported() }

func (*peer) close() {}
