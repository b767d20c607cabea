package demo

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agent is a program on this computer that speaks MCP to the host, as any
// agent would: the official SDK's client and a device bearer, nothing of ours.
type agent struct {
	name     string
	session  *mcp.ClientSession
	remember func(raw []byte) // told of everything that the host answered
}

// bearing adds the device bearer to each request of an agent.
type bearing struct {
	bearer string
	next   http.RoundTripper
}

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.bearer)
	return b.next.RoundTrip(r)
}

// connect opens an MCP session at url, e.g. "http://127.0.0.1:8863/mcp".
func connect(ctx context.Context, name, url, bearer string) (*agent, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:             url,
		HTTPClient:           &http.Client{Transport: bearing{bearer, http.DefaultTransport}},
		MaxRetries:           -1,
		DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("agent %s could not connect: %w", name, err)
	}
	return &agent{name, session, func([]byte) {}}, nil
}

func (a *agent) close() { a.session.Close() }

// refusal is a tool's typed error as an agent sees it.
type refusal struct {
	Code    string
	Message string
	Cause   map[string]any
}

func (r *refusal) Error() string { return r.Code + ": " + r.Message }

// answer is what the demo reads of the tools' answers.
type answer struct {
	ExecutionState string `json:"execution_state"`
	BrowserID      string `json:"browser_id"`
	PageID         string `json:"page_id"`
	Page           struct {
		PageID string `json:"page_id"`
		URL    string `json:"url"`
		Title  string `json:"title"`
	} `json:"page"`
	Text   string `json:"text"`
	Status string `json:"status"`

	OK    *bool `json:"ok"`
	Error *struct {
		Code    string         `json:"code"`
		Message string         `json:"message"`
		Cause   map[string]any `json:"cause"`
	} `json:"error"`

	picture []byte
}

type args map[string]any

// call calls one tool. A typed refusal is returned as *refusal.
func (a *agent) call(ctx context.Context, tool string, arguments args) (answer, error) {
	res, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any(arguments)})
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", tool, err)
	}
	var out answer
	raw, err := json.Marshal(res)
	if err != nil {
		return out, err
	}
	a.remember(raw)
	structured, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(structured, &out); err != nil {
		return out, fmt.Errorf("%s answered in an unknown shape: %w", tool, err)
	}
	for _, c := range res.Content {
		if img, ok := c.(*mcp.ImageContent); ok {
			out.picture = img.Data
		}
	}
	if res.IsError {
		if out.Error == nil {
			return out, errors.New(tool + ": failed without a typed error")
		}
		return out, &refusal{out.Error.Code, out.Error.Message, out.Error.Cause}
	}
	return out, nil
}

func (a *agent) act(ctx context.Context, action string, more args) (answer, error) {
	return a.call(ctx, "browser_act", with(action, more))
}

func (a *agent) observe(ctx context.Context, action string, more args) (answer, error) {
	return a.call(ctx, "browser_observe", with(action, more))
}

func with(action string, more args) args {
	all := args{"action": action}
	for k, v := range more {
		all[k] = v
	}
	return all
}

// open launches a browser with the given options and opens a page in it.
func (a *agent) open(ctx context.Context, url string, launch args) (page string, err error) {
	b, err := a.act(ctx, "launch", launch)
	if err != nil {
		return "", err
	}
	p, err := a.act(ctx, "new_page", args{"browser_id": b.BrowserID, "url": url})
	return p.PageID, err
}

// sees checks that the page shows a text.
func (a *agent) sees(ctx context.Context, page, text string) error {
	s, err := a.observe(ctx, "snapshot", args{"page_id": page})
	if err != nil {
		return err
	}
	if !strings.Contains(s.Text, text) {
		return fmt.Errorf("%s does not see %q but:\n%s", a.name, text, s.Text)
	}
	return nil
}

// press clicks the button of that name.
func (a *agent) press(ctx context.Context, page, name string) (answer, error) {
	s, err := a.observe(ctx, "snapshot", args{"page_id": page})
	if err != nil {
		return answer{}, err
	}
	ref, err := refOf(s.Text, name)
	if err != nil {
		return answer{}, err
	}
	return a.act(ctx, "click", args{"page_id": page, "element_id": ref})
}
