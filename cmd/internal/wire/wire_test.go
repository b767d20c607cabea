package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"browserhost"
	"browserhost/cmd/internal/wire"
	"browserhost/host/operator"
	"browserhost/host/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load reads settings for a host in home that has no Chromium and asks no
// keychain, with what a test puts over it.
func load(t *testing.T, home string, over map[string]string) settings.Settings {
	t.Helper()
	flags := map[string]string{
		"listen": "127.0.0.1:0", "store": "memory",
		"chrome.executablePath": filepath.Join(home, "no-chromium"), "chrome.headlessShell": "never", "chrome.dataDir": filepath.Join(home, "browser"),
	}
	for k, v := range over {
		flags[k] = v
	}
	s, err := settings.Load(home, flags, func(name string) string {
		if name == "HOME" {
			return home
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t *testing.T, home string, over map[string]string) *wire.App {
	t.Helper()
	app, err := wire.Start(t.Context(), wire.Options{Home: home, Settings: load(t, home, over), Version: "test", Seam: &wire.Seam{Profiles: []string{filepath.Join(home, "owner")}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if swept, err := app.Close(ctx); err != nil || swept != 0 {
			t.Errorf("close: swept %d, %v", swept, err)
		}
	})
	return app
}

func pair(t *testing.T, app *wire.App) operator.Paired {
	t.Helper()
	p, err := app.Desk().Pair(t.Context(), operator.PairSpec{Name: "Ada's agent"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// home is short, since a socket lies in it.
func home(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bh-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// ask sends one request and returns the status and the AIP-14 code.
func ask(t *testing.T, r *http.Request) (int, browserhost.Code) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var e browserhost.Envelope
	if err := json.Unmarshal(body, &e); err != nil || e.Error == nil {
		return res.StatusCode, ""
	}
	return res.StatusCode, e.Error.Code
}

// Bad input gets a typed error and changes nothing: the grants, the ledger and
// what is sealed are afterwards what they were. What reached a tool is answered
// with status 200 and ok: false (contract G).
func TestBadInput(t *testing.T) {
	dir := home(t)
	app := start(t, dir, nil)
	p := pair(t, app)
	post := func(path, body string) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, app.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p.Bearer)
		r.Header.Set("Content-Type", "application/json")
		return r
	}
	before := snapshot(t, dir)
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		path   string
		body   string
		status int
		code   browserhost.Code
	}{
		{"unknown tool", nil, "/v1/tools/browser_dance", `{}`, 404, browserhost.CodeNotFound},
		{"unknown field", nil, "/v1/tools/browser_observe", `{"action":"pages","colour":"red"}`, 200, browserhost.CodeInputInvalid},
		{"unknown action", nil, "/v1/tools/browser_act", `{"action":"dance"}`, 200, browserhost.CodeInputInvalid},
		{"no JSON", nil, "/v1/tools/browser_observe", `pages`, 400, browserhost.CodeInputInvalid},
		{"no bearer", func(r *http.Request) { r.Header.Del("Authorization") }, "/v1/tools/browser_observe", `{"action":"pages"}`, 401, ""},
		{"wrong bearer", func(r *http.Request) { r.Header.Set("Authorization", "Bearer apd1.x") }, "/v1/tools/browser_observe", `{"action":"pages"}`, 401, ""},
		{"foreign Host", func(r *http.Request) { r.Host = "shop.test" }, "/v1/tools/browser_observe", `{"action":"pages"}`, 403, ""},
		{"foreign Origin", func(r *http.Request) { r.Header.Set("Origin", "https://shop.test") }, "/v1/tools/browser_observe", `{"action":"pages"}`, 403, ""},
		{"public suffix", nil, "/v1/tools/request_access", `{"domains":["co.uk"],"reason":"why not"}`, 200, browserhost.CodeInputInvalid},
		{"a file", nil, "/v1/tools/browser_act", `{"action":"navigate","page_id":"p1","url":"file:///etc/passwd"}`, 200, browserhost.CodeInputInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := post(c.path, c.body)
			if c.change != nil {
				c.change(r)
			}
			status, code := ask(t, r)
			if status != c.status || c.code != "" && code != c.code {
				t.Errorf("%d %q, want %d %q", status, code, c.status, c.code)
			}
		})
	}
	for _, c := range []struct {
		name string
		do   func(*operator.Desk) error
		code browserhost.Code
	}{
		{"co.uk", func(d *operator.Desk) error {
			_, err := d.Grant(t.Context(), operator.GrantSpec{Device: p.Device.ID, Domains: []string{"co.uk"}})
			return err
		}, browserhost.CodeInputInvalid},
		{"unreadable cookies", func(d *operator.Desk) error {
			damage(t, dir)
			_, err := d.Grant(t.Context(), operator.GrantSpec{Device: p.Device.ID, Domains: []string{"shop.test"}})
			return err
		}, browserhost.CodeUpstream},
		{"no such device", func(d *operator.Desk) error {
			_, err := d.Grant(t.Context(), operator.GrantSpec{Device: browserhost.DeviceID(strings.Repeat("0", 32)), Domains: []string{"shop.test"}})
			return err
		}, browserhost.CodeNotFound},
		{"no such grant", func(d *operator.Desk) error { _, err := d.Revoke(t.Context(), "grant_x"); return err }, browserhost.CodeNotFound},
		{"no such request", func(d *operator.Desk) error { _, err := d.Deny(t.Context(), "K7-204"); return err }, browserhost.CodeNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.do(app.Desk()); browserhost.CodeOf(err) != c.code {
				t.Errorf("%v, want %s", err, c.code)
			}
		})
	}
	if after := snapshot(t, dir); !bytes.Equal(before, after) {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
}

// snapshot is what bad input must not change.
func snapshot(t *testing.T, dir string) []byte {
	t.Helper()
	var all []byte
	for _, name := range []string{"grants.json", "consent.jsonl"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	sealed, err := filepath.Glob(filepath.Join(dir, "jar", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(all, strings.Join(sealed, "\n")...)
}

// damage puts a cookie database that is none into the owner's profile.
func damage(t *testing.T, dir string) {
	t.Helper()
	profile := filepath.Join(dir, "owner", "Default")
	if err := os.MkdirAll(profile, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(profile, "Cookies"), bytes.Repeat([]byte("no database"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
}

// K1: a port in use names the port and its holder, and leaves nothing open.
func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := home(t)
	_, err = wire.Start(t.Context(), wire.Options{Home: dir, Settings: load(t, dir, map[string]string{"listen": l.Addr().String()})})
	taken, ok := errors.AsType[*wire.PortTaken](err)
	if !ok || taken.Address != l.Addr().String() || taken.PID != os.Getpid() {
		t.Fatalf("%v (%+v)", err, taken)
	}
	start(t, dir, nil) // the state directory is free again
}

// K37: one host for each state directory; the second learns who holds it.
func TestOneHostPerHome(t *testing.T) {
	dir := home(t)
	start(t, dir, nil)
	_, err := wire.Start(t.Context(), wire.Options{Home: dir, Settings: load(t, dir, nil)})
	running, ok := errors.AsType[*wire.Running](err)
	if !ok || running.PID != os.Getpid() {
		t.Fatalf("%v", err)
	}
}

// The host starts, serves and explains itself without Chromium and without a
// keychain (K7): nothing is paired, and the error says why.
func TestWithoutChromiumAndKeychain(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
	t.Setenv("XDG_RUNTIME_DIR", "/nonexistent")
	app := start(t, home(t), map[string]string{"store": "keychain"})
	st, err := app.Desk().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.Keyring == "" || len(st.Providers) != 1 || st.Providers[0].Runnable || st.Providers[0].Why == "" {
		t.Errorf("the status explains nothing: %+v", st)
	}
	if _, err := app.Desk().Pair(t.Context(), operator.PairSpec{Name: "Ada's agent"}); browserhost.CodeOf(err) != browserhost.CodeKeyring {
		t.Errorf("pairing without a keychain: %v", err)
	}
}

// Without Chromium a paired agent is served all that needs none, and told what
// is missing when it launches.
func TestWithoutChromium(t *testing.T) {
	app := start(t, home(t), nil)
	p := pair(t, app)
	for _, c := range []struct {
		body   string
		status int
		code   browserhost.Code
	}{
		{`{"action":"targets"}`, 200, ""},
		{`{"action":"launch"}`, 200, browserhost.CodeNotReady},
	} {
		tool := "browser_observe"
		if strings.Contains(c.body, "launch") {
			tool = "browser_act"
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, app.URL()+"/v1/tools/"+tool, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p.Bearer)
		r.Header.Set("Content-Type", "application/json")
		if status, code := ask(t, r); status != c.status || code != c.code {
			t.Errorf("%s: %d %q, want %d %q", c.body, status, code, c.status, c.code)
		}
	}
}

// AIP-63 C13: a revoked device is refused on its very next request.
func TestRevokedOnTheNextRequest(t *testing.T) {
	app := start(t, home(t), nil)
	p := pair(t, app)
	get := func() int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, app.URL()+"/v1/tools", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p.Bearer)
		status, _ := ask(t, r)
		return status
	}
	if got := get(); got != 200 {
		t.Fatalf("paired: %d", got)
	}
	if _, err := app.Desk().RevokeDevice(t.Context(), p.Device.ID); err != nil {
		t.Fatal(err)
	}
	if got := get(); got != 401 {
		t.Errorf("revoked: %d", got)
	}
}
