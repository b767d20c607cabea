package activity

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"browserhost"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ada browserhost.DeviceID = "0123456789abcdef0123456789abcdef"

// tape is an append-only file in memory that can be made to fail.
type tape struct {
	mu      sync.Mutex
	rows    []Row
	lines   []string
	durable int // rows on the disk
	syncs   int
	fail    error
}

func (f *tape) Append(_ context.Context, row any) (int64, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return 0, "", f.fail
	}
	b, err := json.Marshal(row)
	if err != nil {
		return 0, "", err
	}
	f.rows, f.lines = append(f.rows, row.(Row)), append(f.lines, string(b))
	return int64(len(f.rows) - 1), "", nil
}

func (f *tape) Durable(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	f.durable = len(f.rows)
	f.syncs++
	return nil
}

func (f *tape) state() (rows, durable, syncs int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rows), f.durable, f.syncs
}

func (f *tape) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

type keys struct{ err error }

func (k keys) MAC(_ context.Context, label string, data []byte) ([]byte, error) {
	return []byte("key of " + label + string(data)), k.err
}

func recorder(t *testing.T, f *tape) *Recorder {
	r := New(Options{Rows: f, Keys: keys{}})
	t.Cleanup(func() {
		f.set(nil)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func call(op browserhost.Operation, args browserhost.Args, raw string) *browserhost.Call {
	return &browserhost.Call{
		ID: "c1", Tool: "browser_act", Operation: op, Args: args, Raw: []byte(raw), Run: "run-1", Door: "mcp",
		Actor: browserhost.Actor{Kind: browserhost.Agent, Device: ada, Via: "mcp"},
	}
}

func answer(value any, img *browserhost.Image, err error) browserhost.Handler {
	return browserhost.HandlerFunc(func(context.Context, *browserhost.Call) (*browserhost.Result, error) {
		if err != nil {
			return nil, err
		}
		return &browserhost.Result{Value: value, Image: img}, nil
	})
}

// Contract H, S3.32: what a row keeps of a call that changed something.
func TestRowOfAnEffect(t *testing.T) {
	f := &tape{}
	value := map[string]any{"execution_state": "completed", "page": map[string]any{"page_id": "p1", "url": "https://Shop.test:8443/cart?id=canary#x", "title": "canary"}}
	raw := `{"action":"click","page_id":"p1","element_id":"s1e3"}`
	result, err := recorder(t, f).Link(answer(value, nil, nil)).ServeTool(t.Context(), call(browserhost.OpClick, browserhost.Args{PageID: "p1", ElementID: "s1e3"}, raw))
	if err != nil {
		t.Fatal(err)
	}
	row := f.rows[0]
	if row.Method != "browser.click" || row.Tool != "browser_act" || row.Protocol != "browser" || row.Direction != "outbound" || row.Door != "mcp" || row.Device != ada ||
		row.Run != "run-1" || row.PageID != "p1" || row.ElementID != "s1e3" || row.Peer != "shop.test" || !row.OK || row.Execution != browserhost.Completed || row.CallID != "c1" {
		t.Errorf("%+v", row)
	}
	if row.Request.Bytes != len(raw) || !strings.HasPrefix(row.Request.Digest, "hmac-sha256:") || row.Response.Digest == row.Request.Digest {
		t.Errorf("request %+v, response %+v", row.Request, row.Response)
	}
	if _, durable, _ := f.state(); durable != 1 {
		t.Error("the answer left before its row was on the disk")
	}
	if b, _ := json.Marshal(result.Value); len(b) != row.Response.Bytes {
		t.Errorf("%d bytes leave, %d are recorded", len(b), row.Response.Bytes)
	}
}

// S3.33, S3.34: nothing of a page, a form or an address is kept, whatever
// field a caller puts it into; what the record keeps is presence and length.
func TestRowHoldsNoContent(t *testing.T) {
	f := &tape{}
	const canary = "c4nary secret"
	img := &browserhost.Image{MIME: "image/png", Width: 3, Height: 2, Data: []byte(canary)}
	value := map[string]any{"text": canary, "value": canary, "title": canary, "page": map[string]any{"url": "https://shop.test/" + canary + "?q=" + canary, "title": canary}}
	args := browserhost.Args{PageID: canary, ElementID: canary, BrowserID: canary, GrantID: canary, RequestID: canary, Text: canary, Reason: canary,
		URL: "https://shop.test/" + canary, Domains: []string{canary}, Sites: []string{canary}}
	raw := `{"text":"` + canary + `"}`
	rec := recorder(t, f)
	for _, tool := range browserhost.Tools {
		for _, action := range tool.Actions {
			for _, next := range []browserhost.Handler{answer(value, img, nil), answer(nil, nil, browserhost.Errorf(browserhost.CodeStaleElement, "%s", canary).With("x", canary))} {
				c := call(action.Operation, args, raw)
				c.Tool, c.ID, c.Run = tool.Name, canary, canary
				rec.Link(next).ServeTool(t.Context(), c)
			}
		}
	}
	c := call("", browserhost.Args{}, raw)
	c.Tool = canary
	rec.Link(answer(nil, nil, browserhost.Errorf(browserhost.CodeNotFound, "x"))).ServeTool(t.Context(), c)
	if len(f.lines) < 30 {
		t.Fatalf("%d rows", len(f.lines))
	}
	for _, line := range f.lines {
		if strings.Contains(line, "c4nary") {
			t.Errorf("a row holds content: %s", line)
		}
	}
	i := slices.IndexFunc(f.rows, func(r Row) bool { return r.Method == string(browserhost.OpInputText) })
	if got := f.rows[i].InputText; got == nil || *got != (Presence{true, len(canary)}) {
		t.Errorf("input_text %+v", got)
	}
	i = slices.IndexFunc(f.rows, func(r Row) bool { return r.Method == string(browserhost.OpNavigate) })
	if !f.rows[i].URLPresent || f.rows[i].Peer != "shop.test" {
		t.Errorf("navigate %+v", f.rows[i])
	}
	if p := f.rows[i].Image; p == nil || p.MIME != "image/png" || p.Width != 3 || p.Height != 2 || p.Bytes != len(canary) || len(p.SHA256) != 64 {
		t.Errorf("image %+v", p)
	}
}

// The digest is of the RFC 8785 form, so that spelling does not change it, and
// under the host's secret, so that it cannot be guessed from the text.
func TestDigest(t *testing.T) {
	k := digestKey{keys: keys{}}
	a, b := k.extent(t.Context(), []byte(`{"b":1.0,"a":"x"}`)), k.extent(t.Context(), []byte(`{ "a":"x", "b":1 }`))
	if a.Digest != b.Digest || a.Bytes == b.Bytes {
		t.Errorf("%+v, %+v", a, b)
	}
	other := digestKey{keys: keys{err: errors.New("locked")}}
	if e := other.extent(t.Context(), []byte(`{}`)); e.Digest != "" || e.Bytes != 2 {
		t.Errorf("without a keychain: %+v", e) // K7: rows are still written
	}
	if e := k.extent(t.Context(), []byte(`not json`)); e.Digest == "" {
		t.Error("what is not JSON has no digest")
	}
	if k.extent(t.Context(), nil) != nil {
		t.Error("nothing has an extent")
	}
}

// Refused calls are recorded, with their code and state, and need no fsync.
func TestRefusedCallsAreRecorded(t *testing.T) {
	f := &tape{}
	refused := browserhost.Errorf(browserhost.CodeUnauthorised, "no").State(browserhost.NotStarted)
	_, err := recorder(t, f).Link(answer(nil, nil, refused)).ServeTool(t.Context(), call(browserhost.OpClick, browserhost.Args{}, `{}`))
	if browserhost.CodeOf(err) != browserhost.CodeUnauthorised {
		t.Fatal(err)
	}
	if row := f.rows[0]; row.OK || row.Code != browserhost.CodeUnauthorised || row.Execution != browserhost.NotStarted {
		t.Errorf("%+v", row)
	}
	if _, durable, _ := f.state(); durable != 0 {
		t.Error("a refused call waited for the disk")
	}
}

// S2.54: rows of observations reach the disk together, 50 ms at most after the first.
func TestGroupWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &tape{}
		r := recorder(t, f)
		line := r.Link(answer(map[string]any{}, nil, nil))
		for range 10 {
			line.ServeTool(t.Context(), call(browserhost.OpSnapshot, browserhost.Args{}, `{}`))
		}
		if rows, durable, _ := f.state(); rows != 10 || durable != 0 {
			t.Errorf("%d rows, %d durable at once", rows, durable)
		}
		time.Sleep(groupTime) // the bubble's clock
		synctest.Wait()
		if _, durable, syncs := f.state(); durable != 10 || syncs != 1 {
			t.Errorf("%d durable after %d syncs", durable, syncs)
		}
		line.ServeTool(t.Context(), call(browserhost.OpSnapshot, browserhost.Args{}, `{}`))
		time.Sleep(groupTime)
		synctest.Wait()
		if _, durable, syncs := f.state(); durable != 11 || syncs != 2 {
			t.Errorf("later: %d durable after %d syncs", durable, syncs)
		}
	})
}

