package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"browserhost"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A session belongs to its device: with another's id nothing is reached, and
// the session goes on.
func TestSessionsAreBound(t *testing.T) {
	r := newRig(t, Options{})
	s := r.connect(ada, "2025-11-25", nil)
	for _, method := range []string{"POST", "GET", "DELETE"} {
		req, _ := http.NewRequestWithContext(t.Context(), method, r.srv.URL, strings.NewReader(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"browser_observe","arguments":{"action":"targets"}}}`))
		req.Header = http.Header{"Mcp-Session-Id": {s.ID()}, "Authorization": {"Bearer " + string(otto)}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		resp, err := r.srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s with another's session: %d", method, resp.StatusCode)
		}
	}
	if len(r.calls) != 0 {
		t.Error("another device's message was served")
	}
	call(t, s, "browser_observe", map[string]any{"action": "targets"})
}

// A device holds at most maxSessions; the one that rested longest makes room,
// and other devices do not feel it.
func TestSessionsAreBounded(t *testing.T) {
	r := newRig(t, Options{})
	other := r.connect(otto, "2025-11-25", nil)
	var all []*sdk.ClientSession
	for range maxSessions {
		all = append(all, r.connect(ada, "2025-11-25", nil))
	}
	call(t, all[0], "browser_observe", map[string]any{"action": "targets"}) // now all[1] rested longest
	newest := r.connect(ada, "2025-11-25", nil)
	all[1].Wait() // its stream ends
	if _, err := all[1].CallTool(t.Context(), &sdk.CallToolParams{Name: "browser_observe", Arguments: map[string]any{"action": "targets"}}); err == nil {
		t.Error("the oldest session still answers")
	}
	for _, s := range []*sdk.ClientSession{all[0], all[2], newest, other} {
		call(t, s, "browser_observe", map[string]any{"action": "targets"})
	}
}

func (r *rig) live() int { return len(slices.Collect(r.h.server.Sessions())) }

// S1.29e: a client that gave a token hears of a long call; one that did not
// hears nothing; nothing comes after the answer.
func TestProgress(t *testing.T) {
	for _, version := range revisions {
		r := newRig(t, Options{progress: time.Millisecond, cut: time.Minute})
		heard := make(chan *sdk.ProgressNotificationParams, 1000)
		s := r.connect(ada, version, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
			heard <- req.Params
		}})
		r.answer(func(ctx context.Context, _ *browserhost.Call) (*browserhost.Result, error) {
			for range 2 { // the call is at work until the client heard twice
				select {
				case p := <-heard:
					if p.ProgressToken != "tok" || p.Progress <= 0 || p.Message == "" {
						t.Errorf("%+v", p)
					}
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return &browserhost.Result{Value: map[string]any{}}, nil
		})
		params := &sdk.CallToolParams{Name: "browser_act", Arguments: map[string]any{"action": "launch"}}
		params.SetProgressToken("tok")
		if res, err := s.CallTool(t.Context(), params); err != nil || res.IsError {
			t.Fatalf("%s: %v %s", version, err, text(res))
		}
	}
}

// A client that goes away, or says that it does not want the answer any more,
// ends the call's context.
func TestCancel(t *testing.T) {
	for _, version := range revisions {
		r := newRig(t, Options{})
		began, ended := make(chan struct{}), make(chan error, 1)
		r.answer(func(ctx context.Context, _ *browserhost.Call) (*browserhost.Result, error) {
			close(began)
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		})
		s := r.connect(ada, version, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-began; cancel() }()
		if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "browser_act", Arguments: map[string]any{"action": "launch"}}); err == nil {
			t.Errorf("%s: no error", version)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// Close lets calls at work finish while its context lasts and cuts them short
// after; no session is left, and none begins.
func TestClose(t *testing.T) {
	for _, patient := range []bool{true, false} {
		r := newRig(t, Options{})
		r.deaf = true // this client gives everything up when that stream ends
		began, finish := make(chan struct{}), make(chan struct{})
		r.answer(func(ctx context.Context, _ *browserhost.Call) (*browserhost.Result, error) {
			close(began)
			select {
			case <-finish:
				return &browserhost.Result{Value: map[string]any{}}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		s := r.connect(ada, "2025-11-25", nil)
		answered := make(chan error, 1)
		go func() {
			res, err := s.CallTool(context.Background(), &sdk.CallToolParams{Name: "browser_act", Arguments: map[string]any{"action": "launch"}})
			if err == nil && res.IsError {
				err = errors.New("cut short")
			}
			answered <- err
		}()
		<-began
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if patient {
			close(finish)
		} else {
			cancel()
		}
		if err := r.h.Close(ctx); (err == nil) != patient {
			t.Errorf("patient %v: Close: %v", patient, err)
		}
		if err := <-answered; (err == nil) != patient {
			t.Errorf("patient %v: the call: %v", patient, err)
		}
		if n := r.live(); n != 0 {
			t.Errorf("%d sessions live", n)
		}
		resp, err := http.Post(r.srv.URL, "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		if resp.StatusCode < 400 {
			t.Errorf("a request after Close: %d", resp.StatusCode)
		}
	}
}

// A call that does not heed its end does not hold Close up for ever.
func TestCloseGivesUp(t *testing.T) {
	r := newRig(t, Options{progress: time.Minute, cut: time.Millisecond})
	began, finish := make(chan struct{}), make(chan struct{})
	r.answer(func(context.Context, *browserhost.Call) (*browserhost.Result, error) {
		close(began)
		<-finish
		return &browserhost.Result{}, nil
	})
	s := r.connect(ada, "", nil)
	answered := make(chan error, 1)
	go func() {
		_, err := s.CallTool(context.Background(), &sdk.CallToolParams{Name: "browser_act", Arguments: map[string]any{"action": "launch"}})
		answered <- err
	}()
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.h.Close(ctx); err == nil || !strings.Contains(err.Error(), "do not end") {
		t.Errorf("%v", err)
	}
	close(finish)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
