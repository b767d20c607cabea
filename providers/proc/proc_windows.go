package proc

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func awaitEnd(*os.Process) {}

// terminate has no polite form for a process without a console.
func terminate(*os.Process) {}

func kill(p *os.Process) { p.Kill() }
