package cdp

import (
	"bufio"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// peer is the far side of a connection: a browser that is as strict as a real
// one about frames, and says what a test makes it say. Every frame that it
// hears is kept.
type peer struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader

	mu    sync.Mutex
	heard []order
}

// order is a command as the peer hears it: nothing but these members may be in it.
type order struct {
	ID        int64          `json:"id"`
	Method    string         `json:"method"`
	Params    jsontext.Value `json:"params"`
	SessionID string         `json:"sessionId"`
}

// newPeer returns both sides of a connection, this one still undialled.
func newPeer(t testing.TB) (*peer, net.Conn) {
	near, far := net.Pipe()
	t.Cleanup(func() { far.Close() })
	return &peer{t: t, conn: far, in: bufio.NewReader(far)}, near
}

// hear reads one command. ok is false when the connection has ended.
func (p *peer) hear() (o order, ok bool) {
	frame, err := p.in.ReadBytes(0)
	if err != nil {
		return o, false
	}
	if err := json.Unmarshal(frame[:len(frame)-1], &o, json.RejectUnknownMembers(true)); err != nil || o.ID == 0 || o.Method == "" {
		p.t.Errorf("no browser would take this: %s", frame)
	}
	p.mu.Lock()
	p.heard = append(p.heard, o)
	p.mu.Unlock()
	return o, true
}

// say writes one frame.
func (p *peer) say(frame string) { p.conn.Write(append([]byte(frame), 0)) }

// answer answers a command with a result, or with what begins as an error.
func (p *peer) answer(o order, result string) {
	member := "result"
	if strings.HasPrefix(result, `{"code"`) {
		member = "error"
	}
	p.say(fmt.Sprintf(`{"id":%d,%q:%s,"sessionId":%q}`, o.ID, member, result, o.SessionID)) // the id first, as Chromium does
}

// serve answers every command by its method until the connection ends; one
// that the table does not know is answered as a browser answers it.
func (p *peer) serve(table map[string]func(o order) string) {
	for {
		o, ok := p.hear()
		if !ok {
			return
		}
		f := table[o.Method]
		if f == nil {
			p.answer(o, `{"code":-32601,"message":"'`+o.Method+`' wasn't found"}`)
			continue
		}
		if result := f(o); result != "" {
			p.answer(o, result)
		}
	}
}

// methods lists what was heard.
func (p *peer) methods() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, o := range p.heard {
		out = append(out, o.Method)
	}
	return out
}

// inBubble runs a test whose clock and goroutines are its own.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
