package browserhost

import (
	"errors"
	"fmt"
	"maps"
)

// Code is what a caller can act on. Codes are those of AIP-63 T4, AIP-14,
// seed 4's providers and the few of ours (design §5).
type Code string

// AIP-63 T4.
const (
	CodeUnsupported     Code = "browser:unsupported"
	CodeStarting        Code = "browser:starting" // the only retryable one of T4
	CodeNotReady        Code = "browser:not_ready"
	CodeCrashLooping    Code = "browser:crash_looping"
	CodeTargetGone      Code = "browser:target_gone"
	CodeConsentRequired Code = "browser:consent_required"
)

// Providers, and ours.
const (
	CodeProfileRefused  Code = "browser:profile-refused"
	CodeDisconnected    Code = "browser:disconnected"
	CodeStaleElement    Code = "browser:stale_element"
	CodeStalePage       Code = "browser:stale_page"
	CodeStaleBrowser    Code = "browser:stale_browser"
	CodeDialogOpen      Code = "browser:dialog_open"
	CodeBlockedByPolicy Code = "browser:blocked_by_policy"
	CodeBusy            Code = "browser:busy"
	CodeKeyring         Code = "keyring_unavailable"
)

// AIP-14 stock codes.
const (
	CodeInputInvalid Code = "input_invalid"
	CodeUnauthorised Code = "unauthorised"
	CodeAuthRequired Code = "auth_required"
	CodeNotFound     Code = "not_found"
	CodeRateLimited  Code = "rate_limited"
	CodeTimeout      Code = "timeout"
	CodeUpstream     Code = "upstream_error"
	CodeInternal     Code = "internal"
)

// Error is the one error that an agent may see. Message is plain, has no
// secret, path, pid, endpoint or CDP id in it, and gives a fact; hints belong
// to the edge. Cause is marshalled as an object.
type Error struct {
	Code      Code
	Message   string
	Retryable bool
	Cause     map[string]any
	Execution Execution // set on every error of an effect (contract F)
	Err       error     // the inner error: for the host's log, never for the caller
}

// Error implements error.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap gives the inner error to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// With returns e with one more fact in its cause. It changes e.
func (e *Error) With(key string, value any) *Error {
	if e.Cause == nil {
		e.Cause = map[string]any{}
	}
	e.Cause[key] = value
	return e
}

// State returns e with its execution state set. It changes e.
func (e *Error) State(s Execution) *Error {
	e.Execution = s
	if s == OutcomeUnknown { // S3.30
		e.Retryable = false
	}
	return e
}

// Errorf makes an error with a code. Wrap an inner error with %w only for the
// log: its text becomes part of Message, so it must be safe to show.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Retryable: code == CodeStarting || code == CodeRateLimited || code == CodeBusy}
}

// Hide makes an error whose inner error is kept for the log and never shown.
func Hide(code Code, err error, message string) *Error {
	return &Error{Code: code, Message: message, Err: err}
}

// AsError turns any error into one that may be shown. What is not ours becomes
// CodeInternal with a fixed message (AIP-63 C9): with cookies about, that is
// security, not taste.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return Hide(CodeInternal, err, "the host failed; its log has the reason")
}

// CodeOf returns the code of err, CodeInternal for a foreign error, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}

// Envelope is the AIP-14 answer, the same on every door (AIP-63 T3).
type Envelope struct {
	OK    bool           `json:"ok"`
	Value any            `json:"value,omitempty"`
	Error *EnvelopeError `json:"error,omitempty"`
}

// EnvelopeError is the error part of an [Envelope]. Cause holds
// execution_state where the operation was an effect.
type EnvelopeError struct {
	Code      Code           `json:"code"`
	Message   string         `json:"message"`
	Retryable bool           `json:"retryable"`
	Cause     map[string]any `json:"cause,omitempty"`
}

// Failure builds the envelope of an error.
func Failure(err error) Envelope {
	e := AsError(err)
	cause := maps.Clone(e.Cause)
	if e.Execution != "" {
		if cause == nil {
			cause = map[string]any{}
		}
		cause["execution_state"] = e.Execution
	}
	return Envelope{Error: &EnvelopeError{Code: e.Code, Message: e.Message, Retryable: e.Retryable, Cause: cause}}
}
