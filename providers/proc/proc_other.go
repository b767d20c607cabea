//go:build !linux

package proc

import (
	"context"
	"os"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

func killGroup(p *os.Process) { p.Kill() }

// kill ends a process and waits for its end. There is no event to wait for
// here that works for processes of others, so it looks.
func kill(ctx context.Context, pid int) error {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return nil // gone
	}
	p.KillWithContext(ctx)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		if alive, err := p.IsRunningWithContext(ctx); err != nil || !alive || ended(p) {
			return ctx.Err()
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// HasTerminal is not known here, so nobody is taken for a person at one.
func HasTerminal(int) bool { return false }
