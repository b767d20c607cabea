package demo

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"browserhost/cmd/internal/fixsite"
	"browserhost/cmd/internal/wire"
	"browserhost/host/operator"
)

// The one site of the story.
const (
	site    = "shop.test"
	private = "https://shop.test/private"
)

// story is what the steps share.
type story struct {
	dir     string
	version string
	log     *slog.Logger

	site  *fixsite.Site
	owner string // the owner's user data directory
	app   *wire.App
	desk  *operator.Desk
	asked chan operator.Request // requests as they are filed

	a, b       *agent
	deviceA    operator.Paired
	answered   chan asked // what request_access answered A
	grant      operator.Granted
	anonymousA string // page ids
	signedInA  string
	seen       bytes.Buffer // every byte that the host answered an agent
	seenLock   sync.Mutex
	closers    []func(context.Context) error
}

type asked struct {
	answer answer
	err    error
}

func (s *story) home() string { return filepath.Join(s.dir, "host") }

// remember keeps what an agent was answered, for the canary search.
func (s *story) remember(raw []byte) {
	s.seenLock.Lock()
	defer s.seenLock.Unlock()
	s.seen.Write(raw)
	s.seen.WriteByte('\n')
}

// atEnd registers what must be closed, the last first.
func (s *story) atEnd(f func(context.Context) error) { s.closers = append(s.closers, f) }

func (s *story) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var problems []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		problems = append(problems, s.closers[i](ctx))
	}
	s.closers = nil
	return errors.Join(problems...)
}

// logFile is the host's log: a file that the last step searches.
type logFile struct {
	dir string
	mu  sync.Mutex
}

const logName = "demo.log"

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.OpenFile(filepath.Join(l.dir, logName), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := f.Write(p)
	return n, errors.Join(err, f.Close())
}
