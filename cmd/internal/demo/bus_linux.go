package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// onBus marks the process that already runs on the private bus.
const onBus = "BROWSERHOST_DEMO_BUS"

// havePrivateBus reports whether the demo can have a Secret Service of its own.
func havePrivateBus() bool {
	for _, name := range []string{"dbus-run-session", "gnome-keyring-daemon"} {
		if _, err := exec.LookPath(name); err != nil {
			return false
		}
	}
	return true
}

// runOnBus runs this program again on a private session bus, with a home and
// runtime directory below dir, so that the person's own keyring is never seen.
// It returns the exit code, after everything that was started there has ended.
func runOnBus(ctx context.Context, out io.Writer, dir string, argv []string) (int, error) {
	// What the bus starts is not our child. As a subreaper we inherit it when
	// the bus ends, and can wait for its end instead of hoping for it.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	run := filepath.Join(dir, "run")
	if err := os.MkdirAll(run, 0o700); err != nil {
		return 0, err
	}
	told, teller, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	noise, err := os.OpenFile(filepath.Join(dir, "bus.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, errors.Join(err, told.Close(), teller.Close())
	}
	defer noise.Close()
	// The bus and what it starts talk on their standard streams, which are
	// therefore a file; ours go around it.
	cmd := exec.CommandContext(ctx, "dbus-run-session", append([]string{"--", "/bin/sh", "-c", `exec "$0" "$@" >&3 2>&4 3>&- 4>&-`, self}, argv...)...)
	cmd.Env = append(withoutSession(os.Environ()), onBus+"="+dir, "HOME="+dir, "XDG_RUNTIME_DIR="+run)
	cmd.Stdout, cmd.Stderr = noise, noise
	cmd.ExtraFiles = []*os.File{teller, os.Stderr}
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	err = cmd.Start()
	teller.Close()
	if err != nil {
		return 0, errors.Join(err, told.Close())
	}
	_, copied := io.Copy(out, told) // ends with the last who could write
	told.Close()
	if err = cmd.Wait(); err == nil {
		err = copied
	}
	if left := reap(5 * time.Second); left > 0 {
		return 0, fmt.Errorf("%d processes of the private bus did not end", left)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// reap waits for every adopted process. Those that outlive the limit are
// ended by pid; how many there were is returned.
func reap(limit time.Duration) int {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && err != unix.EINTR {
				return // ECHILD: nobody is left
			}
		}
	}()
	select {
	case <-done:
		return 0
	case <-time.After(limit):
	}
	left := children()
	for _, pid := range left {
		unix.Kill(pid, unix.SIGKILL)
	}
	<-done
	return len(left)
}

// children lists the pids whose parent is this process.
func children() []int {
	var pids []int
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range tasks {
		b, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(b)) {
			var pid int
			if _, err := fmt.Sscan(field, &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// withoutSession drops what would lead to the person's own bus, keyring or screen.
func withoutSession(env []string) []string {
	var out []string
	for _, kv := range env {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "GNOME_KEYRING_CONTROL", "SSH_AUTH_SOCK":
		default:
			out = append(out, kv)
		}
	}
	return out
}

// startKeyring unlocks an empty Secret Service on this process's bus. It ends with the bus.
func startKeyring(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "gnome-keyring-daemon", "--unlock", "--components=secrets")
	cmd.Stdin = strings.NewReader("demo")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the private keyring did not start: %w", err)
	}
	return nil
}
