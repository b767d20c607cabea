// Package guard is the outer wall of the host: every route and every upgrade
// passes it. It answers four questions in this order: does the request mean
// this host (Host), does it come from a program and not from a web page
// (Origin, Sec-Fetch-Site, Referer), who sends it (the bearer of a paired
// device), and is it small enough. What passes carries a [browserhost.Actor];
// what does not is answered here, with a fixed body that says nothing about
// what exists.
//
// A page can make a browser send requests to this computer, and with a name
// that it rebinds it can even make Host and Origin agree. Therefore Host is
// compared with a list of exact values, whatever the address that the
// connection came from (S1.59).
package guard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"browserhost"
)

// bodyTime is how long a device may take to send one body.
const bodyTime = 30 * time.Second

// Options complete a [Guard].
type Options struct {
	// Hosts are the exact values that Host may have, port included:
	// "127.0.0.1:8863", "localhost:8863", "[::1]:8863".
	Hosts []string
	// Verify recognises a bearer.
	Verify func(bearer string) (browserhost.Device, bool)
	// Seen is told, before the first authenticated request of a connection is
	// served, which device is at its other end. It is called in that request's
	// goroutine, while the peer still holds the connection. Nil tells nobody.
	Seen func(local, remote netip.AddrPort, device browserhost.DeviceID)
	// Log takes one line per refusal. Nil logs nothing.
	Log *slog.Logger
}

// Guard checks requests. It is safe for concurrent use.
type Guard struct{ opts Options }

// New returns a guard.
func New(opts Options) *Guard {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Guard{opts: opts}
}

// Open wraps a route that needs no credential; every other check is made.
func (g *Guard) Open(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := g.foreign(r); why != "" {
			g.refuse(w, r, http.StatusForbidden, why)
			return
		}
		g.serveBody(w, r, next)
	})
}

// Device wraps a route for paired agents. Door names it in the actor's Via:
// "mcp" or "http".
func (g *Guard) Device(door string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := g.foreign(r); why != "" {
			g.refuse(w, r, http.StatusForbidden, why)
			return
		}
		device, ok := g.opts.Verify(bearer(r))
		if !ok || device.Role != "agent" {
			g.refuse(w, r, http.StatusUnauthorized, "no paired device")
			return
		}
		g.tell(r, device.ID)
		ctx := browserhost.WithActor(r.Context(), browserhost.Actor{
			Kind: browserhost.Agent, Device: device.ID, Name: device.Name, Via: door, Scopes: device.Scopes,
		})
		g.serveBody(w, r.WithContext(ctx), next)
	})
}

// foreign says why a request does not come from a program that means this
// host, "" when it does. The reason is for the log.
func (g *Guard) foreign(r *http.Request) string {
	own := "http://" + r.Host
	switch {
	case !slices.Contains(g.opts.Hosts, r.Host):
		return "foreign host"
	case !only(r.Header["Origin"], own):
		return "foreign origin"
	case !only(r.Header["Sec-Fetch-Site"], "none", "same-origin"):
		return "sent by another site's page"
	case len(r.Header["Referer"]) > 1 || r.Referer() != "" && !strings.HasPrefix(r.Referer(), own+"/"):
		return "foreign referer"
	}
	return ""
}

// only reports whether a header is absent or has one of the allowed values, once.
func only(values []string, allowed ...string) bool {
	return len(values) == 0 || len(values) == 1 && slices.Contains(allowed, values[0])
}

// bearer returns the credential of a request, "" when there is not exactly one.
func bearer(r *http.Request) string {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || strings.ContainsAny(token, " \t") {
		return ""
	}
	return token
}

// serveBody reads the body, within its bound, before the route sees the
// request: a body that is too large is refused the same way on every route.
func (g *Guard) serveBody(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if r.ContentLength > browserhost.MaxHTTPBody {
		g.refuse(w, r, http.StatusRequestEntityTooLarge, "large body")
		return
	}
	if r.Body == nil || r.Body == http.NoBody {
		next.ServeHTTP(w, r)
		return
	}
	control := http.NewResponseController(w)
	// A writer without deadlines, as in a test's recorder, has no slow peer either.
	_ = control.SetReadDeadline(time.Now().Add(bodyTime))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, browserhost.MaxHTTPBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		g.refuse(w, r, http.StatusRequestEntityTooLarge, "large body")
		return
	}
	if err != nil {
		return // the peer is gone or too slow: there is nobody to answer
	}
	_ = control.SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(body))
	next.ServeHTTP(w, r)
}

type connKey struct{}

// conn remembers which device a connection belongs to.
type conn struct {
	mu     sync.Mutex
	device browserhost.DeviceID
}

// ConnContext lets the guard tell connections apart; it is for
// [http.Server.ConnContext].
func (g *Guard) ConnContext(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, new(conn))
}

// tell calls Seen once per connection and device.
func (g *Guard) tell(r *http.Request, device browserhost.DeviceID) {
	if g.opts.Seen == nil {
		return
	}
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.device == device {
			return
		}
		c.device = device
	}
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return // not a network peer
	}
	var local netip.AddrPort
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		local = unmapped(addr.AddrPort())
	}
	g.opts.Seen(local, unmapped(remote), device)
}

// unmapped writes an IPv4 address that came as IPv6 the short way.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
