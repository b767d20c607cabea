//go:build unix

package proc

import (
	"os/exec"
	"syscall"
)

// setApart puts the process in a group of its own.
func setApart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
