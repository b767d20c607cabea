package egress

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"browserhost"
)

// The answers of the proxy itself. They are fixed, because an error of the
// dialer would tell a page what its name resolves to.
const (
	sayRefused     = "Blocked: this address is not on the public internet.\n"
	sayUnreachable = "The site could not be reached.\n"
	sayForm        = "Not a request for a proxy.\n"
)

// port is one listener: an http server that forwards.
type port struct {
	guard  *Guard
	rules  browserhost.EgressRules
	ln     net.Listener
	server *http.Server
	onward *http.Transport
	plain  *httputil.ReverseProxy
	report reporter

	ctx    context.Context // of everything that runs here
	cancel context.CancelFunc

	mu     sync.Mutex
	conns  map[net.Conn]bool // from the browser; true: taken over by a tunnel, which ends it
	closed bool
	work   sync.WaitGroup // the accept loop and the requests being served
}

func newPort(g *Guard, rules browserhost.EgressRules, ln net.Listener) *port {
	p := &port{guard: g, rules: rules, ln: ln, conns: map[net.Conn]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	silent := log.New(io.Discard, "", 0)
	p.onward = &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			d, err := parseDestination(address, 0)
			if err != nil {
				return nil, err
			}
			return p.dial(ctx, d)
		},
		DisableCompression:     true,
		IdleConnTimeout:        keepTime,
		MaxIdleConns:           maxIdleOnward,
		MaxResponseHeaderBytes: 256 << 10,
		ResponseHeaderTimeout:  answerTime,
	}
	p.plain = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.RawQuery = r.In.URL.RawQuery // as sent, even where it does not parse
		},
		Transport:     p.onward,
		FlushInterval: -1, // server-sent events arrive as they are sent
		ErrorLog:      silent,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { refuse(w, err) },
	}
	p.server = &http.Server{
		Handler:                      http.HandlerFunc(p.serve),
		ReadHeaderTimeout:            headerTime,
		IdleTimeout:                  keepTime,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     silent,
		BaseContext:                  func(net.Listener) context.Context { return p.ctx },
		ConnContext:                  func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState:                    p.track,
	}
	return p
}

func (p *port) start() {
	p.work.Go(func() { p.server.Serve(p.ln) })
}

// URL implements [browserhost.EgressPort].
func (p *port) URL() string { return "http://" + p.ln.Addr().String() }

// Close stops listening, cuts every live tunnel and returns when no goroutine
// of the port is left serving. Closing again does nothing.
func (p *port) Close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	if first {
		p.cancel()
		p.ln.Close()
		p.server.Close()
		p.guard.forget(p)
	}
	p.work.Wait()
	p.onward.CloseIdleConnections()
	return nil
}

// track counts the browser's connections and closes the one too many. The
// connections are not wrapped, so that a tunnel may be spliced by the kernel.
func (p *port) track(c net.Conn, s http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s {
	case http.StateNew:
		if p.closed || len(p.conns) >= maxConns {
			c.Close()
			return
		}
		p.conns[c] = false
	case http.StateHijacked:
		p.conns[c] = true
	case http.StateClosed:
		delete(p.conns, c)
	}
}

// enter counts a request in, unless the port is closing.
func (p *port) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.work.Add(1)
	return true
}

// leave counts a request out, and with it the connection that it took over.
func (p *port) leave(c net.Conn) {
	p.mu.Lock()
	if p.conns[c] {
		delete(p.conns, c)
	}
	p.mu.Unlock()
	p.work.Done()
}

// connKey finds the browser's connection in the context of a request.
type connKey struct{}

func (p *port) serve(w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		return
	}
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	defer p.leave(c)
	if r.Method == http.MethodConnect {
		p.serveTunnel(w, r)
		return
	}
	// Only the absolute form is a proxy's business; r.URL.Host is then also
	// what the Host header becomes, whatever the browser wrote there.
	d, err := parseDestination(r.URL.Host, 80)
	if r.URL.Scheme != "http" || r.URL.User != nil || err != nil {
		p.decide(destination{}, false, RuleForm)
		answer(w, http.StatusBadRequest, sayForm)
		return
	}
	if p.rules.Nothing {
		p.decide(d, false, RuleNothing)
		answer(w, http.StatusForbidden, sayRefused)
		return
	}
	p.plain.ServeHTTP(w, r)
}

// dial decides about d, tells the decision and connects.
func (p *port) dial(ctx context.Context, d destination) (net.Conn, error) {
	if p.rules.Nothing {
		p.decide(d, false, RuleNothing)
		return nil, &refusal{RuleNothing}
	}
	c, err := p.guard.dial(ctx, d)
	if no, ok := errors.AsType[*refusal](err); ok {
		p.decide(d, false, no.rule)
		return nil, err
	}
	p.decide(d, true, RulePublic) // whether the site answers is not the guard's to say
	return c, err
}

func (p *port) decide(d destination, allowed bool, rule string) {
	v := Decision{Device: p.rules.Device, Label: p.rules.Label, Host: d.host, Port: d.port, Allowed: allowed, Rule: rule}
	if !p.report.first(v, time.Now()) {
		return
	}
	p.guard.log.Info("egress", "device", v.Device, "label", v.Label, "host", v.Host, "port", v.Port, "allowed", v.Allowed, "rule", v.Rule)
	p.guard.tell(v)
}

// serveTunnel connects to the host of a CONNECT request and copies bytes both
// ways until both ends are done, or the port is closed.
func (p *port) serveTunnel(w http.ResponseWriter, r *http.Request) {
	d, err := parseDestination(r.RequestURI, 0)
	if err != nil {
		p.decide(destination{}, false, RuleForm)
		answer(w, http.StatusBadRequest, sayForm)
		return
	}
	site, err := p.dial(r.Context(), d)
	if err != nil {
		refuse(w, err)
		return
	}
	defer site.Close()
	browser, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		answer(w, http.StatusInternalServerError, sayForm)
		return
	}
	defer browser.Close()
	stop := context.AfterFunc(p.ctx, func() { site.Close(); browser.Close() })
	defer stop()
	browser.SetDeadline(time.Time{})
	if _, err := io.WriteString(browser, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	if n := buffered.Reader.Buffered(); n > 0 { // sent before our answer
		early, _ := buffered.Reader.Peek(n)
		if _, err := site.Write(early); err != nil {
			return
		}
	}
	var back sync.WaitGroup
	back.Go(func() { pour(browser, site) })
	pour(site, browser)
	back.Wait()
}

// pour copies until src ends and passes the end on, so that half-closed
// connections work; a broken copy breaks both ends.
func pour(dst, src net.Conn) {
	_, err := io.Copy(dst, src)
	if half, ok := dst.(interface{ CloseWrite() error }); ok && err == nil {
		half.CloseWrite()
		return
	}
	dst.Close()
	src.Close()
}

// refuse answers for a connection that did not come about.
func refuse(w http.ResponseWriter, err error) {
	if no, ok := errors.AsType[*refusal](err); ok && no.rule != RuleUnresolved {
		answer(w, http.StatusForbidden, sayRefused)
		return
	}
	answer(w, http.StatusBadGateway, sayUnreachable)
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	io.WriteString(w, text)
}
