package extract

import (
	"context"

	"browserhost"
)

// Secrets finds the passwords under which a browser may have encrypted its
// cookies. [SecretService] is the one of Linux.
type Secrets interface {
	// Passwords is called at most once per read, and only when a row needs it.
	// It asks for no unlocking, shows no window, and is bounded. That a keyring
	// holds nothing of the browser is no error; that it cannot be asked is one,
	// with CodeKeyring.
	Passwords(ctx context.Context, browser string) (Passwords, error)
}

// Passwords are candidates, the likeliest first.
type Passwords struct {
	Found  []browserhost.Secret
	Locked bool // there is more behind a lock
}

// A reason is why a keyring cannot be used; it is the error's cause.reason.
type reason string

const (
	noBus         reason = "no_session_bus"
	noService     reason = "no_service"
	lockedKeyring reason = "locked"
	noAnswer      reason = "no_answer"
	failed        reason = "failed"
)

var sentences = map[reason]string{
	noBus:         "there is no session bus, so the keyring with the browser's key cannot be asked",
	noService:     "no keyring service runs in this session, so the browser's key cannot be read",
	lockedKeyring: "the keyring with the browser's key is locked",
	noAnswer:      "the keyring with the browser's key did not answer in time",
	failed:        "the keyring with the browser's key refused the call",
}

func unavailable(why reason, inner error) *browserhost.Error {
	return browserhost.Hide(browserhost.CodeKeyring, inner, sentences[why]).With("reason", string(why))
}
