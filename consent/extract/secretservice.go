package extract

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"browserhost"
)

const (
	askTime  = 5 * time.Second // for all questions of one read (S2)
	maxItems = 16              // passwords tried
	maxLooks = 2000            // labels read when no attribute matches
)

// SecretService asks the Secret Service of this session (GNOME Keyring, KDE
// Wallet) for passwords in every unlocked collection, whatever its alias. It
// unlocks nothing and starts no bus.
func SecretService() Secrets { return secretService{timeout: askTime} }

type secretService struct{ timeout time.Duration }

// item is how a browser marks its password.
type item struct{ application, label string }

// items are the marks of each browser; one that is not listed is Chromium to
// the keyring, as Edge and Opera are.
func items(browser string) item {
	family, _, _ := strings.Cut(browser, "-")
	switch family {
	case "chrome":
		return item{"chrome", "Chrome Safe Storage"}
	case "brave":
		return item{"brave", "Brave Safe Storage"}
	}
	return item{"chromium", "Chromium Safe Storage"}
}

// Passwords implements [Secrets].
func (s secretService) Passwords(ctx context.Context, browser string) (Passwords, error) {
	address := busAddress()
	if address == "" {
		return Passwords{}, unavailable(noBus, nil)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	conn, err := dbus.Connect(address, dbus.WithContext(ctx)) // a connection of our own: ctx ends it
	if err != nil {
		return Passwords{}, problem(ctx, err)
	}
	defer conn.Close()
	k := keyring{ctx, conn}
	mark := items(browser)
	unlocked, locked, err := k.byAttribute(mark.application)
	if err == nil && len(unlocked)+len(locked) == 0 {
		unlocked, locked, err = k.byLabel(mark.label)
	}
	if err != nil {
		return Passwords{}, problem(ctx, err)
	}
	found, err := k.secrets(unlocked[:min(len(unlocked), maxItems)])
	if err != nil {
		return Passwords{}, problem(ctx, err)
	}
	return Passwords{Found: found, Locked: len(locked) > 0}, nil
}

// busAddress is where the session bus listens, "" when there is none. The
// library's own search would start a bus and leave its daemons behind.
func busAddress() string {
	if address := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" && !strings.HasPrefix(address, "autolaunch:") {
		return address
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) {
		return ""
	}
	socket := filepath.Join(dir, "bus")
	if info, err := os.Stat(socket); err != nil || info.Mode().Type() != os.ModeSocket {
		return ""
	}
	return "unix:path=" + dbus.EscapeBusAddressValue(socket)
}

const (
	serviceName = "org.freedesktop.secrets"
	servicePath = "/org/freedesktop/secrets"
	service     = "org.freedesktop.Secret.Service."
	collection  = "org.freedesktop.Secret.Collection."
	itemOf      = "org.freedesktop.Secret.Item."
)

// keyring is one conversation with the service.
type keyring struct {
	ctx  context.Context
	conn *dbus.Conn
}

func (k keyring) call(path dbus.ObjectPath, method string, args ...any) *dbus.Call {
	return k.conn.Object(serviceName, path).CallWithContext(k.ctx, method, 0, args...)
}

func (k keyring) property(path dbus.ObjectPath, name string, to any) error {
	at := strings.LastIndexByte(name, '.')
	var v dbus.Variant
	if err := k.call(path, "org.freedesktop.DBus.Properties.Get", name[:at], name[at+1:]).Store(&v); err != nil {
		return err
	}
	return v.Store(to)
}

// byAttribute searches all collections at once.
func (k keyring) byAttribute(application string) (unlocked, locked []dbus.ObjectPath, err error) {
	err = k.call(servicePath, service+"SearchItems", map[string]string{"application": application}).Store(&unlocked, &locked)
	return unlocked, locked, err
}

// byLabel looks through the unlocked collections for an item that an older
// browser, or another keyring, stored without attributes. Whether a locked
// collection has one cannot be seen, so it counts as locked only if it has any
// item at all.
func (k keyring) byLabel(label string) (unlocked, locked []dbus.ObjectPath, err error) {
	var collections []dbus.ObjectPath
	if err := k.property(servicePath, service+"Collections", &collections); err != nil {
		return nil, nil, err
	}
	looks := 0
	for _, c := range collections {
		var shut bool
		var inside []dbus.ObjectPath
		if err := errors.Join(k.property(c, collection+"Locked", &shut), k.property(c, collection+"Items", &inside)); err != nil {
			return nil, nil, err
		}
		if shut {
			locked = append(locked, inside...)
			continue
		}
		for _, i := range inside {
			if looks++; looks > maxLooks {
				return unlocked, locked, nil
			}
			var name string
			if err := k.property(i, itemOf+"Label", &name); err == nil && name == label {
				unlocked = append(unlocked, i)
			}
		}
	}
	return unlocked, locked, nil
}

// secret is the wire form of org.freedesktop.Secret.Secret.
type secret struct {
	Session     dbus.ObjectPath
	Parameters  []byte
	Value       []byte
	ContentType string
}

// secrets reads the passwords of items, in their order and each once. They
// cross the bus in clear, as between the browser and its keyring: the bus is a
// socket of this user.
func (k keyring) secrets(items []dbus.ObjectPath) ([]browserhost.Secret, error) {
	if len(items) == 0 {
		return nil, nil
	}
	var ignored dbus.Variant
	var session dbus.ObjectPath
	if err := k.call(servicePath, service+"OpenSession", "plain", dbus.MakeVariant("")).Store(&ignored, &session); err != nil {
		return nil, err
	}
	var got map[dbus.ObjectPath]secret
	if err := k.call(servicePath, service+"GetSecrets", items, session).Store(&got); err != nil {
		return nil, err
	}
	var found []browserhost.Secret
	for _, i := range items {
		s, ok := got[i]
		if password := browserhost.Secret(s.Value); ok && !slices.Contains(found, password) {
			found = append(found, password)
		}
	}
	return found, nil
}

// problem maps an error of the bus. Its text may name paths of the bus and is
// kept for the log; no secret is in it.
func problem(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return unavailable(noAnswer, ctx.Err())
	}
	var e dbus.Error
	if errors.As(err, &e) {
		switch e.Name {
		case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner", "org.freedesktop.DBus.Error.Spawn.ServiceNotFound":
			return unavailable(noService, err)
		case "org.freedesktop.Secret.Error.IsLocked":
			return unavailable(lockedKeyring, err)
		}
	}
	return unavailable(failed, err)
}
