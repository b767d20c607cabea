package cdp

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"browserhost"
)

// maxPending bounds the commands that wait for an answer or to be written.
const maxPending = 4096

// Conn is one connection to a browser: JSON messages ended by a zero byte,
// both ways. Commands are written in the order in which they were made, without
// waiting for answers. It is safe for concurrent use.
//
// Reading is done by one goroutine and writing by another; both end with the
// connection.
type Conn struct {
	rw      io.ReadWriteCloser
	max     int // bytes of a frame
	closing sync.Once
	lost    chan struct{} // closed when the connection has ended
	wake    chan struct{} // there is something to write
	ended   sync.WaitGroup

	mu      sync.Mutex
	err     error // why it ended
	nextID  int64
	pending map[int64]*call
	queue   []*call // not yet written, oldest first
	routes  map[string]func(method string, params jsontext.Value)
}

// call is one command.
type call struct {
	id    int64
	frame []byte        // until it is written
	sent  bool          // handed to the pipe; guarded by Conn.mu
	done  chan struct{} // closed with result or err set
	// Set before done is closed.
	result jsontext.Value
	err    error
}

// Dial speaks over rw, which it owns from now on.
func Dial(rw io.ReadWriteCloser) *Conn { return dial(rw, browserhost.MaxCDPMessage) }

func dial(rw io.ReadWriteCloser, max int) *Conn {
	c := &Conn{
		rw:      rw,
		max:     max,
		lost:    make(chan struct{}),
		wake:    make(chan struct{}, 1),
		pending: map[int64]*call{},
		routes:  map[string]func(string, jsontext.Value){},
	}
	c.ended.Go(c.read)
	c.ended.Go(c.write)
	return c
}

// Lost is closed when the connection has ended, wanted or not.
func (c *Conn) Lost() <-chan struct{} { return c.lost }

// Err says why the connection ended; nil while it lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and waits until nothing of it runs. It must not be
// called from an event's route.
func (c *Conn) Close() error {
	c.end(errors.New("closed by the host"))
	c.ended.Wait()
	return nil
}

// end fails every pending call, once.
func (c *Conn) end(why error) {
	c.closing.Do(func() {
		c.mu.Lock()
		c.err = fmt.Errorf("%w: %w", errLost, why)
		pending := c.pending
		c.pending, c.queue = map[int64]*call{}, nil
		c.mu.Unlock()
		for _, p := range pending {
			p.err = c.err
			close(p.done)
		}
		close(c.lost)
		c.rw.Close()
	})
}

// route sends the events of a session to f; "" is the browser itself. f runs
// on the reading goroutine, in the order of the wire: it must not wait for
// anything. With f nil the session's events are dropped.
func (c *Conn) route(session string, f func(method string, params jsontext.Value)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f == nil {
		delete(c.routes, session)
		return
	}
	c.routes[session] = f
}

// start queues a command and does not wait. Commands of one goroutine keep
// their order. The answer, or the loss of the connection, ends the call.
func (c *Conn) start(session, method string, params any) (*call, error) {
	return c.enqueue(session, method, params, true)
}

// post queues a command whose answer nobody needs.
func (c *Conn) post(session, method string, params any) error {
	_, err := c.enqueue(session, method, params, false)
	return err
}

func (c *Conn) enqueue(session, method string, params any, answered bool) (*call, error) {
	p := &call{done: make(chan struct{})}
	body, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("cdp: %s: %w", method, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	if len(c.pending) >= maxPending || len(c.queue) >= maxPending {
		return nil, errBacklog
	}
	c.nextID++
	p.id = c.nextID
	p.frame, err = json.Marshal(request{ID: p.id, Method: method, Params: jsontext.Value(body), SessionID: session})
	if err != nil {
		return nil, fmt.Errorf("cdp: %s: %w", method, err)
	}
	if answered {
		c.pending[p.id] = p
	}
	c.queue = append(c.queue, p)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return p, nil
}

// await returns the answer of a started call. When ctx ends first the call is
// forgotten, and its late answer will be dropped; sent then says whether the
// browser may have seen the command.
func (c *Conn) await(ctx context.Context, p *call) (result jsontext.Value, sent bool, err error) {
	select {
	case <-p.done:
		return p.result, true, p.err
	case <-ctx.Done():
		return nil, c.forget(p), ctx.Err()
	}
}

// forget drops calls that were started one after the other. What has not been
// written is taken out of the queue, all of it or nothing; sent says whether
// the browser may have seen the first command.
func (c *Conn) forget(calls ...*call) (sent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range calls {
		delete(c.pending, p.id)
	}
	if len(calls) == 0 || calls[0].sent {
		return len(calls) > 0
	}
	c.queue = slices.DeleteFunc(c.queue, func(q *call) bool { return slices.Contains(calls, q) })
	return false
}

// write is the writing goroutine. What has gathered goes out in one piece.
func (c *Conn) write() {
	var out bytes.Buffer
	for {
		select {
		case <-c.lost:
			return
		case <-c.wake:
		}
		out.Reset()
		c.mu.Lock()
		for _, p := range c.queue {
			p.sent = true
			out.Write(p.frame)
			out.WriteByte(0)
			p.frame = nil
		}
		c.queue = c.queue[:0]
		c.mu.Unlock()
		if out.Len() == 0 {
			continue
		}
		if _, err := c.rw.Write(out.Bytes()); err != nil {
			c.end(err)
			return
		}
		if out.Cap() > 1<<20 {
			out = bytes.Buffer{}
		}
	}
}

// read is the reading goroutine.
func (c *Conn) read() {
	f := newFrames(c.rw, c.max)
	for {
		frame, oversize, err := f.next()
		switch {
		case err != nil:
			c.end(err)
			return
		case oversize:
			c.answer(idIn(frame), nil, errOversize)
		default:
			c.dispatch(frame)
		}
	}
}

// lenient reads what other people's programs write.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// dispatch gives a frame to whom it is for. What cannot be read is dropped: a
// browser may say more than we know.
func (c *Conn) dispatch(frame []byte) {
	var m envelope
	if err := json.Unmarshal(frame, &m, lenient); err != nil {
		c.answer(idIn(frame), nil, fmt.Errorf("cdp: an answer cannot be read: %w", err))
		return
	}
	if m.ID != 0 {
		var err error
		if m.Error != nil {
			err = m.Error
		}
		c.answer(m.ID, m.Result, err)
		return
	}
	c.mu.Lock()
	f := c.routes[m.SessionID]
	c.mu.Unlock()
	if f != nil {
		f(m.Method, m.Params)
	}
}

// answer ends a call; one that nobody waits for is dropped.
func (c *Conn) answer(id int64, result jsontext.Value, err error) {
	c.mu.Lock()
	p, ok := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if !ok {
		return
	}
	p.result, p.err = result, err
	close(p.done)
}
