package rest

import (
	"encoding/base64"
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"

	"browserhost"
)

// statuses is the only table from code to HTTP status. It is for requests that
// became no call; what reached the line is 200 (contract G).
var statuses = map[browserhost.Code]int{
	browserhost.CodeInputInvalid: http.StatusBadRequest,
	browserhost.CodeAuthRequired: http.StatusUnauthorized,
	browserhost.CodeUnauthorised: http.StatusForbidden,
	browserhost.CodeNotFound:     http.StatusNotFound,
	browserhost.CodeRateLimited:  http.StatusTooManyRequests,
}

// errMethod is a wrong method: a code of its own would say no more than 405.
type errMethod struct{ error }

// wrongMethod says which method a route takes.
func wrongMethod(w http.ResponseWriter, allow string) error {
	w.Header().Set("Allow", allow)
	return errMethod{browserhost.Errorf(browserhost.CodeInputInvalid, "this route takes %s", allow)}
}

func (e errMethod) Unwrap() error { return e.error }

// failed answers a request that became no call.
func failed(w http.ResponseWriter, err error) {
	status, ok := statuses[browserhost.CodeOf(err)]
	if !ok {
		status = http.StatusInternalServerError
	}
	if _, method := err.(errMethod); method {
		status = http.StatusMethodNotAllowed
	}
	write(w, status, failure(err))
}

// answer answers a call with status 200 and the envelope.
func answer(w http.ResponseWriter, call *browserhost.Call, result *browserhost.Result, err error) {
	var body []byte
	if err == nil {
		body, err = frame(result)
		if err != nil && browserhost.ActionOf(call.Operation).Effect {
			err = browserhost.AsError(err).State(browserhost.Completed) // done; only its answer could not be made
		}
	}
	if err != nil {
		body = failure(err)
	}
	write(w, http.StatusOK, body)
}

// success is the envelope of a value, whose "value" is there even when empty.
type success struct {
	OK    bool `json:"ok"`
	Value any  `json:"value"`
}

// failure is the envelope of an error.
func failure(err error) []byte {
	body, encodeErr := encode(browserhost.Failure(err))
	if encodeErr != nil { // its cause: what remains has none
		body, _ = encode(browserhost.Failure(encodeErr))
	}
	return body
}

// frame is the one framing of an answer, pictures included (S3.35): the value
// as the line encoded it and, where there is a picture, content_delivery and
// data (base64) beside its facts.
func frame(result *browserhost.Result) ([]byte, error) {
	if result == nil {
		return nil, errors.New("the line answered nothing")
	}
	if result.Image == nil {
		return encode(success{true, result.Value})
	}
	facts := map[string]any{}
	value, err := encode(result.Value)
	if err == nil {
		err = json.Unmarshal(value, &facts)
	}
	if err != nil {
		return nil, fmt.Errorf("the facts of a picture: %w", err)
	}
	facts["content_delivery"] = "base64"
	facts["data"] = base64.StdEncoding.EncodeToString(result.Image.Data)
	return encode(success{true, facts})
}

// encode makes JSON of at most MaxAnswer bytes (contract B).
func encode(v any) ([]byte, error) {
	body, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	if len(body) > browserhost.MaxAnswer {
		return nil, browserhost.Errorf(browserhost.CodeUpstream, "the answer is larger than %d bytes", browserhost.MaxAnswer)
	}
	return body, nil
}

func write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}
