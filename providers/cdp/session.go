package cdp

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"

	cdproto "github.com/chromedp/cdproto/cdp"
)

// session is one target on a connection; "" is the browser itself.
type session struct {
	conn *Conn
	id   string
}

// command is one command of cdproto, made ready to be queued.
type command struct {
	method string
	params any
}

// cmd joins a command of cdproto to parameters of its type.
func cmd[P, R any](c cdproto.Command[P, R], params P) command { return command{c.Method, params} }

// none are the parameters of a command that has none.
var none = cdproto.Empty{}

// start queues commands in order and waits for none of them.
func (s session) start(commands ...command) ([]*call, error) {
	calls := make([]*call, 0, len(commands))
	for _, c := range commands {
		p, err := s.conn.start(s.id, c.method, c.params)
		if err != nil {
			return calls, err
		}
		calls = append(calls, p)
	}
	return calls, nil
}

// post queues commands whose answers nobody needs.
func (s session) post(commands ...command) {
	for _, c := range commands {
		s.conn.post(s.id, c.method, c.params) // fails only when the connection does, which everybody hears
	}
}

// raw runs a command and returns its result as it came.
func (s session) raw(ctx context.Context, c command) (jsontext.Value, error) {
	p, err := s.conn.start(s.id, c.method, c.params)
	if err != nil {
		return nil, err
	}
	result, _, err := s.conn.await(ctx, p)
	return result, err
}

// run runs a command of cdproto and decodes its result.
func run[P, R any](ctx context.Context, s session, c cdproto.Command[P, R], params P) (R, error) {
	var r R
	v, err := s.raw(ctx, cmd(c, params))
	if err != nil {
		return r, err
	}
	return decode[R](c.Method, v)
}

// decode reads a result; members that cdproto does not know are ignored.
func decode[R any](method string, v jsontext.Value) (R, error) {
	var r R
	if len(v) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(v, &r, lenient); err != nil {
		return r, fmt.Errorf("cdp: the result of %s cannot be read: %w", method, err)
	}
	return r, nil
}

// on reads the payload of an event of cdproto for f. What cannot be read is dropped.
func on[E any](_ cdproto.Event[E], params jsontext.Value, f func(E)) {
	var e E
	if json.Unmarshal(params, &e, lenient) == nil {
		f(e)
	}
}
