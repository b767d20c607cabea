//go:build unix

package operator

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"browserhost"
)

// Every verb with arguments that are right, and what a person types for it.
var asked = map[string]struct{ args, subject string }{
	"status":         {"", ""},
	"devices":        {"", ""},
	"device.revoke":  {`,"id":"` + string(ada.ID) + `"`, ""},
	"grants":         {"", ""},
	"revoke":         {`,"id":"grant_1"`, ""},
	"requests":       {"", ""},
	"deny":           {`,"id":"r1"`, ""},
	"ledger.info":    {"", ""},
	"stop":           {"", ""},
	"sources":        {"", ""},
	"scan":           {`,"source":"chrome/Default"`, ""},
	"grant":          {`,"device":"` + string(ada.ID) + `","domains":["shop.test","mail.test"]`, "shop.test mail.test"},
	"requests.allow": {`,"requestId":"r1"`, "mail.test shop.test"},
	"pair":           {`,"name":"codex"`, "codex"},
}

var widens = []string{"sources", "scan", "grant", "requests.allow", "pair"}

// S1.44, D22, AIP-63 C7: every verb, with everything that may be missing. The
// narrow half always works; the wide half works only when nothing is missing,
// and otherwise changes nothing and leaves one deny row.
func TestOnlyAPersonWidens(t *testing.T) {
	if len(asked) != len(verbs) {
		t.Fatalf("%d verbs are asked for, %d exist", len(asked), len(verbs))
	}
	type world struct{ terminal, client, closed, blind bool }
	var worlds []world
	for i := range 16 {
		worlds = append(worlds, world{i&1 > 0, i&2 > 0, i&4 > 0, i&8 > 0})
	}
	for _, w := range worlds {
		h := newHouse()
		opts := Options{
			ClientOf: func(pid int) (browserhost.Device, bool) {
				if pid != os.Getpid() {
					t.Errorf("asked about process %d, not %d", pid, os.Getpid())
				}
				if w.client {
					return ada, true
				}
				return browserhost.Device{}, false
			},
			HasTerminal: func(int) bool { return w.terminal },
			Closed:      w.closed,
			Deny:        h.deny,
		}
		if w.blind {
			opts.ClientOf = nil
		}
		door := raw(t, open(t, h, opts))
		for name, a := range asked {
			wide := slices.Contains(widens, name)
			for _, confirm := range []string{a.subject, "", a.subject + " ", strings.ToUpper(a.subject), "yes"} {
				h.forget()
				text := `{"op":"` + name + `"` + a.args + `}`
				if confirm != "" {
					text = `{"op":"` + name + `","confirm":"` + confirm + `"` + a.args + `}`
				}
				got := door.ask(t, text+"\n")
				may := !wide || w.terminal && !w.client && !w.closed && !w.blind && (a.subject == "" || confirm == a.subject)
				what := fmt.Sprintf("%+v %s", w, text)
				if got.OK != may {
					t.Errorf("%s: ok is %v", what, got.OK)
				}
				if may {
					if len(h.denials()) > 0 || name != "requests" && len(h.deeds()) != 1 {
						t.Errorf("%s: done %v, denied %v", what, h.deeds(), h.denials())
					}
					continue
				}
				if len(h.deeds()) > 0 {
					t.Errorf("%s: done %v", what, h.deeds())
				}
				if got.Error == nil || got.Error.Code != browserhost.CodeUnauthorised {
					t.Errorf("%s: %+v", what, got.Error)
				}
				checkDenial(t, what, h.denials(), name, w.client && !w.closed && !w.blind)
			}
		}
	}
}

// checkDenial wants one row, by the device where it is known.
func checkDenial(t *testing.T, what string, rows []denial, verb string, byDevice bool) {
	t.Helper()
	if len(rows) != 1 || !strings.HasPrefix(rows[0].reason, verb+" ") {
		t.Errorf("%s: rows %+v", what, rows)
		return
	}
	want := browserhost.Actor{Kind: browserhost.System, Via: "cli"}
	if byDevice {
		want = browserhost.Actor{Kind: browserhost.Agent, Via: "cli", Device: ada.ID, Name: ada.Name}
	}
	if by := rows[0].by; by.Kind != want.Kind || by.Device != want.Device || by.Via != want.Via {
		t.Errorf("%s: row by %+v", what, by)
	}
}

