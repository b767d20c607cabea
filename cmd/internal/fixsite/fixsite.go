// Package fixsite is the small web that the demo and the tests browse: real
// http and https servers on loopback that answer as shop.test, bank.test and a
// few neighbours. shop.test has a form to sign in, a private page that greets
// by name, and a cart that counts. The package also keeps score: who connected
// to which host, what was asked for, and which buttons were pressed, so that a
// test can tell what really happened.
//
// The site's names exist only where [Site.Network] or [Site.ResolverRules] is
// put in; its key is made at the start, is trusted only by a browser that is
// told its [Site.SPKI], and protects nothing.
package fixsite

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Who may sign in. The password is [Site.Password].
const (
	User     = "ada"
	Greeting = "Hello, Ada"
)

// hosts are the names of the site and the addresses they stand for: public
// ones, so that no check of addresses needs an exception. The last two are
// what a hostile name server would answer.
var hosts = map[string][]netip.Addr{
	"shop.test":           {netip.MustParseAddr("93.184.216.34")},
	"bank.test":           {netip.MustParseAddr("93.184.216.35")},
	"notshop.test":        {netip.MustParseAddr("93.184.216.36")},
	"shop.test.evil.test": {netip.MustParseAddr("93.184.216.37")},
	"app.shop.test":       {netip.MustParseAddr("93.184.216.38")},
	"loopback.test":       {netip.MustParseAddr("127.0.0.1")},
	"mixed.test":          {netip.MustParseAddr("93.184.216.39"), netip.MustParseAddr("10.0.0.1")},
}

// keptRequests is how many requests [Site.Requests] remembers.
const keptRequests = 1024

// Request is one request that a site served. Path has no query.
type Request struct {
	Host, Method, Path string
	SignedIn           bool // it bore the session cookie of its host
}

// Site is the running site. It is safe for concurrent use.
type Site struct {
	password string
	spki     string
	plain    net.Listener // port 80
	secure   net.Listener // port 443
	servers  [2]*http.Server
	serving  sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]string // host → the session cookie that signs in there
	pressed  map[string]int
	dialled  map[string]int
	accepted map[string]int
	requests []Request
}

// Start listens on two free loopback ports and serves until Close.
func Start() (*Site, error) {
	cert, spki, err := newCertificate(slices.Sorted(maps.Keys(hosts)))
	if err != nil {
		return nil, err
	}
	s := &Site{
		password: "canary-password-" + rand.Text(),
		spki:     spki,
		sessions: map[string]string{},
		pressed:  map[string]int{},
		dialled:  map[string]int{},
		accepted: map[string]int{},
	}
	for host := range hosts {
		s.sessions[host] = "canary-session-" + rand.Text()
	}
	if s.plain, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if s.secure, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		s.plain.Close()
		return nil, err
	}
	silent := log.New(io.Discard, "", 0)
	s.servers[0] = &http.Server{Handler: http.HandlerFunc(s.servePlain), ErrorLog: silent, ReadHeaderTimeout: time.Minute, ConnContext: withFirst}
	s.servers[1] = &http.Server{
		Handler:           s.routes(),
		ErrorLog:          silent,
		ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{cert},
			VerifyConnection: func(c tls.ConnectionState) error {
				s.count(s.accepted, c.ServerName)
				return nil
			},
		},
	}
	s.serving.Go(func() { s.servers[0].Serve(s.plain) })
	s.serving.Go(func() { s.servers[1].ServeTLS(s.secure, "", "") })
	return s, nil
}

// Close stops both servers and cuts their connections.
func (s *Site) Close() error {
	err := errors.Join(s.servers[0].Close(), s.servers[1].Close())
	s.serving.Wait()
	return err
}

// SPKI is the base64 SHA-256 of the public key, as Chromium's
// --ignore-certificate-errors-spki-list takes it.
func (s *Site) SPKI() string { return s.spki }

// Password signs [User] in, on every host.
func (s *Site) Password() string { return s.password }

// Session is the value of the session cookie at https://shop.test. It is made
// at the start and occurs nowhere else, so finding it tells of a leak.
func (s *Site) Session() string { return s.sessions["shop.test"] }

// Cart counts what signed-in visitors put into their cart.
func (s *Site) Cart() int { return s.Pressed("cart") }

// Pressed counts the presses of a button: cart, edit, delete, pay, save, under.
func (s *Site) Pressed(button string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pressed[button]
}

// Connections counts the connections to a host: those that its servers
// accepted and those that came by way of [Site.Network]. More accepted than
// dialled means that something went around.
func (s *Site) Connections(host string) (accepted, dialled int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted[host], s.dialled[host]
}

// Requests returns the last 1,024 requests, oldest first.
func (s *Site) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Resolver looks a name up.
type Resolver = func(ctx context.Context, host string) ([]netip.Addr, error)

// Connector opens a TCP connection.
type Connector = func(ctx context.Context, to netip.AddrPort) (net.Conn, error)

// Network puts the site's names into the world: it answers for them and their
// ports 80 and 443, and passes everything else on. Without a next half,
// everything else fails.
func (s *Site) Network(nextResolve Resolver, nextConnect Connector) (Resolver, Connector) {
	resolve := func(ctx context.Context, host string) ([]netip.Addr, error) {
		if addrs, ok := hosts[strings.TrimSuffix(host, ".")]; ok {
			return slices.Clone(addrs), nil
		}
		if nextResolve != nil {
			return nextResolve(ctx, host)
		}
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	connect := func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		ln := map[uint16]net.Listener{80: s.plain, 443: s.secure}[to.Port()]
		if host := hostAt(to.Addr()); host != "" && ln != nil {
			s.count(s.dialled, host)
			return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
		}
		if nextConnect != nil {
			return nextConnect(ctx, to)
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: errors.New("no route in this test")}
	}
	return resolve, connect
}

// ResolverRules are the value of Chromium's --host-resolver-rules for a
// browser that reaches the site without a proxy, and nothing else.
func (s *Site) ResolverRules() string {
	var b strings.Builder
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		fmt.Fprintf(&b, "MAP %s:80 %s, MAP %s:443 %s, ", host, s.plain.Addr(), host, s.secure.Addr())
	}
	return b.String() + "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
}

// hostAt returns the host whose own public address a is.
func hostAt(a netip.Addr) string {
	for host, addrs := range hosts {
		if len(addrs) == 1 && addrs[0] == a && !a.IsLoopback() {
			return host
		}
	}
	return ""
}

func (s *Site) count(what map[string]int, name string) {
	s.mu.Lock()
	what[name]++
	s.mu.Unlock()
}
