package host

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	headerTime = 10 * time.Second // for the head of a request
	idleTime   = 2 * time.Minute  // between two requests of a connection
	headerSize = 64 << 10         // bytes of the head of a request
	graceTime  = 5 * time.Second  // for the calls at work when the host ends
	maxConns   = 512              // connections at once; more wait to be accepted
)

// Serve serves l until ctx ends and returns nil then. Calls at work may finish
// within graceTime; then they are cancelled, and how far each got is in its
// row. It closes l. Call it once.
func (h *Host) Serve(ctx context.Context, l net.Listener) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerSize,
		ErrorLog:          slog.NewLogLogger(h.opts.Log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return life },
		ConnContext:       h.guard.ConnContext,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(limit(l, maxConns)) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	h.stop(context.WithoutCancel(ctx), server, end)
	if err == nil {
		<-failed // http.ErrServerClosed
	}
	return err
}

// stop ends the requests: politely, then by cancelling them, then by closing
// their connections.
func (h *Host) stop(ctx context.Context, server *http.Server, end context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, h.grace)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() {
		if err := h.mcp.Close(ctx); err != nil {
			h.opts.Log.Warn("the host ends before its calls", "error", err)
		}
	})
	both.Go(func() {
		if err := server.Shutdown(ctx); err == nil {
			return
		}
		end()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.grace)
		defer cancel()
		if err := server.Shutdown(last); err != nil {
			h.opts.Log.Warn("connections were cut", "error", errors.Join(err, server.Close()))
		}
	})
	both.Wait()
}

// limit lets at most n connections of l be open at once.
func limit(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept waits for a free slot and then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &counted{Conn: c, done: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// counted gives its slot back when it is closed.
type counted struct {
	net.Conn
	done func()
}

func (c *counted) Close() error {
	defer c.done()
	return c.Conn.Close()
}
