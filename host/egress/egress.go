// Package egress guards the ways out of the host. Every browser context gets
// a forward proxy of its own, a listener on a loopback port; the port says
// whose context it is, so there is no password (K10). The proxy looks names up
// itself, refuses every address that is not on the public internet, and dials
// exactly the address that it checked (S2.30). A page therefore reaches the
// web and neither this computer, nor the owner's network, nor the host's own
// services.
//
// It speaks CONNECT and plain http, to any public port and with any method
// (S2.31, control sessions). It has no switch that opens a private address (S2.35).
package egress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"browserhost"
)

// Bounds of a listener.
const (
	maxConns      = 256              // open connections from the browser; one more is closed at once
	maxHeader     = 64 << 10         // bytes of a request's headers
	maxAddresses  = 8                // of a name that are tried
	lookupTime    = 10 * time.Second // to look a name up
	connectTime   = 8 * time.Second  // to reach one address
	dialTime      = 25 * time.Second // to look up and reach a host
	headerTime    = 15 * time.Second // for the browser to send its headers
	answerTime    = 5 * time.Minute  // for a plain http site to begin its answer
	keepTime      = 90 * time.Second // an idle connection
	hostsAtOnce   = 512              // different hosts that one port reports in one minute
	maxIdleOnward = 16               // idle connections to plain http sites
)

// Network is the two halves around the check, which itself is never replaced.
// A nil half is the real one. Only the wiring of a demo or a test sets them.
type Network struct {
	// Resolve gives the addresses of a name.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Connect opens a TCP connection to an address that has passed the check.
	Connect func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// Resolve is the real half: the system's resolver.
func Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// Connect is the real half: a dialer that checks the address once more, just
// before connect(2), so that no way through the dialer avoids the check.
func Connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if rule, ok := checkHere(at.Addr()); !ok {
			return &refusal{rule}
		}
		return nil
	}}
	return d.DialContext(ctx, "tcp", to.String())
}

// Decision is one answer of a guard (S2.32). It names the host and never a
// path, a query or an address (S3.33).
type Decision struct {
	Device  browserhost.DeviceID
	Label   string // of the listener: "anonymous", "signed-in", "process"
	Host    string // as asked for, at most 253 bytes; "" when it was not a host
	Port    uint16
	Allowed bool
	Rule    string // why, one of the Rule constants
}

// Options make a [Guard]. The zero value is complete.
type Options struct {
	Network Network
	Log     *slog.Logger // nil: silent
	// Decisions is told of a decision, at most once a minute for each listener,
	// host, port and outcome. It is called from many goroutines and must return
	// soon. nil: nobody is told.
	Decisions func(Decision)
}

// Guard opens listeners. It implements [browserhost.Egress] and is safe for
// concurrent use.
type Guard struct {
	resolve func(context.Context, string) ([]netip.Addr, error)
	connect func(context.Context, netip.AddrPort) (net.Conn, error)
	log     *slog.Logger
	tell    func(Decision)

	mu     sync.Mutex
	ports  map[*port]struct{}
	closed bool
}

var _ browserhost.Egress = (*Guard)(nil)

// New makes a guard. It opens nothing yet.
func New(opts Options) *Guard {
	g := &Guard{
		resolve: opts.Network.Resolve,
		connect: opts.Network.Connect,
		log:     opts.Log,
		tell:    opts.Decisions,
		ports:   map[*port]struct{}{},
	}
	if g.resolve == nil {
		g.resolve = Resolve
	}
	if g.connect == nil {
		g.connect = Connect
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.tell == nil {
		g.tell = func(Decision) {}
	}
	return g
}

// Open starts a listener on a free loopback port. It serves until its Close or
// the guard's.
func (g *Guard) Open(rules browserhost.EgressRules) (browserhost.EgressPort, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("egress: no loopback port: %w", err)
	}
	p := newPort(g, rules, ln)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		ln.Close()
		return nil, errors.New("egress: closed")
	}
	g.ports[p] = struct{}{}
	p.start()
	return p, nil
}

// Close closes every listener and cuts every connection through them; it
// returns when all is over. Open fails from then on.
func (g *Guard) Close() error {
	g.mu.Lock()
	g.closed = true
	ports := make([]*port, 0, len(g.ports))
	for p := range g.ports {
		ports = append(ports, p)
	}
	g.mu.Unlock()
	for _, p := range ports {
		p.Close()
	}
	return nil
}

func (g *Guard) forget(p *port) {
	g.mu.Lock()
	delete(g.ports, p)
	g.mu.Unlock()
}

// refusal is an error of the guard's own making: a rule said no.
type refusal struct{ rule string }

func (r *refusal) Error() string { return "egress: refused: " + r.rule }

// dial looks d up, checks every address of it and connects to the first that
// answers. A name with one refused address among its addresses is refused
// whole: nobody publishes such a name by accident.
func (g *Guard) dial(ctx context.Context, d destination) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	addrs, err := g.lookup(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if rule, ok := checkHere(a); !ok {
			return nil, &refusal{rule}
		}
	}
	var failed error
	for _, a := range addrs[:min(len(addrs), maxAddresses)] {
		one, cancel := context.WithTimeout(ctx, connectTime)
		c, err := g.connect(one, netip.AddrPortFrom(a, d.port))
		cancel()
		if err == nil {
			return c, nil
		}
		failed = err
	}
	return nil, failed
}

func (g *Guard) lookup(ctx context.Context, d destination) ([]netip.Addr, error) {
	if d.addr.IsValid() {
		return []netip.Addr{d.addr}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	addrs, err := g.resolve(ctx, d.host)
	if err != nil || len(addrs) == 0 {
		return nil, errors.Join(&refusal{RuleUnresolved}, err)
	}
	for i, a := range addrs {
		addrs[i] = a.Unmap() // the system's resolver may give IPv4 in its mapped form
	}
	return addrs, nil
}
