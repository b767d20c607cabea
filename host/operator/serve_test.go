//go:build unix

package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"browserhost"
)

// The client says what the desk says, verb by verb, and acts as the owner
// through the command line.
func TestClientMirrorsDesk(t *testing.T) {
	h := newHouse()
	c, d, ctx := dial(t, open(t, h, atTerminal(h))), h.desk(), t.Context()
	type answer struct {
		value any
		err   error
	}
	both := func(v any, err error) answer { return answer{v, err} }
	grant := GrantSpec{Device: ada.ID, Domains: []string{"shop.test"}, Source: "chrome/Default", ExpiresAt: "2026-12-01T00:00:00Z"}
	allow := AllowSpec{RequestID: "r1", Domains: []string{"shop.test"}}
	pair := PairSpec{Name: "codex", Scopes: browserhost.AllScopes()}
	for name, pairOf := range map[string][2]func() answer{
		"Status":       {func() answer { return both(c.Status(ctx)) }, func() answer { return both(d.Status(ctx)) }},
		"Devices":      {func() answer { return both(c.Devices(ctx)) }, func() answer { return both(d.Devices(ctx)) }},
		"RevokeDevice": {func() answer { return both(c.RevokeDevice(ctx, ada.ID)) }, func() answer { return both(d.RevokeDevice(ctx, ada.ID)) }},
		"Grants":       {func() answer { return both(c.Grants(ctx)) }, func() answer { return both(d.Grants(ctx)) }},
		"Revoke":       {func() answer { return both(c.Revoke(ctx, "grant_1")) }, func() answer { return both(d.Revoke(ctx, "grant_1")) }},
		"Requests":     {func() answer { return both(c.Requests(ctx)) }, func() answer { return both(d.Requests(ctx)) }},
		"Deny":         {func() answer { return both(c.Deny(ctx, "r1")) }, func() answer { return both(d.Deny(ctx, "r1")) }},
		"Ledger":       {func() answer { return both(c.Ledger(ctx)) }, func() answer { return both(d.Ledger(ctx)) }},
		"Stop":         {func() answer { return answer{nil, c.Stop(ctx)} }, func() answer { return answer{nil, d.Stop(ctx)} }},
		"Sources":      {func() answer { return both(c.Sources(ctx)) }, func() answer { return both(d.Sources(ctx)) }},
		"Scan": {func() answer { return both(c.Scan(ctx, "chrome/Default", []string{"shop.test"})) },
			func() answer { return both(d.Scan(ctx, "chrome/Default", []string{"shop.test"})) }},
		"Grant": {func() answer { return both(c.Grant(ctx, grant, "shop.test")) }, func() answer { return both(d.Grant(ctx, grant)) }},
		"Allow": {func() answer { return both(c.Allow(ctx, allow, "shop.test")) }, func() answer { return both(d.Allow(ctx, allow)) }},
		"Pair":  {func() answer { return both(c.Pair(ctx, pair, "codex")) }, func() answer { return both(d.Pair(ctx, pair)) }},
	} {
		h.forget()
		got, want := pairOf[0](), pairOf[1]()
		if got.err != nil || want.err != nil || !reflect.DeepEqual(got.value, want.value) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if n := len(h.done); name != "Requests" && (n != 2 || h.done[0] != h.done[1]) {
			t.Errorf("%s: done %v", name, h.done)
		}
		if len(h.by) > 0 && (h.by[0].Kind != browserhost.Human || h.by[0].Via != "cli" || h.by[1].Via != "desk") {
			t.Errorf("%s: by %+v", name, h.by)
		}
	}
}

// What the house refuses reaches the client typed; what is not ours does not
// reach it at all (AIP-63 C9).
func TestErrors(t *testing.T) {
	h := newHouse()
	c := dial(t, open(t, h, atTerminal(h)))
	h.fail = browserhost.Errorf(browserhost.CodeKeyring, "no keychain").With("store", "keychain")
	_, err := c.Status(t.Context())
	if e, ok := errors.AsType[*browserhost.Error](err); !ok || e.Code != browserhost.CodeKeyring || e.Message != "no keychain" || e.Cause["store"] != "keychain" {
		t.Errorf("%v", err)
	}
	h.fail = errors.New("open /home/ada/secret: no such file")
	if _, err = c.Status(t.Context()); browserhost.CodeOf(err) != browserhost.CodeInternal || strings.Contains(err.Error(), "ada") {
		t.Errorf("%v", err)
	}
}

// A line that is not understood is an error that changes nothing, and the next
// line is read as if it had not been.
func TestBadLines(t *testing.T) {
	h := newHouse()
	l := raw(t, open(t, h, atTerminal(h)))
	for text, want := range map[string]browserhost.Code{
		"":                                   browserhost.CodeInputInvalid,
		"null":                               browserhost.CodeNotFound,
		"[]":                                 browserhost.CodeInputInvalid,
		`{"op":1}`:                           browserhost.CodeInputInvalid,
		`{"op":"stop"} {"op":"stop"}`:        browserhost.CodeInputInvalid,
		`{"op":"stop","op":"stop"}`:          browserhost.CodeInputInvalid,
		`{"op":"stop","force":true}`:         browserhost.CodeInputInvalid,
		`{"op":"revoke","id":5}`:             browserhost.CodeInputInvalid,
		`{"op":"revoke","id":"a","ID":"b"}`:  browserhost.CodeInputInvalid,
		`{"op":"revoke","id":"a","by":"me"}`: browserhost.CodeInputInvalid,
		`{"op":"Stop"}`:                      browserhost.CodeNotFound,
		`{"OP":"stop"}`:                      browserhost.CodeNotFound,
		`{"op":"browser.click"}`:             browserhost.CodeNotFound,
		`{"op":"pair","name":"codex","confirm":"codex","actor":{"kind":"human"}}`: browserhost.CodeInputInvalid, // AIP-63 C7
	} {
		got := l.ask(t, text+"\n")
		if got.OK || got.Error == nil || got.Error.Code != want || len(h.deeds()) > 0 {
			t.Errorf("%s: %+v, done %v", text, got.Error, h.deeds())
		}
	}
	if got := l.ask(t, `{"op":"status"}`+"\n"); !got.OK {
		t.Errorf("%+v", got.Error)
	}
}

