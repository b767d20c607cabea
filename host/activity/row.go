package activity

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/url"
	"strings"

	"browserhost"
)

// Row is one call as it is remembered. Its fields are all that a row may hold:
// ids, names of operations, counts, lengths, digests, the state of an effect.
// There is no field for page text, link text, pictures, typed text, paths,
// endpoints or the query of an address, so none can be written (S3.32, S3.33).
type Row struct {
	At        string `json:"at"`               // when the call came, browserhost.TimeLayout
	CallID    string `json:"call_id,omitzero"` // of a tool call
	Protocol  string `json:"protocol"`         // "browser", "mcp" or "http" (contract H)
	Direction string `json:"direction"`        // "outbound" to a browser, "inbound" to the host
	Door      string `json:"door,omitzero"`    // "mcp" or "http"
	Method    string `json:"method"`           // the exact operation, or the protocol's method
	Tool      string `json:"tool,omitzero"`    // the name that the caller used, where there is such a tool

	Actor  browserhost.Kind     `json:"actor"`
	Device browserhost.DeviceID `json:"device,omitzero"`
	Run    string               `json:"run,omitzero"`

	BrowserID string `json:"browser_id,omitzero"`
	PageID    string `json:"page_id,omitzero"`
	ElementID string `json:"element_id,omitzero"`
	GrantID   string `json:"grant_id,omitzero"`
	RequestID string `json:"request_id,omitzero"`
	Peer      string `json:"peer,omitzero"` // the page's host name, without port, path or query

	InputText  *Presence `json:"input_text,omitzero"`  // S3.34
	URLPresent bool      `json:"url_present,omitzero"` // S3.34
	Sites      int       `json:"sites,omitzero"`       // how many sites were named
	Image      *Picture  `json:"image,omitzero"`
	Request    *Extent   `json:"request,omitzero"`
	Response   *Extent   `json:"response,omitzero"`

	OK        bool                  `json:"ok"`
	Code      browserhost.Code      `json:"code,omitzero"`
	Execution browserhost.Execution `json:"execution_state,omitzero"`
	LatencyMS int64                 `json:"latency_ms"`
	Lost      int                   `json:"lost,omitzero"` // rows that could not be written before this one
}

// Presence says of a text that it was there, and how long it was.
type Presence struct {
	Present bool `json:"present"`
	Bytes   int  `json:"bytes"`
}

// Picture is what is kept of a picture.
type Picture struct {
	MIME   string `json:"mime"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Extent is what is kept of a request or a response. The digest is taken of
// the RFC 8785 form under the host's own secret, because a plain digest of a
// short request could be guessed from its text. Without a keychain there is none.
type Extent struct {
	Bytes  int    `json:"bytes"`
	Digest string `json:"digest,omitzero"` // "hmac-sha256:" and 64 hex digits
}

// The names of the doors' own calls, and of tool calls, in the record.
const (
	ProtocolBrowser = "browser"
	ProtocolMCP     = "mcp"
	ProtocolHTTP    = "http"
)

// maxID bounds an id that a caller made up.
const maxID = 64

// describe fills what is known of a call from its arguments.
func (r *Row) describe(call *browserhost.Call) {
	a := call.Args
	r.BrowserID, r.PageID, r.ElementID = plain(a.BrowserID), plain(a.PageID), plain(a.ElementID)
	r.GrantID, r.RequestID = plain(a.GrantID), plain(a.RequestID)
	r.Method, r.Tool = "unknown", ""
	for _, t := range browserhost.Tools {
		if t.Name == call.Tool {
			r.Tool, r.Method = t.Name, t.Name
		}
	}
	if call.Operation != "" {
		r.Method = string(call.Operation)
	}
	if call.Operation == browserhost.OpInputText {
		r.InputText = &Presence{Present: a.Text != "", Bytes: len(a.Text)}
	}
	r.URLPresent = a.URL != ""
	r.Peer = hostOf(a.URL)
	r.Sites = len(a.Sites) + len(a.Domains)
}

// learn fills what the answer says: the state of the effect and the page's host.
func (r *Row) learn(value jsontext.Value) {
	var facts struct {
		Execution browserhost.Execution `json:"execution_state"`
		URL       string                `json:"url"`
		Page      struct {
			URL string `json:"url"`
		} `json:"page"`
	}
	// An answer of another form has none of these facts.
	if err := json.Unmarshal(value, &facts); err != nil {
		return
	}
	switch facts.Execution {
	case browserhost.NotStarted, browserhost.Completed, browserhost.OutcomeUnknown:
		r.Execution = facts.Execution
	}
	for _, u := range []string{facts.Page.URL, facts.URL} {
		if host := hostOf(u); host != "" {
			r.Peer = host
			return
		}
	}
}

// hostOf returns the host name of an address, "" where there is none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || len(u.Hostname()) > 253 {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// plain keeps an id that has the form of one, and nothing else: what a caller
// puts in a field called page_id need not be an id.
func plain(id string) string {
	if len(id) > maxID {
		return ""
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return ""
		}
	}
	return id
}
