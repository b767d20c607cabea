package host

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"browserhost"
	"browserhost/host/activity"
	"browserhost/host/fleet"
	"browserhost/host/guard"
	"browserhost/host/policy"
)

// At most so many connections are open at once; a closed one makes room, once.
func TestLimit(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limit(inner, 1).(*limited)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	first, err := l.Accept()
	if err != nil || len(l.slots) != 1 {
		t.Fatalf("%v, %d open", err, len(l.slots))
	}
	dial()
	second := make(chan net.Conn)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		second <- c
	}()
	first.Close()
	first.Close()
	c := <-second
	if len(l.slots) != 1 {
		t.Errorf("%d open", len(l.slots))
	}
	ended := make(chan error)
	go func() { _, err := l.Accept(); ended <- err }()
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
	c.Close()
}

type deaf struct{ began chan struct{} }

// ServeTool works until it is cancelled.
func (d deaf) ServeTool(ctx context.Context, _ *browserhost.Call) (*browserhost.Result, error) {
	close(d.began)
	<-ctx.Done()
	return nil, browserhost.Errorf(browserhost.CodeTimeout, "cut").State(browserhost.OutcomeUnknown)
}
func (deaf) Status(context.Context) []fleet.InstanceStatus { return nil }

type lines struct{ rows chan activity.Row }

func (l lines) Append(_ context.Context, row any) (int64, string, error) {
	l.rows <- row.(activity.Row)
	return 0, "", nil
}
func (lines) Durable(context.Context) error { return nil }

// A call that does not end in time is cancelled, and its row says how far it got.
func TestServeCutsCallsShort(t *testing.T) {
	const device = "0123456789abcdef0123456789abcdef"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rows := lines{make(chan activity.Row, 1)}
	recorder := activity.New(activity.Options{Rows: rows})
	defer recorder.Close()
	end := deaf{make(chan struct{})}
	told := make(chan netip.AddrPort, 1)
	h := New(Options{
		Guard: guard.Options{
			Hosts: []string{l.Addr().String()},
			Verify: func(string) (browserhost.Device, bool) {
				return browserhost.Device{ID: device, Role: "agent", Scopes: browserhost.AllScopes()}, true
			},
			Seen: func(local, _ netip.AddrPort, _ browserhost.DeviceID) { told <- local },
		},
		Recorder: recorder, Limiter: policy.NewLimiter(policy.LimiterOptions{}), Fleet: end,
		Gate: func(next browserhost.Handler) browserhost.Handler { return next },
	})
	h.grace = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- h.Serve(ctx, l) }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	go func() {
		req, _ := http.NewRequest("POST", "http://"+l.Addr().String()+"/v1/tools/browser_act", strings.NewReader(`{"action":"launch"}`))
		if resp, err := transport.RoundTrip(req); err == nil {
			resp.Body.Close()
		}
	}()
	<-end.began
	if local := <-told; local.String() != l.Addr().String() { // the guard knows the connection
		t.Errorf("%v", local)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if row := <-rows.rows; row.OK || row.Execution != browserhost.OutcomeUnknown {
		t.Errorf("%+v", row)
	}
}

// A port that is lost ends Serve with the reason.
func TestServeFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	recorder := activity.New(activity.Options{Rows: lines{make(chan activity.Row, 1)}})
	defer recorder.Close()
	h := New(Options{Recorder: recorder, Limiter: policy.NewLimiter(policy.LimiterOptions{}), Fleet: deaf{},
		Gate: func(next browserhost.Handler) browserhost.Handler { return next }})
	if err := h.Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}
