package jar

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"browserhost"
)

func wantNoCanary(t *testing.T, err error) {
	t.Helper()
	for e := err; e != nil; {
		if text := fmt.Sprintf("%v %+v %#v", e, e, e); strings.Contains(text, canary) {
			t.Errorf("the canary is in %s", text)
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			return
		}
		e = u.Unwrap()
	}
}

// The closed rules of the record, one breach each (AIP-63 C3, C6).
func TestRecordRules(t *testing.T) {
	j := mustOpen(t, t.TempDir(), newKeys())
	remote := func(provider string, seq *int64) []browserhost.Sink {
		return []browserhost.Sink{{Kind: "local"}, {Kind: "remote", ProviderID: provider, AckSeq: seq}}
	}
	good := map[string]func(*browserhost.Grant){
		"as it is":      func(*browserhost.Grant) {},
		"no device":     func(g *browserhost.Grant) { g.DeviceID = "" },
		"full profile":  func(g *browserhost.Grant) { g.Domains, g.FullProfile = nil, true },
		"acknowledged":  func(g *browserhost.Grant) { g.Sinks = remote("hosted", new(int64(0))) },
		"by flag":       func(g *browserhost.Grant) { g.GrantedVia = "flag" },
		"native login":  func(g *browserhost.Grant) { g.Source.Kind = "native-login" },
		"offset":        func(g *browserhost.Grant) { g.ExpiresAt = "2027-01-01T00:00:00+02:00" },
		"idn":           func(g *browserhost.Grant) { g.Domains = []string{"xn--bcher-kva.test"} },
		"counted":       func(g *browserhost.Grant) { g.CookieCount = 7 },
		"other profile": func(g *browserhost.Grant) { g.Source.Profile = "Profile 1" },
	}
	n := 0
	for name, change := range good {
		n++
		g := grant(fmt.Sprintf("grant_%d", n))
		change(&g)
		if err := j.Put(t.Context(), g); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, ok := j.Grant(g.ID); !ok || !reflect.DeepEqual(got, g) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	before := tree(t, j.dir)
	bad := map[string]func(*browserhost.Grant){
		"no id":             func(g *browserhost.Grant) { g.ID = "" },
		"a path":            func(g *browserhost.Grant) { g.ID = "../grant_1" },
		"hidden":            func(g *browserhost.Grant) { g.ID = ".new-1" },
		"long id":           func(g *browserhost.Grant) { g.ID = browserhost.GrantID(strings.Repeat("g", 81)) },
		"no session":        func(g *browserhost.Grant) { g.SessionID = "" },
		"bad device":        func(g *browserhost.Grant) { g.DeviceID = "dev-A" },
		"no source":         func(g *browserhost.Grant) { g.Source.Kind = "" },
		"foreign source":    func(g *browserhost.Grant) { g.Source.Kind = "safari" },
		"no profile":        func(g *browserhost.Grant) { g.Source.Profile = "" },
		"neither":           func(g *browserhost.Grant) { g.Domains = nil },
		"both":              func(g *browserhost.Grant) { g.FullProfile = true },
		"wildcard":          func(g *browserhost.Grant) { g.Domains = []string{"*.shop.test"} },
		"address":           func(g *browserhost.Grant) { g.Domains = []string{"127.0.0.1"} },
		"long name":         func(g *browserhost.Grant) { g.Domains = []string{strings.Repeat("a.", 125) + "test"} },
		"no sink":           func(g *browserhost.Grant) { g.Sinks = nil },
		"unknown sink":      func(g *browserhost.Grant) { g.Sinks = []browserhost.Sink{{Kind: "moon"}} },
		"local with ack":    func(g *browserhost.Grant) { g.Sinks = []browserhost.Sink{{Kind: "local", AckSeq: new(int64(1))}} },
		"unacknowledged":    func(g *browserhost.Grant) { g.Sinks = remote("hosted", nil) },
		"negative ack":      func(g *browserhost.Grant) { g.Sinks = remote("hosted", new(int64(-1))) },
		"nameless remote":   func(g *browserhost.Grant) { g.Sinks = remote("", new(int64(1))) },
		"full profile sent": func(g *browserhost.Grant) { g.Domains, g.FullProfile, g.Sinks = nil, true, remote("h", new(int64(1))) },
		"no time":           func(g *browserhost.Grant) { g.GrantedAt = "" },
		"local time":        func(g *browserhost.Grant) { g.GrantedAt = "2026-11-30 10:00:00" },
		"bad expiry":        func(g *browserhost.Grant) { g.ExpiresAt = "soon" },
		"bad revocation":    func(g *browserhost.Grant) { g.RevokedAt = "0" },
		"no way":            func(g *browserhost.Grant) { g.GrantedVia = "" },
		"negative count":    func(g *browserhost.Grant) { g.CookieCount = -1 },
	}
	for name, change := range bad {
		g := grant("grant_x")
		change(&g)
		for _, err := range []error{j.Put(t.Context(), g), j.Seal(t.Context(), g, cookies(canary))} {
			wantCode(t, err, browserhost.CodeInputInvalid, "")
			wantNoCanary(t, err)
		}
		if !reflect.DeepEqual(before, tree(t, j.dir)) {
			t.Fatalf("%s: something was written", name)
		}
	}
}

// The bytes on the disk, which other AIP-63 hosts read too.
func TestRecordFile(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, newKeys())
	g := grant("grant_1", "shop.test", "bank.test")
	g.Sinks = append(g.Sinks, browserhost.Sink{Kind: "remote", ProviderID: "a<b", AckSeq: new(int64(0))})
	mustPut(t, j, g)
	full := grant("grant_2")
	full.Domains, full.FullProfile, full.DeviceID = nil, true, ""
	mustPut(t, j, full)
	want := `{
  "version": 1,
  "grants": [
    {
      "id": "grant_1",
      "sessionId": "main",
      "deviceId": "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1",
      "source": {
        "kind": "chrome",
        "profile": "Default"
      },
      "domains": [
        "shop.test",
        "bank.test"
      ],
      "sinks": [
        {
          "kind": "local"
        },
        {
          "kind": "remote",
          "providerId": "a<b",
          "ackSeq": 0
        }
      ],
      "grantedAt": "2026-11-30T10:00:00.000Z",
      "grantedVia": "interactive",
      "cookieCount": 0
    },
    {
      "id": "grant_2",
      "sessionId": "main",
      "source": {
        "kind": "chrome",
        "profile": "Default"
      },
      "fullProfile": true,
      "sinks": [
        {
          "kind": "local"
        }
      ],
      "grantedAt": "2026-11-30T10:00:00.000Z",
      "grantedVia": "interactive",
      "cookieCount": 0
    }
  ]
}
`
	got, err := os.ReadFile(filepath.Join(dir, grantsFile))
	if err != nil || string(got) != want {
		t.Errorf("got %s %v", got, err)
	}
	if again := mustOpen(t, dir, newKeys()).Grants(); !reflect.DeepEqual(again, []browserhost.Grant{g, full}) {
		t.Errorf("read back: %+v", again)
	}
}

