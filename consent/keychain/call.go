package keychain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"browserhost"
)

// A reason is why the keychain cannot be used; it is the error's cause.reason.
type reason string

const (
	noBus     reason = "no_session_bus"
	noService reason = "no_service"
	locked    reason = "locked"
	timeout   reason = "no_answer"
	busy      reason = "earlier_call_unanswered"
	damaged   reason = "damaged"
	noStore   reason = "no_such_store"
	failed    reason = "failed"
)

var sentences = map[reason]string{
	noBus:     "there is no session bus, so no keychain can be asked",
	noService: "no keychain service runs in this session",
	locked:    "the keychain is locked",
	timeout:   "the keychain did not answer in time",
	busy:      "the keychain has not answered an earlier call yet",
	damaged:   "the host secret in the keychain is damaged",
	noStore:   "the chosen store for secrets does not exist",
	failed:    "the keychain refused the call",
}

// unavailable makes the one error of this package. inner is for the log: a
// keychain's own words may name paths of the bus, never a secret.
func unavailable(why reason, inner error) *browserhost.Error {
	return browserhost.Hide(browserhost.CodeKeyring, inner, sentences[why]).With("reason", string(why))
}

type answer struct {
	value string
	err   error
}

// do runs op when its turn has come, and waits for both at most v.timeout. An
// op that is given up runs on and keeps the turn until it returns; once it has
// run for the whole time-out, callers are refused at once instead of queueing
// behind it. So at most one goroutine is ever inside the keychain's library.
func (v *Vault) do(ctx context.Context, op func() (string, error)) (string, error) {
	if v.stuck() {
		return "", unavailable(busy, nil)
	}
	ctx, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return "", unavailable(timeout, ctx.Err())
	}
	if ctx.Err() != nil { // both were ready
		<-v.turn
		return "", unavailable(timeout, ctx.Err())
	}
	done := make(chan answer, 1)
	v.running(time.Now())
	go func() {
		value, err := guarded(op)
		v.running(time.Time{})
		<-v.turn
		done <- answer{value, err}
	}()
	select {
	case got := <-done:
		return got.value, classify(got.err)
	case <-ctx.Done():
		return "", unavailable(timeout, ctx.Err())
	}
}

func (v *Vault) running(since time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.since = since
}

func (v *Vault) stuck() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !v.since.IsZero() && time.Since(v.since) >= v.timeout
}

// guarded turns a panic of the library into an error: it dereferences nil when
// the bus goes away while a prompt is open, and asserts types that a strange
// service need not send.
func guarded(op func() (string, error)) (value string, err error) {
	defer func() {
		if p := recover(); p != nil {
			value, err = "", fmt.Errorf("keychain: the library panicked: %v", p)
		}
	}()
	return op()
}

// classify maps the library's errors, of which only the missing item is typed.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrMissing) {
		return browserhost.Hide(browserhost.CodeNotFound, err, "the keychain has no such item")
	}
	if e, ok := errors.AsType[*browserhost.Error](err); ok {
		return e
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "failed to unlock"), strings.Contains(text, "IsLocked"):
		return unavailable(locked, err)
	case strings.Contains(text, "was not provided"), strings.Contains(text, "ServiceUnknown"):
		return unavailable(noService, err)
	}
	return unavailable(failed, err)
}
