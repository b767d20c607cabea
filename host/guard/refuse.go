package guard

import (
	"encoding/json/v2"
	"log/slog"
	"net/http"

	"browserhost"
)

// Sentence is what a client without a valid credential is told. It is the
// whole answer: nothing says which of missing, malformed, unknown and revoked
// it was (S1.56).
const Sentence = "open Browser Host → Connect an agent"

// refusals are the bodies of the wall, made once so that two refusals of one
// kind cannot differ.
var refusals = map[int][]byte{
	http.StatusUnauthorized:          body(browserhost.CodeAuthRequired, Sentence),
	http.StatusForbidden:             body(browserhost.CodeUnauthorised, "this request is not served"),
	http.StatusRequestEntityTooLarge: body(browserhost.CodeInputInvalid, "the request is larger than 4 MiB"),
}

func body(code browserhost.Code, message string) []byte {
	b, err := json.Marshal(browserhost.Failure(browserhost.Errorf(code, "%s", message)), json.Deterministic(true))
	if err != nil {
		panic(err) // constants marshal
	}
	return append(b, '\n')
}

// refuse answers with the fixed body of a status and ends the connection,
// whose next bytes may be the rest of what was refused.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	// No header value and no path: a stranger does not write into the log.
	g.opts.Log.Log(r.Context(), levelOf(status), "refused", "status", status, "why", why, "method", r.Method)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Connection", "close")
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="browserhost"`)
	}
	w.WriteHeader(status)
	w.Write(refusals[status])
}

// levelOf: a missing credential is everyday, a page that knocks is not.
func levelOf(status int) slog.Level {
	if status == http.StatusForbidden {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