// The list is the caller's own: changing it changes no grant.
func TestGrantsAreCopies(t *testing.T) {
	j := mustOpen(t, t.TempDir(), newKeys())
	g := grant("grant_1")
	mustPut(t, j, g)
	g.Domains[0] = "evil.test"
	j.Grants()[0].Domains[0] = "evil.test"
	one, _ := j.Grant("grant_1")
	one.Sinks[0].Kind = "remote"
	if got, _ := j.Grant("grant_1"); got.Domains[0] != "shop.test" || got.Sinks[0].Kind != "local" {
		t.Errorf("%+v", got)
	}
}

// A list that is not whole is refused as a whole, and left as it is.
func TestBrokenList(t *testing.T) {
	one := `{"id":"grant_1","sessionId":"main","source":{"kind":"chrome","profile":"Default"},"domains":["shop.test"],"sinks":[{"kind":"local"}],"grantedAt":"2026-11-30T10:00:00.000Z","grantedVia":"flag","cookieCount":0}`
	if _, err := parse([]byte(`{"version":1,"grants":[` + one + `]}`)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":           ``,
		"torn":            `{"version":1,"grants":[` + one,
		"other version":   `{"version":2,"grants":[` + one + `]}`,
		"no version":      `{"grants":[]}`,
		"no list":         `{"version":1}`,
		"null":            `{"version":1,"grants":null}`,
		"unknown key":     `{"version":1,"grants":[],"more":1}`,
		"unknown in it":   `{"version":1,"grants":[` + strings.Replace(one, `"id"`, `"value":"`+canary+`","id"`, 1) + `]}`,
		"duplicate key":   `{"version":1,"version":1,"grants":[]}`,
		"twice":           `{"version":1,"grants":[` + one + `,` + one + `]}`,
		"breaks a rule":   `{"version":1,"grants":[` + strings.Replace(one, "shop.test", "*", 1) + `]}`,
		"something after": `{"version":1,"grants":[]} x`,
		"wrong case":      `{"version":1,"Grants":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, grantsFile)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(dir, newKeys())
			wantCode(t, err, browserhost.CodeInternal, "")
			if m := browserhost.AsError(err).Message; strings.Contains(m, dir) {
				t.Errorf("a path is in %q", m)
			}
			if got, _ := os.ReadFile(path); string(got) != text {
				t.Error("the file was changed")
			}
		})
	}
}

// AIP-63 C11, S1.48: 0600 and 0700 from the start, and what was wider is tightened.
func TestModes_S1_48(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // the rights are the directory's there
	}
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, grantsFile), []byte(`{"version":1,"grants":[]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	j := mustOpen(t, dir, newKeys())
	modes := func() {
		t.Helper()
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			want := fs.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			}
			if err == nil && info.Mode().Perm() != want {
				t.Errorf("%s has mode %v", p, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	modes()
	mustPut(t, j, grant("grant_1"), canary)
	if err := write(j.marker(), nil); err != nil {
		t.Fatal(err)
	}
	modes()
}