// A call that panics is recorded and answered as internal; what it did is not
// known, and what the panic carried is not in the log.
func TestPanic(t *testing.T) {
	f := &tape{}
	var log bytes.Buffer
	r := New(Options{Rows: f, Log: slog.New(slog.NewTextHandler(&log, nil))})
	defer r.Close()
	line := r.Link(browserhost.HandlerFunc(func(context.Context, *browserhost.Call) (*browserhost.Result, error) { panic("canary") }))
	_, err := line.ServeTool(t.Context(), call(browserhost.OpClick, browserhost.Args{}, `{}`))
	e := browserhost.AsError(err)
	if e.Code != browserhost.CodeInternal || e.Execution != browserhost.OutcomeUnknown || e.Retryable {
		t.Errorf("%+v", e)
	}
	if row := f.rows[0]; row.Code != browserhost.CodeInternal || row.Execution != browserhost.OutcomeUnknown {
		t.Errorf("%+v", row)
	}
	if !strings.Contains(log.String(), "panicked") || strings.Contains(log.String(), "canary") {
		t.Error(log.String())
	}
}

// Nothing is changed while rows cannot be written. When they can again, the
// first row says how many are missing.
func TestBrokenRecord(t *testing.T) {
	f := &tape{}
	r := recorder(t, f)
	done := 0
	line := r.Link(browserhost.HandlerFunc(func(context.Context, *browserhost.Call) (*browserhost.Result, error) {
		done++
		return &browserhost.Result{Value: map[string]any{"execution_state": "completed"}}, nil
	}))
	click := func() *browserhost.Error {
		_, err := line.ServeTool(t.Context(), call(browserhost.OpClick, browserhost.Args{}, `{}`))
		return browserhost.AsError(err)
	}
	f.set(errors.New("no space left"))
	if e := click(); e == nil || e.Code != browserhost.CodeInternal || e.Execution != browserhost.Completed || strings.Contains(e.Message, "space") {
		t.Errorf("the call that broke it: %+v", e) // it happened, and the caller is told so
	}
	if e := click(); e == nil || e.Code != browserhost.CodeInternal || e.Execution != browserhost.NotStarted || done != 1 {
		t.Errorf("the next call: %+v, %d done", e, done)
	}
	f.set(nil)
	if e := click(); e != nil || done != 2 {
		t.Errorf("after the repair: %+v, %d done", e, done)
	}
	if len(f.rows) != 2 || f.rows[0].Lost != 2 || f.rows[0].Actor != browserhost.System || f.rows[1].Lost != 0 {
		t.Errorf("rows %+v", f.rows)
	}
}