// AIP-63 C4: who lacks something is told all that is missing, not the first of it.
func TestWhatIsMissing(t *testing.T) {
	h := newHouse()
	opts := atTerminal(h)
	terminal := false
	opts.HasTerminal = func(int) bool { return terminal }
	path := open(t, h, opts)
	for _, c := range []struct {
		terminal bool
		confirm  string
		missing  string
	}{
		{false, "", "[terminal confirm]"},
		{false, "codex", "[terminal]"},
		{true, "", "[confirm]"},
		{true, "code", "[confirm]"},
	} {
		terminal = c.terminal
		got := raw(t, path).ask(t, `{"op":"pair","name":"codex","confirm":"`+c.confirm+`"}`+"\n")
		if got.OK || fmt.Sprint(got.Error.Cause["missing"]) != c.missing {
			t.Errorf("%+v: %+v", c, got.Error)
		}
	}
}

// What has no subject cannot be confirmed by saying nothing.
func TestEmptySubject(t *testing.T) {
	h := newHouse()
	path := open(t, h, atTerminal(h))
	for _, text := range []string{
		`{"op":"pair","name":""}`, `{"op":"pair"}`, `{"op":"grant","device":"d"}`, `{"op":"grant","domains":[]}`,
		`{"op":"requests.allow"}`, `{"op":"requests.allow","requestId":"r2"}`, `{"op":"grant","domains":[""],"confirm":""}`,
	} {
		if got := raw(t, path).ask(t, text+"\n"); got.OK || len(h.deeds()) > 0 {
			t.Errorf("%s: %v", text, h.deeds())
		}
	}
}

// A person who chooses fewer sites of a request confirms those.
func TestConfirmFewerSites(t *testing.T) {
	h := newHouse()
	c := dial(t, open(t, h, atTerminal(h)))
	fewer := AllowSpec{RequestID: "r1", Domains: []string{"shop.test"}}
	if _, err := c.Allow(t.Context(), fewer, Subject(filed.Domains)); browserhost.CodeOf(err) != browserhost.CodeUnauthorised {
		t.Errorf("all sites confirmed one: %v", err)
	}
	if _, err := c.Allow(t.Context(), fewer, "shop.test"); err != nil {
		t.Error(err)
	}
}

// An agent that hides behind a number: the process that asked has ended while
// it was looked at, and a person's process may have its number by now.
func TestAskerIsGone(t *testing.T) {
	h := newHouse()
	opts := atTerminal(h)
	var child *exec.Cmd
	var hold io.WriteCloser
	looked := make(chan error, 1)
	opts.HasTerminal = func(pid int) bool {
		if pid != child.Process.Pid {
			looked <- fmt.Errorf("asked about %d, not %d", pid, child.Process.Pid)
			return true
		}
		hold.Close()
		looked <- child.Wait()
		return true
	}
	rows := make(chan denial, 2)
	opts.Deny = func(_ context.Context, by browserhost.Actor, reason string) error {
		rows <- denial{by, reason}
		return nil
	}
	path := open(t, h, opts)
	child = exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), "OPERATOR_TEST_DIAL="+path)
	hold, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it has connected
		t.Fatal(err)
	}
	if _, err := io.WriteString(hold, "go\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-looked; err != nil {
		t.Fatal(err)
	}
	if row := <-rows; !strings.Contains(row.reason, "gone") {
		t.Errorf("row: %+v", row)
	}
	if done := h.deeds(); len(done) > 0 {
		t.Errorf("done: %v", done)
	}
}

// knockAndWait is the process that asks for a pairing and does not stay.
func knockAndWait(path string) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		panic(err)
	}
	fmt.Print("c")
	os.Stdin.Read(make([]byte, 3))
	fmt.Fprintln(conn, `{"op":"pair","name":"codex","confirm":"codex"}`)
	io.Copy(io.Discard, os.Stdin)
}

// Another user is refused, whatever the mode of the socket, root included.
func TestOtherUser(t *testing.T) {
	if err := sameUser(&peer{uid: os.Geteuid(), pid: 1}); err != nil {
		t.Error(err)
	}
	if err := sameUser(&peer{uid: os.Geteuid() + 1, pid: 1}); browserhost.CodeOf(err) != browserhost.CodeUnauthorised {
		t.Errorf("another user: %v", err)
	}
}

// The kernel says who connects, and not the one who connects.
func TestPeer(t *testing.T) {
	path := filepath.Join(private(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := new(net.Dialer).DialContext(context.Background(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, end := range []func() (*net.UnixConn, error){l.AcceptUnix, func() (*net.UnixConn, error) { return conn.(*net.UnixConn), nil }} {
		c, err := end()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		p, err := peerOf(c)
		if err != nil {
			t.Fatal(err)
		}
		if p.uid != os.Geteuid() || p.pid != os.Getpid() || !p.alive() {
			t.Errorf("%+v, alive %v", p, p.alive())
		}
		p.close()
	}
}
