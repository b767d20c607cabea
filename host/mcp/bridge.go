package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json/jsontext"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"browserhost"
)

const (
	bridgeCalls = 64                                                                               // requests under way at once; more wait in the pipe
	bridgeTime  = browserhost.LaunchLimit                                                          // the longest that one answer is waited for
	bridgeLine  = browserhost.MaxHTTPBody                                                          // bytes of one message to the host
	bridgeEvent = 2 * browserhost.MaxAnswer                                                        // bytes of one message from the host
	drainTime   = 5 * time.Second                                                                  // for answers under way when the input ends
	partTime    = 2 * time.Second                                                                  // for the farewell to the host
	unreachable = "Browser Host does not answer at %s; start it (browserhost serve) and try again" // nothing was sent
	cutOff      = "Browser Host went away while it was at work; observe what became of it before you try again"
	unpaired    = "Browser Host does not know this agent: open Browser Host → Connect an agent"
	notMessage  = "this is not one JSON-RPC message"
)

// Bridge carries MCP messages between a client that speaks over standard input
// and output, one message a line, and the host at url, e.g.
// "http://127.0.0.1:8863/mcp". Messages pass as they are, both ways.
//
// A request that the host cannot be asked is answered with a JSON-RPC error
// that says what to do next, and the bridge goes on: when the host is back, it
// opens a session again by repeating the client's own initialize. Nothing that
// may have reached the host is sent twice.
//
// The bearer goes into one header and nowhere else; redirects and proxies are
// not followed. Bridge returns nil when in ends, after the answers under way,
// within seconds; or ctx's error, while a read of in may still be pending; or
// the error of in or out.
func Bridge(ctx context.Context, in io.Reader, out io.Writer, url string, bearer browserhost.Secret) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConnsPerHost: bridgeCalls,
		IdleConnTimeout:     time.Minute,
	}
	defer transport.CloseIdleConnections()
	b := &bridge{url: url, bearer: bearer, out: out, fail: cancel, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	err := b.pump(ctx, in)
	b.part(context.WithoutCancel(ctx))
	return err
}

// bridge is one run of Bridge.
type bridge struct {
	url    string
	bearer browserhost.Secret
	client *http.Client
	fail   context.CancelCauseFunc // ends the run

	write sync.Mutex
	out   io.Writer

	mu      sync.Mutex // guards what follows
	hello   []byte     // the client's initialize
	session string     // the host's name of the session; "" = none
	version string     // the revision that was agreed upon

	renewing sync.Mutex // held while a lost session is opened again
}

// pump reads messages until in ends and forwards each.
func (b *bridge) pump(ctx context.Context, in io.Reader) error {
	lines := make(chan line)
	go read(ctx, in, lines)
	slots := make(chan struct{}, bridgeCalls)
	work, stop := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case l := <-lines:
			switch {
			case l.err == io.EOF:
				drain(ctx, &calls)
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return nil
			case l.err != nil:
				return l.err
			}
			m := parse(l.text)
			if !m.answered() || m.method == "initialize" {
				b.forward(work, m) // what follows may depend on it
				continue
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			calls.Go(func() {
				defer func() { <-slots }()
				b.forward(work, m)
			})
		}
	}
}

// drain waits for the answers under way, but not for long.
func drain(ctx context.Context, calls *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		calls.Wait()
		close(done)
	}()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// line is one message of the client, or why there are no more.
type line struct {
	text []byte
	err  error
}

// read sends each line of in until ctx ends. A line that is too long to be a
// message arrives cut, and is no message then.
func read(ctx context.Context, in io.Reader, lines chan<- line) {
	send := func(l line) bool {
		select {
		case lines <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	r := bufio.NewReader(in)
	for {
		text, err := readLine(r, bridgeLine)
		if text = bytes.TrimSpace(text); len(text) > 0 && !send(line{text: text}) {
			return
		}
		if err != nil {
			send(line{err: err})
			return
		}
	}
}

// readLine reads up to the next newline, which is left out, and keeps at most
// limit bytes and one, so that a line that was cut is seen to be too long.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var text []byte
	for {
		part, err := r.ReadSlice('\n')
		text = append(text, part[:min(len(part), limit+1-len(text))]...)
		if err == nil {
			return bytes.TrimSuffix(text, []byte("\n")), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}

// deliver gives one message of the host to the client, on one line.
func (b *bridge) deliver(message jsontext.Value) {
	if message.Compact() != nil {
		return // not a message; whoever waits for it is told that none came
	}
	b.write.Lock()
	defer b.write.Unlock()
	if _, err := b.out.Write(append(message, '\n')); err != nil {
		b.fail(err)
	}
}

// part says farewell to the host, so that the session need not wait for its end.
func (b *bridge) part(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	b.mu.Lock()
	session := b.session
	b.mu.Unlock()
	if session == "" {
		return
	}
	req, err := b.request(ctx, http.MethodDelete, nil, session)
	if err != nil {
		return
	}
	if resp, err := b.client.Do(req); err == nil {
		resp.Body.Close()
	}
}