// An effect that happened is never reported as one that did not, even when its answer cannot be made.
func TestAnswerThatCannotBeMade(t *testing.T) {
	for name, value := range map[string]any{"not encodable": func() {}, "too large": strings.Repeat("x", browserhost.MaxAnswer)} {
		f := &tape{}
		_, err := recorder(t, f).Link(answer(value, nil, nil)).ServeTool(t.Context(), call(browserhost.OpClick, browserhost.Args{}, `{}`))
		if e := browserhost.AsError(err); e == nil || e.Execution != browserhost.Completed || f.rows[0].OK {
			t.Errorf("%s: %+v", name, e)
		}
	}
	// Contract B: an answer of exactly the bound leaves.
	f := &tape{}
	if _, err := recorder(t, f).Link(answer(strings.Repeat("x", browserhost.MaxAnswer-2), nil, nil)).ServeTool(t.Context(), call(browserhost.OpSnapshot, browserhost.Args{}, `{}`)); err != nil {
		t.Error(err)
	}
	if _, err := recorder(t, f).Link(browserhost.HandlerFunc(func(context.Context, *browserhost.Call) (*browserhost.Result, error) { return nil, nil })).
		ServeTool(t.Context(), call(browserhost.OpSnapshot, browserhost.Args{}, `{}`)); browserhost.CodeOf(err) != browserhost.CodeInternal {
		t.Errorf("no answer: %v", err)
	}
}

