package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"

	"browserhost"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// message is what the bridge must know of a message. The text is what passes.
type message struct {
	text    jsontext.Value
	id      jsontext.Value
	method  string
	name    string // of the tool, prompt or resource that is asked for
	version string // of a request that stands alone
	bad     bool   // this is no message
}

// parse reads a message without judging more of it than that it is one.
func parse(text []byte) message {
	var outer struct {
		RPC    string         `json:"jsonrpc"`
		ID     jsontext.Value `json:"id"`
		Method jsontext.Value `json:"method"`
		Params jsontext.Value `json:"params"`
	}
	if len(text) > bridgeLine || json.Unmarshal(text, &outer) != nil || outer.RPC != "2.0" {
		return message{bad: true}
	}
	m := message{text: text, id: outer.ID}
	var params struct {
		Name string `json:"name"`
		URI  string `json:"uri"`
		Meta struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	}
	// What is of another type is the host's to refuse.
	_ = json.Unmarshal(outer.Method, &m.method)
	_ = json.Unmarshal(outer.Params, &params)
	m.name, m.version = params.Name+params.URI, params.Meta.Version
	return m
}

// answered reports whether the client waits for an answer.
func (m message) answered() bool { return m.bad || m.id != nil && m.method != "" }

// forward sends a message to the host and delivers what comes back. A message
// that waits for an answer gets one in any case, until run ends.
func (b *bridge) forward(run context.Context, m message) {
	if m.bad {
		b.refuse(m, jsonrpc.CodeParseError, browserhost.Errorf(browserhost.CodeInputInvalid, notMessage))
		return
	}
	ctx, cancel := context.WithTimeout(run, bridgeTime)
	defer cancel()
	session := b.remember(m)
	answered, err := b.post(ctx, m, session)
	if _, lost := errors.AsType[lostSession](err); lost {
		// The host has never seen this session: it was started anew since, and
		// has done nothing of what this message asks for.
		if session, err = b.renew(ctx, session); err == nil {
			answered, err = b.post(ctx, m, session)
		}
	}
	switch {
	case answered || !m.answered() || run.Err() != nil:
	case err == nil:
		b.refuse(m, jsonrpc.CodeInternalError, browserhost.Errorf(browserhost.CodeDisconnected, cutOff).State(browserhost.OutcomeUnknown))
	default:
		b.refuse(m, jsonrpc.CodeInternalError, browserhost.AsError(err))
	}
}

// remember keeps a client's initialize and returns the session for m.
func (b *bridge) remember(m message) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.method == "initialize" {
		b.hello, b.session, b.version = m.text, "", ""
	}
	return b.session
}

// lostSession says that the host does not know the session.
type lostSession struct{ error }

// post sends one message and delivers the answers. It reports whether the
// answer that m waits for was among them.
func (b *bridge) post(ctx context.Context, m message, session string) (answered bool, err error) {
	resp, err := b.send(ctx, m, session)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if err := refusal(resp, session); err != nil {
		return false, err
	}
	b.learn(m, resp)
	err = messages(resp, func(text jsontext.Value) {
		if m.method == "initialize" {
			b.agreed(text)
		}
		got := parse(text)
		answered = answered || got.id != nil && got.method == ""
		b.deliver(text)
	})
	if err != nil {
		err = browserhost.Hide(browserhost.CodeDisconnected, err, cutOff).State(browserhost.OutcomeUnknown)
	}
	return answered, err
}

// send sends a message. Its error says whether the message may have arrived.
func (b *bridge) send(ctx context.Context, m message, session string) (*http.Response, error) {
	req, err := b.request(ctx, http.MethodPost, m.text, session)
	if err != nil {
		return nil, err
	}
	if m.version != "" { // a request that stands alone says in its headers what it is
		req.Header.Set(versionHeader, m.version)
		req.Header.Set("Mcp-Method", m.method)
		if m.name != "" {
			req.Header.Set("Mcp-Name", m.name)
		}
	}
	resp, err := b.client.Do(req)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return nil, browserhost.Errorf(browserhost.CodeDisconnected, unreachable, req.URL.Host).State(browserhost.NotStarted)
	}
	if err != nil {
		return nil, browserhost.Hide(browserhost.CodeDisconnected, err, cutOff).State(browserhost.OutcomeUnknown)
	}
	return resp, nil
}

