//go:build real

package cdp

import (
	"bufio"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"browserhost"
)

// chromium is a browser with one page, over the pipe, and no more of the
// protocol than a walker's world takes: the walker is tested by itself.
type chromium struct {
	t       testing.TB
	out     io.WriteCloser
	session string
	frame   string

	mu      sync.Mutex
	last    int
	waiting map[int]chan message
	loader  string
	loaded  chan struct{} // closed and replaced at every load event
	worlds  map[string]int
}

type message struct {
	ID     int            `json:"id,omitzero"`
	Method string         `json:"method,omitzero"`
	Params jsontext.Value `json:"params,omitzero"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  jsontext.Value `json:"error,omitzero"`

	SessionID string `json:"sessionId,omitzero"`
}

// openChromium starts a browser that ends with the test. It reaches loopback
// and nothing else.
func openChromium(t testing.TB) *chromium {
	t.Helper()
	theirs1, ours1, err1 := os.Pipe()
	ours2, theirs2, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("chromium-headless-shell", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
		"--user-data-dir="+t.TempDir(), "--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--window-size=1280,720", "--password-store=basic",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "about:blank")
	cmd.ExtraFiles = []*os.File{theirs1, theirs2}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs1.Close()
	theirs2.Close()
	c := &chromium{t: t, out: ours1, waiting: map[int]chan message{}, loaded: make(chan struct{}), worlds: map[string]int{}}
	var reading sync.WaitGroup
	reading.Go(func() { c.read(ours2) })
	t.Cleanup(func() {
		c.send("", "Browser.close", nil)
		cmd.Wait()
		ours1.Close()
		reading.Wait()
		ours2.Close()
	})
	var made struct {
		TargetID string `json:"targetId"`
	}
	c.must("Target.createTarget", map[string]any{"url": "about:blank", "newWindow": true}, &made)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	c.must("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	c.must("Page.enable", nil, nil)
	c.must("Runtime.enable", nil, nil)
	c.must("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}, nil)
	var tree struct {
		FrameTree struct {
			Frame struct{ ID, LoaderID string } `json:"frame"`
		} `json:"frameTree"`
	}
	got, err := c.send(c.session, "Page.getFrameTree", nil)
	if err != nil || json.Unmarshal(got, &tree, json.MatchCaseInsensitiveNames(true)) != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.frame, c.loader = tree.FrameTree.Frame.ID, tree.FrameTree.Frame.LoaderID
	c.mu.Unlock()
	return c
}

func (c *chromium) read(in io.Reader) {
	r := bufio.NewReaderSize(in, 1<<16)
	for {
		frame, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(frame[:len(frame)-1], &m, jsontext.AllowInvalidUTF8(true)); err != nil {
			c.t.Errorf("a frame: %v", err)
			return
		}
		c.mu.Lock()
		switch {
		case m.ID != 0:
			if w := c.waiting[m.ID]; w != nil {
				delete(c.waiting, m.ID)
				w <- m
			}
		case m.Method == "Page.frameNavigated":
			var p struct {
				Frame struct{ ID, LoaderID string } `json:"frame"`
			}
			if json.Unmarshal(m.Params, &p, json.MatchCaseInsensitiveNames(true)) == nil && p.Frame.ID == c.frame {
				c.loader = p.Frame.LoaderID
			}
		case m.Method == "Page.loadEventFired":
			close(c.loaded)
			c.loaded = make(chan struct{})
		}
		c.mu.Unlock()
	}
}

func (c *chromium) send(session, method string, params any) (jsontext.Value, error) {
	c.mu.Lock()
	c.last++
	id, answer := c.last, make(chan message, 1)
	c.waiting[id] = answer
	c.mu.Unlock()
	m := map[string]any{"id": id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if session != "" {
		m["sessionId"] = session
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if _, err := c.out.Write(append(b, 0)); err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return nil, errors.New(string(m.Error))
		}
		return m.Result, nil
	case <-time.After(20 * time.Second):
		return nil, browserhost.Errorf(browserhost.CodeTimeout, "%s has no answer", method)
	}
}

func (c *chromium) must(method string, params, into any) {
	c.t.Helper()
	got, err := c.send(c.session, method, params)
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	if into != nil {
		if err := json.Unmarshal(got, into); err != nil {
			c.t.Fatal(err)
		}
	}
}

// open navigates and waits for the load event.
func (c *chromium) open(url string) {
	c.t.Helper()
	c.after(func() {
		var r struct {
			ErrorText string `json:"errorText"`
		}
		c.must("Page.navigate", map[string]any{"url": url}, &r)
		if r.ErrorText != "" {
			c.t.Fatalf("%s: %s", url, r.ErrorText)
		}
	})
}

// after waits for the load event that act leads to.
func (c *chromium) after(act func()) {
	c.t.Helper()
	c.mu.Lock()
	loaded := c.loaded
	c.mu.Unlock()
	act()
	select {
	case <-loaded:
	case <-time.After(20 * time.Second):
		c.t.Fatal("the page does not load")
	}
}

// html opens a page of this source.
func (c *chromium) html(source string) {
	c.t.Helper()
	c.open("about:blank")
	c.must("Page.setDocumentContent", map[string]any{"frameId": c.frame, "html": source}, nil)
}

// run runs a script of the page's own and returns what it gives.
func (c *chromium) run(expression string) string {
	c.t.Helper()
	v, err := c.evaluate(0, expression, 10*time.Second)
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.Trim(string(v), `"`)
}

func (c *chromium) evaluate(context int, expression string, limit time.Duration) (jsontext.Value, error) {
	params := map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "timeout": limit.Milliseconds()}
	if context != 0 {
		params["contextId"] = context
	}
	got, err := c.send(c.session, "Runtime.evaluate", params)
	if err != nil {
		return nil, err
	}
	var r struct {
		Result struct {
			Value jsontext.Value `json:"value"`
		} `json:"result"`
		ExceptionDetails jsontext.Value `json:"exceptionDetails"`
	}
	if err := json.Unmarshal(got, &r); err != nil {
		return nil, err
	}
	if r.ExceptionDetails != nil {
		return nil, errors.New(string(r.ExceptionDetails))
	}
	return r.Result.Value, nil
}

func (c *chromium) document() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loader
}

func (c *chromium) eval(_ context.Context, expression string, limit time.Duration) (jsontext.Value, error) {
	loader := c.document()
	c.mu.Lock()
	id := c.worlds[loader]
	c.mu.Unlock()
	if id == 0 {
		var made struct {
			ExecutionContextID int `json:"executionContextId"`
		}
		c.must("Page.createIsolatedWorld", map[string]any{"frameId": c.frame, "worldName": walkerWorld}, &made)
		id = made.ExecutionContextID
		c.mu.Lock()
		c.worlds[loader] = id
		c.mu.Unlock()
	}
	v, err := c.evaluate(id, expression, limit)
	if err != nil && (strings.Contains(err.Error(), "Cannot find context") || strings.Contains(err.Error(), "context was destroyed")) {
		return nil, errors.Join(errDocumentGone, err)
	}
	return v, err
}
