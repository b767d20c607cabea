//go:build real

package real

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// sessionVariable is set in a test that runs inside a session of its own.
const sessionVariable = "BROWSERHOST_TEST_SESSION"

// session runs the calling test a second time, in a process of its own with a
// session bus, a home and a runtime directory that nobody else uses, and
// reports whether this is that process. The first one waits for it, takes over
// its verdict, and checks that nothing it started is alive.
func session(t *testing.T) (inside bool) {
	t.Helper()
	if os.Getenv(sessionVariable) != "" {
		return true
	}
	home, err := os.MkdirTemp("", "bh-session-") // short: sockets lie below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	runtime := filepath.Join(home, "run")
	if err := os.Mkdir(runtime, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "dbus-run-session", "--", self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1", "-test.timeout=110s")
	for _, v := range os.Environ() {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "HOME", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS", "GNOME_KEYRING_CONTROL", "SSH_AUTH_SOCK":
		default:
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+home, "XDG_RUNTIME_DIR="+runtime, sessionVariable+"="+home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in its session: %v\n%s", err, out)
	} else if !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("the test did not run in its session:\n%s", out)
	}
	gone(t, sessionVariable+"="+home)
	return false
}

// gone fails unless every process with the variable in its environment ends by
// itself within ten seconds.
func gone(t *testing.T, variable string) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for _, path := range found {
		environ, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environ, []byte(variable)) {
			continue // it ended meanwhile, or is not ours
		}
		dir := filepath.Dir(path)
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		if !ended(t, pid, time.Until(deadline)) {
			t.Errorf("%s (%d) is left behind", strings.TrimSpace(string(name)), pid)
		}
	}
}

// ended waits for the end of a process that is not our child.
func ended(t *testing.T, pid int, within time.Duration) bool {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, max(0, int(within.Milliseconds())))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	}
}

const (
	secrets     = "org.freedesktop.secrets"
	secretsPath = "/org/freedesktop/secrets"
	guilt       = "org.gnome.keyring.InternalUnsupportedGuiltRiddenInterface."
	login       = dbus.ObjectPath("/org/freedesktop/secrets/collection/login")
	masterWord  = "test"
)

// keyring is a real GNOME keyring on the bus of this session, with its login
// collection made and unlocked.
type keyring struct {
	t       *testing.T
	conn    *dbus.Conn
	session dbus.ObjectPath
}

// wireSecret is org.freedesktop.Secret.Secret.
type wireSecret struct {
	Session     dbus.ObjectPath
	Parameters  []byte
	Value       []byte
	ContentType string
}

func startKeyring(t *testing.T) *keyring {
	t.Helper()
	conn, err := dbus.Connect(os.Getenv("DBUS_SESSION_BUS_ADDRESS"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	if err := conn.AddMatchSignal(dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, secrets)); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command("gnome-keyring-daemon", "--foreground", "--unlock", "--components=secrets")
	cmd.Stdin = strings.NewReader(masterWord)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("gnome-keyring-daemon: %s", log.String())
		}
	})
	for late, up := time.After(10*time.Second), false; !up; { // asking earlier would make the bus start one of its own
		select {
		case s := <-signals:
			up = s.Name == "org.freedesktop.DBus.NameOwnerChanged" && len(s.Body) == 3 && s.Body[0] == secrets && s.Body[2] != ""
		case <-late:
			t.Fatal("the keyring did not come up")
		}
	}
	conn.RemoveSignal(signals)
	k := &keyring{t: t, conn: conn}
	var ignored dbus.Variant
	if err := k.call(secretsPath, "org.freedesktop.Secret.Service.OpenSession", "plain", dbus.MakeVariant("")).Store(&ignored, &k.session); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *keyring) call(path dbus.ObjectPath, method string, args ...any) *dbus.Call {
	k.t.Helper()
	return k.conn.Object(secrets, path).CallWithContext(k.t.Context(), method, 0, args...)
}

func (k *keyring) must(call *dbus.Call) *dbus.Call {
	k.t.Helper()
	if call.Err != nil {
		k.t.Fatal(call.Err)
	}
	return call
}

func (k *keyring) secret(value string) wireSecret {
	return wireSecret{k.session, []byte{}, []byte(value), "text/plain"}
}

// lock shuts a collection; unlock opens it as a person would who knows its word.
func (k *keyring) lock(collection dbus.ObjectPath) {
	k.t.Helper()
	k.must(k.call(secretsPath, "org.freedesktop.Secret.Service.Lock", []dbus.ObjectPath{collection}))
}

func (k *keyring) unlock(collection dbus.ObjectPath) {
	k.t.Helper()
	k.must(k.call(secretsPath, guilt+"UnlockWithMasterPassword", collection, k.secret(masterWord)))
}

// collection makes a second collection, which no alias names.
func (k *keyring) collection(label string) (path dbus.ObjectPath) {
	k.t.Helper()
	properties := map[string]dbus.Variant{"org.freedesktop.Secret.Collection.Label": dbus.MakeVariant(label)}
	if err := k.call(secretsPath, guilt+"CreateWithMasterPassword", properties, k.secret(masterWord)).Store(&path); err != nil {
		k.t.Fatal(err)
	}
	var alias dbus.ObjectPath
	if err := k.call(secretsPath, "org.freedesktop.Secret.Service.ReadAlias", "default").Store(&alias); err != nil || alias == path {
		k.t.Fatalf("the new collection is the default one: %v", err)
	}
	return path
}

// store puts an item into a collection.
func (k *keyring) store(collection dbus.ObjectPath, label string, attributes map[string]string, value string) {
	k.t.Helper()
	k.must(k.call(collection, "org.freedesktop.Secret.Collection.CreateItem", map[string]dbus.Variant{
		"org.freedesktop.Secret.Item.Label":      dbus.MakeVariant(label),
		"org.freedesktop.Secret.Item.Attributes": dbus.MakeVariant(attributes),
	}, k.secret(value), true))
}

// take removes the one item with the attributes and returns its secret.
func (k *keyring) take(attributes map[string]string) string {
	k.t.Helper()
	var open, shut []dbus.ObjectPath
	if err := k.call(secretsPath, "org.freedesktop.Secret.Service.SearchItems", attributes).Store(&open, &shut); err != nil || len(open) != 1 {
		k.t.Fatalf("%d items with %v, %v", len(open), attributes, err)
	}
	var s wireSecret
	if err := k.call(open[0], "org.freedesktop.Secret.Item.GetSecret", k.session).Store(&s); err != nil {
		k.t.Fatal(err)
	}
	k.must(k.call(open[0], "org.freedesktop.Secret.Item.Delete"))
	return string(s.Value)
}
