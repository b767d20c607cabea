package egress

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"

	"browserhost"
)

// BenchmarkTunnel compares a megabyte through the guard with one over a plain
// connection to the same site.
func BenchmarkTunnel(b *testing.B) {
	const size = 1 << 20
	page := bytes.Repeat([]byte("x"), size)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				one := make([]byte, 1)
				for {
					if _, err := c.Read(one); err != nil {
						return
					}
					if _, err := c.Write(page); err != nil {
						return
					}
				}
			}()
		}
	}()
	defer ln.Close()
	fetch := func(b *testing.B, c net.Conn, r io.Reader) {
		buf := make([]byte, size)
		b.SetBytes(size)
		for b.Loop() {
			if _, err := c.Write([]byte("g")); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(r, buf); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("direct", func(b *testing.B) {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		fetch(b, c, c)
	})
	b.Run("guarded", func(b *testing.B) {
		n, p, _, _ := opened(b, http.NotFoundHandler(), browserhost.EgressRules{})
		n.site = ln.Addr().String()
		c, r, status := connect(b, p, "shop.test:443")
		if status != 200 {
			b.Fatal(status)
		}
		fetch(b, c, r)
	})
}
