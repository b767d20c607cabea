package cdp

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"browserhost"
)

// connect dials a peer that serves a table in the background.
func connect(t *testing.T, table map[string]func(order) string) (*Conn, *peer) {
	t.Helper()
	far, near := newPeer(t)
	c := Dial(near)
	served := make(chan struct{})
	go func() { defer close(served); far.serve(table) }()
	t.Cleanup(func() { c.Close(); <-served })
	return c, far
}

func fetch(ctx context.Context, c *Conn, method string) (string, error) {
	v, err := session{conn: c}.raw(ctx, command{method, none})
	return string(v), err
}

// Commands reach the browser in the order in which they were made, without one
// waiting for another, and answers find their calls in any order.
func TestPipelining(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		far, near := newPeer(t)
		c := Dial(near)
		defer c.Close()
		var calls []*call
		for i := range 100 {
			p, err := c.start("S", fmt.Sprintf("M%d", i), none)
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, p)
		}
		var heard []order
		for i := range calls {
			o, ok := far.hear()
			if !ok || o.Method != fmt.Sprintf("M%d", i) || o.SessionID != "S" || string(o.Params) != "{}" {
				t.Fatalf("%+v", o)
			}
			heard = append(heard, o)
		}
		for _, o := range slices.Backward(heard) {
			far.answer(o, `{"of":"`+o.Method+`","never":["seen"]}`)
		}
		for i, p := range calls {
			v, sent, err := c.await(t.Context(), p)
			if want := fmt.Sprintf(`{"of":"M%d","never":["seen"]}`, i); string(v) != want || !sent || err != nil {
				t.Errorf("%s, %v, %v", v, sent, err)
			}
		}
	})
}

// A frame over the bound fails the call that it answers and no other.
func TestOversizeAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		far, near := newPeer(t)
		c := dial(near, 1024)
		defer c.Close()
		go far.serve(map[string]func(order) string{
			"Big":   func(order) string { return `"` + strings.Repeat("x", 4096) + `"` },
			"Small": func(order) string { return `{}` },
		})
		big, err1 := c.start("", "Big", none)
		small, err2 := c.start("", "Small", none)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.await(t.Context(), big); !errors.Is(err, errOversize) {
			t.Errorf("%v", err)
		}
		if browserhost.CodeOf(shown(errOversize, "")) != browserhost.CodeUpstream {
			t.Error("it has no code of its own")
		}
		if v, _, err := c.await(t.Context(), small); string(v) != "{}" || err != nil {
			t.Errorf("%s, %v", v, err)
		}
	})
}

// What a browser says beyond what we know is no reason to stop listening.
func TestUnknownMessages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		far, near := newPeer(t)
		c := Dial(near)
		defer c.Close()
		var got []string
		c.route("S", func(method string, params jsontext.Value) { got = append(got, method+string(params)) })
		for _, frame := range []string{
			`not json`, ``, `[]`, `{}`, `{"method":7}`, `{"id":99,"result":{}}`, `{"id":-1}`,
			`{"method":"New.event","sessionId":"other","params":{}}`,
			`{"method":"Page.thing","sessionId":"S","params":{"a":1,"a":2,"x":"` + "\xff" + `"},"extra":true}`,
		} {
			far.say(frame)
		}
		o := make(chan order)
		go func() { x, _ := far.hear(); o <- x }()
		p, err := c.start("", "Still.here", none)
		if err != nil {
			t.Fatal(err)
		}
		far.answer(<-o, `{}`)
		if _, _, err := c.await(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || !strings.HasPrefix(got[0], "Page.thing{") {
			t.Errorf("%q", got)
		}
		c.route("S", nil)
	})
}

// A caller that leaves takes its command along when it is not out yet, and
// knows it; an answer that comes late goes nowhere (S3.29).
func TestLeaving(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		far, near := newPeer(t)
		c := Dial(near)
		defer c.Close()
		first, err := c.start("", "First", none) // the peer reads nothing: the writer is held up with it
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		second, err := c.start("", "Second", none)
		if err != nil {
			t.Fatal(err)
		}
		third, err := c.start("", "Third", none)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, sent, err := c.await(ctx, second); sent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that waits to be written: %v, %v", sent, err)
		}
		if _, sent, err := c.await(ctx, first); !sent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that is being written: %v, %v", sent, err)
		}
		o, _ := far.hear()
		far.answer(o, `{}`) // late
		if o, _ = far.hear(); o.Method != "Third" {
			t.Errorf("the browser heard %s", o.Method)
		}
		far.answer(o, `{}`)
		if _, _, err := c.await(t.Context(), third); err != nil {
			t.Error(err)
		}
	})
}

// The loss of the connection fails every call, those that wait to be written
// too, as one and the same thing, and every later one.
func TestLoss(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		far, near := newPeer(t)
		c := Dial(near)
		p, err := c.start("", "Waits", none)
		if err != nil {
			t.Fatal(err)
		}
		far.hear()
		if c.Err() != nil {
			t.Error(c.Err())
		}
		far.conn.Close()
		if _, _, err := c.await(t.Context(), p); !errors.Is(err, errLost) {
			t.Errorf("%v", err)
		}
		<-c.Lost()
		_, err = c.start("", "Later", none)
		e := browserhost.AsError(shown(err, browserhost.NotStarted))
		if e.Code != browserhost.CodeTargetGone || e.Execution != browserhost.NotStarted || e.Message != "the browser is gone" {
			t.Errorf("%v", e)
		}
		if c.Err() == nil {
			t.Error("nothing is wrong")
		}
		c.Close()
		c.Close()
	})
}

// A browser that stops reading gets no endless queue.
func TestBacklog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, near := newPeer(t)
		c := Dial(near)
		defer c.Close()
		for range maxPending {
			if _, err := c.start("", "More", none); err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.start("", "Over", none)
		if e := browserhost.AsError(shown(err, "")); e.Code != browserhost.CodeBusy || !errors.Is(err, errBacklog) {
			t.Errorf("%v", err)
		}
	})
}

// An answer that refuses is an error whose words stay inside (S3.19).
func TestRefusal(t *testing.T) {
	c, _ := connect(t, map[string]func(order) string{
		"No": func(order) string { return `{"code":-32000,"message":"no target 0F3A at ws://127.0.0.1:9222"}` },
	})
	_, err := fetch(t.Context(), c, "No")
	if e, ok := errors.AsType[*protocolError](err); !ok || e.Code != -32000 {
		t.Fatalf("%v", err)
	}
	e := browserhost.AsError(shown(err, browserhost.NotStarted))
	if e.Code != browserhost.CodeUpstream || strings.Contains(e.Message, "0F3A") || len(e.Cause) != 0 {
		t.Errorf("%v %v", e, e.Cause)
	}
	if _, err := fetch(t.Context(), c, "Unknown.method"); err == nil {
		t.Error("a command that no browser knows was answered")
	}
}

// A frame is read and answered while a large command is still being written:
// neither direction waits for the other.
func TestBothWays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		far, near := newPeer(t)
		c := Dial(near)
		defer c.Close()
		heard := make(chan string, 1)
		c.route("", func(method string, _ jsontext.Value) { heard <- method })
		if _, err := c.start("", "Large", strings.Repeat("x", 1<<20)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		far.say(`{"method":"Event.now","params":{}}`)
		if got := <-heard; got != "Event.now" {
			t.Error(got)
		}
	})
}
