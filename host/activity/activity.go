// Package activity keeps one row per call, refused calls too: who asked what
// when, and how it ended. The rows go into a chained file before the answer
// leaves. A call that changed something is answered only when its row is on
// the disk, and nothing is changed while rows cannot be written.
//
// A row says that a text was typed and how long it was, never what it was;
// which host a page belongs to, never its address. See [Row].
package activity

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"browserhost"
)

const (
	groupTime = 50 * time.Millisecond // the longest that a row of an observation waits for the disk (S2.54)
	writeTime = 10 * time.Second      // one write; longer, and the record counts as broken
	ringSize  = 256                   // rows kept in memory for the owner's desk
)

// Options complete a [Recorder].
type Options struct {
	Rows browserhost.Appender // the chained file
	Keys browserhost.Keys     // for digests; nil leaves them out
	Now  func() time.Time     // nil means time.Now
	Log  *slog.Logger         // takes inner errors; nil logs nothing
}

// Recorder writes rows. It is safe for concurrent use.
type Recorder struct {
	opts Options
	key  digestKey

	mu     sync.Mutex
	ring   []Row // the last ringSize, a circle
	next   int
	lost   int         // rows not written since the last one that was
	broken bool        // the last write failed
	timer  *time.Timer // a group write to come; nil = none
	closed bool
	writes sync.WaitGroup // group writes under way
}

// New returns a recorder.
func New(opts Options) *Recorder {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Recorder{opts: opts, key: digestKey{keys: opts.Keys}}
}

// Link records every call that passes, and is therefore the outermost link.
// Two things happen here besides: a panic below becomes CodeInternal, and the
// answer is encoded, once, so that what leaves is what was recorded.
func (r *Recorder) Link(next browserhost.Handler) browserhost.Handler {
	return browserhost.HandlerFunc(func(ctx context.Context, call *browserhost.Call) (*browserhost.Result, error) {
		start := r.opts.Now()
		row := Row{
			At: browserhost.FormatTime(start), CallID: plain(call.ID), Protocol: ProtocolBrowser, Direction: "outbound",
			Door: call.Door, Actor: call.Actor.Kind, Device: call.Actor.Device, Run: plain(call.Run),
		}
		var result *browserhost.Result
		err := r.ready(ctx)
		if err == nil {
			result, err = r.serve(ctx, next, call)
		}
		row.describe(call)
		value, err := r.close(ctx, &row, call, result, err)
		row.LatencyMS = r.opts.Now().Sub(start).Milliseconds()
		if err := r.write(ctx, row); err != nil {
			return nil, unrecorded(row)
		}
		if err != nil {
			return nil, err
		}
		return &browserhost.Result{Value: value, Image: result.Image}, nil
	})
}

// Note is a call that is no tool call: an MCP method, or an HTTP route.
type Note struct {
	Protocol string // ProtocolMCP or ProtocolHTTP
	Method   string // "initialize", "GET /v1/tools": a name of ours, never a caller's text
	Actor    browserhost.Actor
	Run      string
	Took     time.Duration
	Err      error
}

// Note records n before its answer leaves (contract H).
func (r *Recorder) Note(ctx context.Context, n Note) {
	row := Row{
		At: browserhost.FormatTime(r.opts.Now().Add(-n.Took)), Protocol: n.Protocol, Direction: "inbound", Door: n.Actor.Via, Method: n.Method,
		Actor: n.Actor.Kind, Device: n.Actor.Device, Run: plain(n.Run), OK: n.Err == nil, Code: browserhost.CodeOf(n.Err), LatencyMS: n.Took.Milliseconds(),
	}
	if err := r.write(ctx, row); err != nil {
		r.opts.Log.Error("a row is lost", "method", n.Method, "err", err)
	}
}

// Recent returns up to n rows, newest first.
func (r *Recorder) Recent(n int) []Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := make([]Row, 0, min(max(n, 0), len(r.ring)))
	for i := range cap(rows) {
		rows = append(rows, r.ring[(r.next-1-i+2*len(r.ring))%len(r.ring)])
	}
	return rows
}

// Close waits until every row is on the disk. Rows that come later are still
// written, each by itself.
func (r *Recorder) Close() error {
	r.mu.Lock()
	r.closed = true
	if r.timer != nil && r.timer.Stop() {
		r.writes.Done()
	}
	r.timer = nil
	r.mu.Unlock()
	r.writes.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	return r.opts.Rows.Durable(ctx)
}

// serve passes the call on and turns a panic into an error.
func (r *Recorder) serve(ctx context.Context, next browserhost.Handler, call *browserhost.Call) (result *browserhost.Result, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		text := fmt.Sprintf("a %T", p) // what a panic carries may be of a page
		if fault, ok := p.(runtime.Error); ok {
			text = fault.Error()
		}
		r.opts.Log.Error("a call panicked", "operation", call.Operation, "panic", text, "stack", string(debug.Stack()))
		e := browserhost.AsError(fmt.Errorf("panic: %s", text))
		if effect(call) {
			e = e.State(browserhost.OutcomeUnknown)
		}
		result, err = nil, e
	}()
	return next.ServeTool(ctx, call)
}

// close completes the row with how the call ended, and returns the encoded answer.
func (r *Recorder) close(ctx context.Context, row *Row, call *browserhost.Call, result *browserhost.Result, err error) (jsontext.Value, error) {
	var value jsontext.Value
	if err == nil && result == nil {
		err = fmt.Errorf("%s answered nothing", call.Operation)
	}
	if err == nil {
		if value, err = encode(result); err == nil {
			row.learn(value)
			row.Image = picture(result.Image)
		}
		if effect(call) && row.Execution == "" {
			row.Execution = browserhost.Completed
		}
	}
	response := value
	if err != nil {
		e := browserhost.AsError(err)
		if e.Err != nil && (e.Code == browserhost.CodeInternal || e.Code == browserhost.CodeUpstream) {
			r.opts.Log.Error("a call failed", "operation", call.Operation, "code", e.Code, "err", e.Err)
		}
		if e.Execution == "" && row.Execution != "" { // the effect is done, and only the answer could not be made
			known := *e
			e = known.State(row.Execution)
		}
		row.Code, row.Execution, err = e.Code, e.Execution, e
		response, _ = json.Marshal(browserhost.Failure(e)) // an error that cannot be encoded has no digest
	}
	row.OK = err == nil
	row.Request, row.Response = r.key.extent(ctx, call.Raw), r.key.extent(ctx, response)
	return value, err
}

// encode is the one encoding of an answer (contract B: at most MaxAnswer bytes).
func encode(result *browserhost.Result) (jsontext.Value, error) {
	if result.Value == nil {
		return jsontext.Value("{}"), nil
	}
	value, err := json.Marshal(result.Value, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	if len(value) > browserhost.MaxAnswer {
		return nil, browserhost.Errorf(browserhost.CodeUpstream, "the answer is larger than %d bytes", browserhost.MaxAnswer)
	}
	return value, nil
}

// effect reports whether a call is one that can change something. A call
// whose operation nobody has found yet has changed nothing.
func effect(call *browserhost.Call) bool {
	return call.Operation != "" && browserhost.ActionOf(call.Operation).Effect
}

// unrecorded is what a caller is told when its row could not be written.
func unrecorded(row Row) error {
	return browserhost.Errorf(browserhost.CodeInternal, "the host cannot write its activity record").State(row.Execution)
}
