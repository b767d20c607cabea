package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"browserhost"
)

// A tunnel carries bytes both ways, those sent before the answer too, and
// passes on that one side has finished.
func TestTunnel(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		all, _ := io.ReadAll(c) // ends only when the browser's end is passed on
		c.Write(bytes.ToUpper(all))
	}()
	n, p, told, _ := opened(t, http.NotFoundHandler(), browserhost.EgressRules{})
	n.site = ln.Addr().String()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "CONNECT shop.test:8443 HTTP/1.1\r\nHost: shop.test:8443\r\n\r\nearly ")
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	io.WriteString(c, "and late")
	c.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(r)
	if err != nil || string(got) != "EARLY AND LATE" {
		t.Fatalf("%q %v", got, err)
	}
	if v := told.last(t); !v.Allowed || v.Port != 8443 || v.Host != "shop.test" { // S2.31: any public port
		t.Fatalf("%+v", v)
	}
}

// silent accepts connections, says so, and never answers.
func silent(t *testing.T) (addr string, accepted chan net.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = make(chan net.Conn, maxConns+1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
		for len(accepted) > 0 {
			(<-accepted).Close()
		}
	})
	return ln.Addr().String(), accepted
}

// Closing a port cuts its live tunnels, ends its goroutines and leaves the
// other ports of the guard alone.
func TestCloseCutsTunnels(t *testing.T) {
	n, p, _, _ := opened(t, http.HandlerFunc(hello), browserhost.EgressRules{})
	addr, accepted := silent(t)
	n.site = addr
	c, _, status := connect(t, p, "shop.test:443")
	if status != 200 {
		t.Fatal(status)
	}
	site := <-accepted
	defer site.Close()
	other, err := p.(*port).guard.Open(browserhost.EgressRules{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, end := range []net.Conn{c, site} {
		end.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := end.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("an end of the tunnel still lives: %v", err)
		}
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://")); err == nil {
		t.Error("the port still listens")
	}
	if err := p.Close(); err != nil {
		t.Error("closing again:", err)
	}
	if _, _, status := connect(t, other, "127.0.0.1:80"); status != 403 {
		t.Errorf("the other port answers %d", status)
	}
}

// Closing the guard also ends a dial that nobody answers, and nothing opens later.
func TestGuardClose(t *testing.T) {
	started := make(chan struct{})
	g := New(Options{Network: Network{
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{public}, nil },
		Connect: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			close(started)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}})
	p, err := g.Open(browserhost.EgressRules{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test\r\n\r\n")
	<-started
	g.Close()
	if _, err := g.Open(browserhost.EgressRules{}); err == nil {
		t.Error("a closed guard opened a port")
	}
}

// taken counts the connections that tunnels hold.
func taken(p browserhost.EgressPort) (n int) {
	pt := p.(*port)
	pt.mu.Lock()
	defer pt.mu.Unlock()
	for _, tunnel := range pt.conns {
		if tunnel {
			n++
		}
	}
	return n
}

// One connection more than allowed is closed at once.
func TestConnectionsAreBounded(t *testing.T) {
	n, p, _, _ := opened(t, http.HandlerFunc(hello), browserhost.EgressRules{})
	addr, _ := silent(t)
	n.site = addr
	for range maxConns {
		if _, _, status := connect(t, p, "shop.test:443"); status != 200 {
			t.Fatal(status)
		}
	}
	if n := taken(p); n != maxConns {
		t.Fatalf("%d tunnels counted, want %d", n, maxConns)
	}
	over, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	over.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := over.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection over the limit was kept: %v", err)
	}
}

// A tunnel that has ended takes no place any more, nor does a plain
// connection that a site took over unasked.
func TestEndedConnectionsAreCountedOut(t *testing.T) {
	_, p, _, _ := opened(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			c.Close()
		}
	}), browserhost.EgressRules{})
	res, err := client(t, p).Get("http://shop.test/")
	if err == nil {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	c, r, status := connect(t, p, "shop.test:443")
	if status != 200 {
		t.Fatal(status)
	}
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
	io.Copy(io.Discard, r)
	c.Close()
	p.Close()
	if n := taken(p); n != 0 {
		t.Fatalf("%d connections are still counted", n)
	}
}
