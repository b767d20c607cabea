package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"browserhost"
	"browserhost/consent/gate"
	"browserhost/host"
	"browserhost/host/guard"
	"browserhost/host/operator"
	"browserhost/host/policy"
	"browserhost/providers/proc"
)

// PortTaken says that the address to listen on is not free (K1). The host
// never takes another one by itself.
type PortTaken struct {
	Address string
	PID     int    // of the holder; 0 when it is not known
	Name    string // of the holder's program
}

func (p *PortTaken) Error() string {
	holder := "another program"
	if p.PID != 0 {
		holder = fmt.Sprintf("%s (process %d)", p.Name, p.PID)
	}
	return fmt.Sprintf("%s is taken by %s", p.Address, holder)
}

// listen opens the one port of the host.
func listen(at netip.AddrPort) (net.Listener, error) {
	l, err := net.Listen("tcp", at.String())
	if !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	taken := &PortTaken{Address: at.String()}
	if pid, err := proc.Listener(at); err == nil {
		taken.PID = pid
		if taken.Name, _, err = proc.Command(pid); err != nil {
			taken.Name = "a program"
		}
	}
	return nil, taken
}

// buildHost opens the port and joins the line (design: one call, one grant).
func (a *App) buildHost(context.Context) error {
	var err error
	if a.listener, err = listen(a.opts.Settings.Listen); err != nil {
		return err
	}
	a.clients = newClients(a.devices, a.log)
	a.host = host.New(host.Options{
		Guard: guard.Options{
			Hosts:  names(a.listener.Addr()),
			Verify: a.devices.Verify,
			Seen:   a.clients.seen,
			Log:    a.log,
		},
		Recorder:  a.recorder,
		Limiter:   policy.NewLimiter(policy.LimiterOptions{Scale: a.opts.Settings.RateScale, Starts: a.fleet.Starts}),
		Gate:      gate.New(gate.Options{Lender: a.lender, Requests: asking{a.requests}}).Link,
		Fleet:     a.fleet,
		Providers: func(ctx context.Context, actor browserhost.Actor) any { return a.fleet.Providers(ctx, actor) },
		Version:   a.opts.Version,
		Log:       a.log,
	})
	return nil
}

// names are the exact values that a Host header may have.
func names(at net.Addr) []string {
	port := strconv.Itoa(at.(*net.TCPAddr).Port)
	return []string{at.String(), net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("localhost", port), net.JoinHostPort("::1", port)}
}

// serve opens both doors and watches the ends of grants.
func (a *App) serve(context.Context) error {
	socket, err := operator.Listen(operator.Path(a.home))
	if err != nil {
		return fmt.Errorf("the owner's door could not be opened: %w", err)
	}
	a.run("the port", func(ctx context.Context) error { return a.host.Serve(ctx, a.listener) })
	a.run("the owner's door", func(ctx context.Context) error {
		return operator.Serve(ctx, socket, a.desk, operator.Options{
			ClientOf:    a.clients.of,
			HasTerminal: proc.HasTerminal,
			Closed:      a.opts.Settings.OperatorCLI == "off",
			Deny:        a.ledger.Deny,
			Log:         a.log,
		})
	})
	a.run("the clock of grants", a.watchExpiry)
	return nil
}

// run starts one of the host's own loops. If it ends by itself the host ends.
func (a *App) run(what string, loop func(context.Context) error) {
	a.tasks.Go(func() {
		if err := loop(a.life); err != nil && a.life.Err() == nil {
			a.log.Error("the host ends", "because", what, "error", err)
			a.finish(fmt.Errorf("%s: %w", what, err))
		}
	})
}

// finish asks whoever holds the app to close it; only the first reason counts.
func (a *App) finish(err error) {
	a.stop.Do(func() {
		a.fail = err
		close(a.done)
	})
}

// retry is when the end of a grant that could not be finished is tried again.
const retry = time.Minute

// watchExpiry ends grants when their time has come, as the system (design:
// grants end). It looks when the next one ends, and when a new one was made.
func (a *App) watchExpiry(ctx context.Context) error {
	for {
		next, err := a.lender.Expire(ctx)
		if err != nil && ctx.Err() == nil {
			a.log.Error("a grant that has ended could not be cleared away yet", "error", err)
			if now := time.Now(); !next.After(now) || next.After(now.Add(retry)) {
				next = now.Add(retry)
			}
		}
		var due <-chan time.Time // never, when no grant ends
		if !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.granted:
		case <-due:
		}
	}
}

// Desk is the owner's door in this process. It must not reach a network.
func (a *App) Desk() *operator.Desk { return a.desk }

// URL is where agents call, e.g. "http://127.0.0.1:8863".
func (a *App) URL() string { return "http://" + a.listener.Addr().String() }

// Home is the state directory.
func (a *App) Home() string { return a.home }

// Done is closed when the host should end: the owner asked for it, or a part
// failed. Then Err says which.
func (a *App) Done() <-chan struct{} { return a.done }

// Err is why the host ends by itself; nil when the owner asked. Read it after Done.
func (a *App) Err() error { return a.fail }

// Close ends everything in the order in which nothing is lost: the doors, the
// browsers, the records. It returns how many browser processes had to be swept
// up. The context bounds the polite part.
func (a *App) Close(ctx context.Context) (swept int, err error) {
	a.finish(nil)
	a.end()
	a.tasks.Wait()
	var problems []error
	note := func(err error) { problems = append(problems, err) }
	if a.listener != nil {
		if err := a.listener.Close(); !errors.Is(err, net.ErrClosed) {
			note(err)
		}
	}
	if a.fleet != nil {
		swept, err = a.fleet.Close(ctx)
		note(err)
	}
	if a.egress != nil {
		note(a.egress.Close())
	}
	if a.requests != nil {
		a.requests.Close()
	}
	if a.devices != nil {
		note(a.devices.Flush())
	}
	if a.recorder != nil {
		note(a.recorder.Close())
	}
	if a.rows != nil {
		note(a.rows.Close())
	}
	if a.consent != nil {
		note(a.consent.Close())
	}
	if a.lock != nil {
		note(a.lock.Close())
	}
	return swept, errors.Join(problems...)
}

func (a *App) path(name string) string { return filepath.Join(a.home, name) }