func (b *bridge) request(ctx context.Context, method string, body []byte, session string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+string(b.bearer))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.version != "" {
		req.Header.Set(versionHeader, b.version)
	}
	return req, nil
}

// refusal turns a status into an error, unless the body is the protocol's own.
func refusal(resp *http.Response, session string) error {
	if resp.StatusCode < 300 {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, bridgeLine)) // what is cut is no message
	var ours browserhost.Envelope
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return browserhost.Errorf(browserhost.CodeAuthRequired, unpaired).State(browserhost.NotStarted)
	case !parse(body).bad:
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return nil
	case resp.StatusCode == http.StatusNotFound && session != "":
		return lostSession{browserhost.Errorf(browserhost.CodeDisconnected, "the session is gone").State(browserhost.NotStarted)}
	case json.Unmarshal(body, &ours) == nil && ours.Error != nil:
		return browserhost.Errorf(ours.Error.Code, "%s", ours.Error.Message).State(browserhost.NotStarted)
	}
	return browserhost.Errorf(browserhost.CodeUpstream, "the host refused the message with status %d", resp.StatusCode).State(browserhost.NotStarted)
}

// learn keeps the session that an initialize opened.
func (b *bridge) learn(m message, resp *http.Response) {
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" && m.method == "initialize" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.session = id
	}
}

// agreed keeps the revision that both ends speak from now on.
func (b *bridge) agreed(answer jsontext.Value) {
	var a struct {
		Result struct {
			Version string `json:"protocolVersion"`
		} `json:"result"`
	}
	if json.Unmarshal(answer, &a) == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.version = a.Result.Version
	}
}

// renew opens a session with the client's own initialize, unless another call
// has done so since old was lost, and returns it.
func (b *bridge) renew(ctx context.Context, old string) (string, error) {
	b.renewing.Lock()
	defer b.renewing.Unlock()
	b.mu.Lock()
	session, hello := b.session, parse(b.hello)
	b.mu.Unlock()
	if session != old {
		return session, nil
	}
	resp, err := b.send(ctx, hello, "")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if err := refusal(resp, ""); err != nil {
		return "", err
	}
	b.learn(hello, resp)
	if err := messages(resp, b.agreed); err != nil { // the client has had this answer
		return "", browserhost.Hide(browserhost.CodeDisconnected, err, cutOff).State(browserhost.NotStarted)
	}
	b.mu.Lock()
	session = b.session
	b.mu.Unlock()
	_, err = b.post(ctx, parse([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)), session)
	return session, err
}

// refuse answers m in the host's place.
func (b *bridge) refuse(m message, code int, e *browserhost.Error) {
	id := m.id
	if id == nil {
		id = jsontext.Value("null")
	}
	answer, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id,
		"error": map[string]any{"code": code, "message": e.Message, "data": browserhost.Failure(e).Error},
	}, json.Deterministic(true))
	if err != nil {
		b.fail(err)
		return
	}
	b.deliver(answer)
}

func kind(resp *http.Response) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// messages calls f for each message in a response: the events of a stream, or
// the body as a whole.
func messages(resp *http.Response, f func(jsontext.Value)) error {
	if kind(resp) == "text/event-stream" {
		return events(resp.Body, f)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, bridgeEvent+1))
	if err == nil && len(body) > bridgeEvent {
		err = fmt.Errorf("a message of more than %d bytes", bridgeEvent)
	}
	if err == nil && jsontext.Value(body).IsValid() {
		f(body)
	}
	return err
}

// events reads server-sent events and calls f with the data of each, which is
// valid until f returns.
func events(body io.Reader, f func(jsontext.Value)) error {
	r := bufio.NewReader(body)
	var data []byte
	for {
		text, err := readLine(r, bridgeEvent)
		if len(text)+len(data) > bridgeEvent {
			return fmt.Errorf("a message of more than %d bytes", bridgeEvent)
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(string(text), "\r"), ":")
		switch {
		case err == nil && len(text) == 0, err == nil && string(text) == "\r":
			if jsontext.Value(data).IsValid() {
				f(data)
			}
			data = data[:0]
		case field == "data":
			data = append(append(data, strings.TrimPrefix(value, " ")...), '\n')
		}
		if err == io.EOF {
			return nil // what was not ended by an empty line was cut
		}
		if err != nil {
			return err
		}
	}
}
