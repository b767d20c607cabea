package operator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"browserhost"
)

// The bounds of control.sock.
const (
	maxLine  = 64 << 10         // bytes of a request
	maxOpen  = 16               // connections at a time; one more is told that the door is busy
	lineTime = 10 * time.Second // to send a request, or to take a reply
	verbTime = 2 * time.Minute  // to do what it says: an import reads and seals many cookies
)

// Options are what the door must know of the machine to tell a person from a
// program. A nil ClientOf or HasTerminal means that nobody is a person.
type Options struct {
	// ClientOf says which device the process, or any of its ancestors, has
	// spoken as.
	ClientOf func(pid int) (browserhost.Device, bool)
	// HasTerminal says whether the process has a controlling terminal.
	HasTerminal func(pid int) bool
	// Closed refuses the wide half to everybody (operator.cli: off).
	Closed bool
	// Deny records an attempt that was refused. The reason names the
	// verb and never what was asked for.
	Deny func(ctx context.Context, by browserhost.Actor, reason string) error
	Log  *slog.Logger // nil logs nothing
}

// Serve answers control.sock until ctx ends: one JSON object on a line, one
// reply on a line, in order. It closes the listener, waits for what has begun,
// and returns nil when it was ctx that ended it.
//
// A connection of another user is refused. The narrow verbs work for any
// process of this one. The wide verbs need a person (S1.44, AIP-63 C7): the
// process has a controlling terminal, neither it nor an ancestor has spoken as
// a device, and confirm repeats what is being widened (sources and scan, which
// change nothing, go without). A refused attempt changes nothing and is
// recorded.
func Serve(ctx context.Context, l *Listener, desk *Desk, opts Options) error {
	s := &server{desk: desk.through("cli"), opts: opts, log: opts.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer s.open.Wait()
	slots := make(chan struct{}, maxOpen)
	for {
		conn, err := l.net.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if isTemporary(err) { // out of descriptors: the next close frees one
				s.log.Warn("control.sock", "error", err)
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
				continue
			}
			return errors.Join(err, l.Close())
		}
		select {
		case slots <- struct{}{}:
			s.open.Go(func() {
				defer func() { <-slots }()
				s.serve(ctx, conn)
			})
		default:
			s.reply(conn, browserhost.Failure(browserhost.Errorf(browserhost.CodeBusy, "too many programs are at the owner's door")))
			conn.Close()
		}
	}
}

func isTemporary(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && t.Temporary()
}

type server struct {
	desk *Desk
	opts Options
	log  *slog.Logger
	open sync.WaitGroup
}

// serve answers one connection.
func (s *server) serve(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close()
	who, err := peerOf(conn)
	if err == nil {
		defer who.close()
		err = sameUser(who)
	}
	if err != nil {
		s.log.Warn("control.sock refused a connection", "error", err)
		s.reply(conn, browserhost.Failure(err))
		return
	}
	// When the host ends, waiting for a line ends; a reply is still written.
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	lines := bufio.NewReaderSize(conn, maxLine+1) // the line and its end
	for {
		conn.SetReadDeadline(time.Now().Add(lineTime))
		if ctx.Err() != nil {
			return
		}
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			_, _, err := decode(line)
			s.reply(conn, browserhost.Failure(err))
			return
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return
		}
		if !s.reply(conn, s.answer(ctx, who, line)) || err != nil {
			return
		}
	}
}

// sameUser refuses a process of another user, root included (S1.44).
func sameUser(who *peer) error {
	if who.uid != os.Geteuid() {
		return browserhost.Errorf(browserhost.CodeUnauthorised, "this door is of another user")
	}
	return nil
}

// reply writes one line and reports whether it could.
func (s *server) reply(conn *net.UnixConn, value any) bool {
	out, err := json.Marshal(value)
	if err == nil && len(out) >= browserhost.MaxAnswer {
		err = browserhost.Errorf(browserhost.CodeInternal, "the answer is larger than %d bytes", browserhost.MaxAnswer)
	}
	if err != nil {
		s.log.Error("control.sock", "error", err)
		if out, err = json.Marshal(browserhost.Failure(err)); err != nil {
			return false
		}
	}
	conn.SetWriteDeadline(time.Now().Add(lineTime))
	_, err = conn.Write(append(out, '\n'))
	return err == nil
}

// answer does what a line says, if whoever sent it may.
func (s *server) answer(ctx context.Context, who *peer, line []byte) any {
	ctx, cancel := context.WithTimeout(ctx, verbTime)
	defer cancel()
	v, h, err := decode(bytes.TrimSuffix(line, []byte("\n")))
	if err == nil && v.human {
		err = s.person(ctx, who, v, h)
	}
	var value any
	if err == nil {
		value, err = v.do(ctx, s.desk, h.Rest)
	}
	if err != nil {
		if browserhost.CodeOf(err) == browserhost.CodeInternal {
			s.log.Error("control.sock", "op", v.name, "error", err)
		}
		return browserhost.Failure(err)
	}
	return value
}
