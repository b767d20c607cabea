package proc

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// terminate has no polite form for a process without a console.
func terminate(*os.Process) {}
