package chrome

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"browserhost"
	"browserhost/providers/cdp"
	"browserhost/providers/proc"
)

// Times of an instance.
const (
	healthTime = 5 * time.Second // for an answer, where the caller has more patience
	closeTime  = 5 * time.Second // from the polite word, or the end of the pipe, to the end of the process
)

// instance is one running browser. It implements [browserhost.Instance].
type instance struct {
	process *proc.Process
	browser *cdp.Browser
	product string // "Chrome/156.0.8078.114"
	dir     string
	boot    string
	log     *slog.Logger

	rush  sync.Once
	hurry chan struct{} // closed when the end may not take its time
	told  sync.Once     // how many were swept is told once

	lost   chan struct{} // closed last, by watch
	reason error         // from here on read after lost
	swept  int
	err    error
}

func newBootID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// watch is there when the browser ends, in whatever way, and clears up after
// it: the process, what else carries its key, the profile. Then it is lost.
func (i *instance) watch() {
	defer close(i.lost)
	select {
	case <-i.process.Done():
	case <-i.hurry:
	case <-i.browser.Lost(): // its end follows, or it hangs
		leave := time.NewTimer(closeTime)
		defer leave.Stop()
		select {
		case <-i.process.Done():
		case <-i.hurry:
		case <-leave.C:
		}
	}
	i.swept, i.err = i.process.Stop(context.Background(), true)
	i.err = errors.Join(i.err, i.browser.Close(), removeProfile(i.dir))
	i.reason = i.describe()
}

// describe says how the browser ended, in words that anybody may read; the
// inner error has the rest, for the log.
func (i *instance) describe() error {
	e := browserhost.Hide(browserhost.CodeDisconnected, nil, fmt.Sprintf("the browser ended (%s)", i.process.Exit()))
	for _, line := range i.process.Stderr() {
		e.Err = errors.Join(e.Err, errors.New(line))
	}
	if words := lastWords(i.process.Stderr()); words != "" {
		e.Message += "; its last words: " + words
	}
	return e
}

func (i *instance) BootID() string { return i.boot }

// Health asks the browser for its version, which opens nothing (AIP-63 L4).
func (i *instance) Health(ctx context.Context) browserhost.Health {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	h := browserhost.Health{State: browserhost.Healthy, BootID: i.boot}
	if _, err := i.browser.Version(ctx); err != nil {
		h.State, h.Reason = browserhost.Degraded, "the browser does not answer"
	}
	select {
	case <-i.lost:
		h.State, h.Reason = browserhost.Stopped, i.reason.Error()
	default:
	}
	h.CheckedAt = time.Now()
	return h
}

// Attach opens one isolated context; a browser that is gone has none (AIP-63 L3).
func (i *instance) Attach(ctx context.Context, opts browserhost.AttachOptions) (browserhost.Driver, error) {
	select {
	case <-i.lost:
		return nil, notReady(i.reason, "the browser has ended").With("state", string(browserhost.Stopped))
	default:
		return i.browser.Attach(ctx, opts)
	}
}

// Stop asks the browser to close and waits for five seconds or until ctx ends;
// then, or at once with force, it is killed with its tree (AIP-63 L5). When it
// returns neither a process nor the profile is left, unless err says so.
func (i *instance) Stop(ctx context.Context, force bool) (swept int, err error) {
	if !force {
		asked, cancel := context.WithTimeout(ctx, closeTime)
		defer cancel()
		if i.browser.Shutdown(asked) == nil {
			select {
			case <-i.lost:
			case <-asked.Done():
			}
		}
	}
	i.rush.Do(func() { close(i.hurry) })
	<-i.lost
	i.told.Do(func() { swept, err = i.swept, i.err })
	return swept, err
}

func (i *instance) Lost() <-chan struct{} { return i.lost }

func (i *instance) LostReason() error {
	select {
	case <-i.lost:
		return i.reason
	default:
		return nil
	}
}