// A caller that hangs up does not keep its row from being written.
func TestCancelledCallIsRecorded(t *testing.T) {
	f := &tape{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	recorder(t, f).Link(answer(nil, nil, ctx.Err())).ServeTool(ctx, call(browserhost.OpClick, browserhost.Args{}, `{}`))
	if len(f.rows) != 1 || f.rows[0].Code != browserhost.CodeInternal {
		t.Errorf("%+v", f.rows)
	}
}

// Contract H: the doors' own calls are rows too, under their protocol.
func TestNote(t *testing.T) {
	f := &tape{}
	r := recorder(t, f)
	r.Note(t.Context(), Note{Protocol: ProtocolMCP, Method: "tools/list", Actor: browserhost.Actor{Kind: browserhost.Agent, Device: ada, Via: "mcp"}, Took: 7 * time.Millisecond})
	r.Note(t.Context(), Note{Protocol: ProtocolHTTP, Method: "GET /v1/tools", Err: browserhost.Errorf(browserhost.CodeNotFound, "x")})
	if a := f.rows[0]; a.Protocol != "mcp" || a.Direction != "inbound" || a.Method != "tools/list" || a.Device != ada || !a.OK || a.LatencyMS != 7 {
		t.Errorf("%+v", a)
	}
	if b := f.rows[1]; b.Protocol != "http" || b.OK || b.Code != browserhost.CodeNotFound {
		t.Errorf("%+v", b)
	}
}

// The desk's list is bounded, newest first.
func TestRecentIsARing(t *testing.T) {
	f := &tape{}
	r := recorder(t, f)
	if got := r.Recent(10); len(got) != 0 {
		t.Fatalf("%d rows of nothing", len(got))
	}
	for i := range ringSize + 5 {
		r.Note(t.Context(), Note{Protocol: ProtocolMCP, Took: time.Duration(i) * time.Millisecond})
		if i == 2 {
			if got := r.Recent(2); len(got) != 2 || got[0].LatencyMS != 2 || got[1].LatencyMS != 1 {
				t.Fatalf("%+v", got)
			}
		}
	}
	got := r.Recent(ringSize * 2)
	if len(got) != ringSize || got[0].LatencyMS != ringSize+4 || got[ringSize-1].LatencyMS != 5 {
		t.Fatalf("%d rows, from %d to %d", len(got), got[0].LatencyMS, got[len(got)-1].LatencyMS)
	}
	if len(r.Recent(-1)) != 0 {
		t.Fatal("a negative count")
	}
}

// Close leaves every row on the disk, and a late one too.
func TestClose(t *testing.T) {
	f := &tape{}
	r := New(Options{Rows: f})
	line := r.Link(answer(map[string]any{}, nil, nil))
	for want := 1; want <= 2; want++ {
		if _, err := line.ServeTool(t.Context(), call(browserhost.OpSnapshot, browserhost.Args{}, `{}`)); err != nil {
			t.Fatal(err)
		}
		if want == 1 {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if _, durable, _ := f.state(); durable != want {
			t.Fatalf("%d rows durable, want %d", durable, want)
		}
	}
}

// Many calls at once: one row each, and no race.
func TestConcurrentCalls(t *testing.T) {
	f := &tape{}
	r := recorder(t, f)
	line := r.Link(answer(map[string]any{}, nil, nil))
	var wg sync.WaitGroup
	for i := range 40 {
		op := browserhost.OpSnapshot
		if i%2 == 0 {
			op = browserhost.OpClick
		}
		wg.Go(func() { line.ServeTool(t.Context(), call(op, browserhost.Args{}, `{}`)); r.Recent(5) })
	}
	wg.Wait()
	if rows, _, _ := f.state(); rows != 40 {
		t.Fatalf("%d rows", rows)
	}
}
