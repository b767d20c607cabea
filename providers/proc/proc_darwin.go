package proc

import (
	"os"
	"syscall"
)

// attributes make the process the head of a group. Nothing ends it with this
// process but the end of its pipe.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func awaitEnd(*os.Process) {}

func terminate(p *os.Process) { p.Signal(syscall.SIGTERM) }

// kill ends the process and its group.
func kill(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL)
	p.Kill()
}