// The longest line is taken, one byte more is an error that ends the
// connection; the end of what is sent ends a line too.
func TestLineBound(t *testing.T) {
	h := newHouse()
	path := open(t, h, atTerminal(h))
	long := func(n int) string {
		head := `{"op":"revoke","id":"`
		return head + strings.Repeat("x", n-len(head)-2) + `"}`
	}
	l := raw(t, path)
	if got := l.ask(t, long(maxLine)+"\n"); !got.OK {
		t.Errorf("%+v", got.Error)
	}
	if got := l.ask(t, long(maxLine+1)); got.OK || got.Error.Code != browserhost.CodeInputInvalid {
		t.Errorf("one byte more: %+v", got)
	}
	if n, err := l.replies.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the connection is still open: %v", err)
	}
	l = raw(t, path)
	if _, err := l.Write([]byte(`{"op":"status"}`)); err != nil {
		t.Fatal(err)
	}
	if err := l.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := l.reply(t); !got.OK {
		t.Errorf("%+v", got.Error)
	}
	if _, err := l.replies.ReadByte(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	c := dial(t, path)
	if _, err := c.Deny(t.Context(), strings.Repeat("x", maxLine)); browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
		t.Errorf("the client sends a line that is too long: %v", err)
	}
}

// Who holds all places makes the next one wait for nobody: it is told so.
func TestTooManyConnections(t *testing.T) {
	h := newHouse()
	path := open(t, h, atTerminal(h))
	var held []line
	for range maxOpen {
		l := raw(t, path)
		if got := l.ask(t, `{"op":"status"}`+"\n"); !got.OK {
			t.Fatalf("%+v", got.Error)
		}
		held = append(held, l)
	}
	if got := raw(t, path).reply(t); got.OK || got.Error.Code != browserhost.CodeBusy || !got.Error.Retryable {
		t.Errorf("one more: %+v", got)
	}
	if _, err := dial(t, path).Status(t.Context()); browserhost.CodeOf(err) != browserhost.CodeBusy {
		t.Errorf("the client: %v", err)
	}
	if got := held[0].ask(t, `{"op":"status"}`+"\n"); !got.OK {
		t.Errorf("who is inside: %+v", got.Error)
	}
}

// The reply to stop is written although the stop has already begun.
func TestReplyWhileTheHostEnds(t *testing.T) {
	h := newHouse()
	path := filepath.Join(private(t), "control.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	desk := NewDesk(ending{h, end}, h)
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, desk, Options{}) }()
	idle := raw(t, path) // waits for nothing, and must not hold up the end
	c := dial(t, path)
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := idle.replies.ReadByte(); err == nil {
		t.Error("an idle connection is still open")
	}
	if _, err := Dial(t.Context(), path); !errors.Is(err, ErrNoHost) {
		t.Errorf("after the end: %v", err)
	}
}

// ending is a house that ends while it is told to.
type ending struct {
	*house
	end func()
}

func (e ending) Stop(ctx context.Context, by browserhost.Actor) error {
	e.end()
	return nil
}

// A caller who gives up is let go at once.
func TestClientGivesUp(t *testing.T) {
	h := newHouse()
	block := make(chan struct{})
	opts := atTerminal(h)
	asked := make(chan struct{})
	opts.HasTerminal = func(int) bool { close(asked); <-block; return false }
	c := dial(t, open(t, h, opts))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no patience")
	go func() { <-asked; cancel(why) }()
	if _, err := c.Sources(ctx); !errors.Is(err, why) {
		t.Error(err)
	}
	close(block)
	past, cancelPast := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancelPast()
	if _, err := c.Status(past); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// End returns when the host's process is gone, and not when it has answered.
func TestEnd(t *testing.T) {
	path := filepath.Join(private(t), "control.sock")
	host := exec.CommandContext(t.Context(), os.Args[0])
	host.Env = append(os.Environ(), "OPERATOR_TEST_SERVE="+path)
	host.Stderr = os.Stderr
	hold, err := host.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it listens
		t.Fatal(err)
	}
	c := dial(t, path)
	ended := make(chan error, 1)
	go func() { ended <- c.End(t.Context()) }()
	if _, err := out.Read(make([]byte, 1)); err != nil { // it serves no more
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Errorf("the process still runs: %v", err)
	default:
	}
	hold.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := host.Wait(); err != nil {
		t.Error(err)
	}
	if err := c.End(t.Context()); !errors.Is(err, ErrNoHost) {
		t.Errorf("a second time: %v", err)
	}
}

// serveUntilStopped is a host in a process of its own, which lives on for a
// while after it has served.
func serveUntilStopped(path string) {
	l, err := Listen(path)
	if err != nil {
		panic(err)
	}
	ctx, end := context.WithCancel(context.Background())
	h := newHouse()
	fmt.Print("l")
	if err := Serve(ctx, l, NewDesk(ending{h, end}, h), Options{}); err != nil {
		panic(err)
	}
	fmt.Print("s")
	io.Copy(io.Discard, os.Stdin)
}

// Who does not want to wait for the end any longer does not.
func TestEndGivesUp(t *testing.T) {
	h := newHouse()
	c := dial(t, open(t, h, Options{})) // this process: it will not end
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.End(ctx) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
