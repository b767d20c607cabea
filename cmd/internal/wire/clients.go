package wire

import (
	"log/slog"
	"net/netip"
	"sync"

	"browserhost"
	"browserhost/pairing/devices"
	"browserhost/providers/proc"
)

// clients remembers which processes on this computer have spoken as a device,
// so that the owner's door can refuse what such a process starts (design: the
// agent has a shell). It is no wall: a process that left its ancestors behind
// is a stranger here (docs/security.md).
type clients struct {
	devices *devices.Store
	log     *slog.Logger

	mu    sync.Mutex
	known map[client]browserhost.DeviceID
}

// client is one process: a number is used again, a number and a start are not.
type client struct {
	pid   int
	began string
}

// maxClients bounds what is remembered. When it is full the dead are dropped,
// and if none is, new clients are not remembered; the log says so.
const maxClients = 4096

func newClients(d *devices.Store, log *slog.Logger) *clients {
	return &clients{devices: d, log: log, known: map[client]browserhost.DeviceID{}}
}

// seen is told of every new connection of a device, while it is open.
func (c *clients) seen(local, remote netip.AddrPort, device browserhost.DeviceID) {
	pid, err := proc.OwnerOf(local, remote)
	if err != nil {
		c.log.Warn("the process behind a connection of a device is not known", "device", device, "error", err)
		return
	}
	c.remember(pid, device)
	// Our own bridge is only the agent's cable: the agent is who started it.
	if isBridge(pid) {
		if up, err := proc.Ancestors(pid); err == nil && len(up) > 0 {
			c.remember(up[0], device)
		}
	}
}

func (c *clients) remember(pid int, device browserhost.DeviceID) {
	began, err := proc.Began(pid)
	if err != nil || pid <= 1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxClients {
		for k := range c.known {
			if now, err := proc.Began(k.pid); err != nil || now != k.began {
				delete(c.known, k)
			}
		}
	}
	if len(c.known) >= maxClients {
		c.log.Error("too many processes speak as devices; one is not remembered", "device", device)
		return
	}
	c.known[client{pid, began}] = device
}

// of says which device the process or one of its ancestors has spoken as. A
// device that is gone is still one: it was an agent's.
func (c *clients) of(pid int) (browserhost.Device, bool) {
	line := []int{pid}
	up, err := proc.Ancestors(pid)
	if err == nil {
		line = append(line, up...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range line {
		began, err := proc.Began(p)
		if err != nil {
			continue
		}
		if id, ok := c.known[client{p, began}]; ok {
			if d, ok := c.devices.Find(string(id)); ok {
				return d, true
			}
			return browserhost.Device{ID: id}, true
		}
	}
	return browserhost.Device{}, false
}

// isBridge reports whether the process is `browserhost mcp`.
func isBridge(pid int) bool {
	name, args, err := proc.Command(pid)
	return err == nil && name == "browserhost" && len(args) > 1 && args[1] == "mcp"
}
