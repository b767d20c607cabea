//go:build real

package real

import (
	"bufio"
	"bytes"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"browserhost"
	"browserhost/consent/browserdb"
	"browserhost/consent/extract"
	"browserhost/consent/presence"
)

// chromium is the program itself, not the wrapper that adds switches.
func chromium(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"/usr/lib/chromium/chromium", "chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Fatal("no Chromium: `make test` installs one")
	return ""
}

// expires is far enough away and within the 400 days that Chromium keeps.
var expires = time.Now().Add(90 * 24 * time.Hour).Truncate(time.Second)

// planted is what the owner's browser is given, as CDP wants it.
var planted = []map[string]any{
	{"name": "sid", "value": canary, "domain": ".shop.test", "path": "/", "secure": true, "httpOnly": true, "sameSite": "None", "priority": "High", "expires": expires.Unix(), "sourceScheme": "Secure", "sourcePort": 443},
	{"name": "session", "value": "kept", "domain": "app.shop.test", "path": "/a", "sameSite": "Lax"},
	{"name": "empty", "value": "", "domain": "shop.test", "path": "/", "secure": true, "sameSite": "Strict"},
	{"name": "__Host-part", "value": "chips", "domain": "shop.test", "path": "/", "secure": true, "sameSite": "None", "expires": expires.Unix(), "partitionKey": map[string]any{"topLevelSite": "https://top.test", "hasCrossSiteAncestor": true}},
	{"name": "sid", "value": "other", "domain": ".bank.test", "path": "/", "expires": expires.Unix()},
	{"name": "sid", "value": "alike", "domain": "notshop.test", "path": "/"},
	{"name": "sid", "value": "alike", "domain": "shop.test.evil.test", "path": "/"},
}

// plant runs a Chromium on dir, gives it the cookies and closes it politely, so
// that they are on the disk.
func plant(t *testing.T, dir, store string) browserdb.Profile {
	t.Helper()
	toBrowser, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), chromium(t), "--headless=new", "--no-sandbox", "--no-first-run", "--disable-gpu",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--password-store="+store, "--user-data-dir="+dir, "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser}
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	answers := bufio.NewReader(out)
	call := func(id int, method string, params any) {
		t.Helper()
		text, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params})
		if err == nil {
			_, err = in.Write(append(text, 0))
		}
		for err == nil {
			var frame []byte
			if frame, err = answers.ReadBytes(0); err != nil {
				break
			}
			var answer struct {
				ID    int            `json:"id"`
				Error map[string]any `json:"error"`
			}
			if err = json.Unmarshal(bytes.TrimSuffix(frame, []byte{0}), &answer); err == nil && answer.ID == id {
				if answer.Error != nil {
					t.Fatalf("%s: %v", method, answer.Error)
				}
				return
			}
		}
		cmd.Process.Kill()
		t.Fatalf("%s: %v, %v\n%s", method, err, cmd.Wait(), log.String())
	}
	call(1, "Storage.setCookies", map[string]any{"cookies": planted})
	call(2, "Browser.close", map[string]any{})
	go io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	in.Close()
	out.Close()
	found := browserdb.Find(browserdb.Roots{Extra: []string{dir}})
	if len(found) != 1 || found[0].Name != "Default" {
		t.Fatalf("profiles: %v", found)
	}
	return found[0]
}

// schemes counts the prefixes of the encrypted values, which no product code
// needs and a test must know.
func schemes(t *testing.T, p browserdb.Profile) map[string]int {
	t.Helper()
	db, err := browserdb.Open(t.Context(), p.Cookies, func(_, column string) bool { return column == "encrypted_value" })
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(t.Context(), "SELECT substr(encrypted_value, 1, 3) FROM cookies")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := map[string]int{}
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		all[s]++
	}
	return all
}

// wantPlanted checks that exactly the planted cookies of shop.test come out,
// with all that decides where a browser sends them.
func wantPlanted(t *testing.T, p browserdb.Profile) {
	t.Helper()
	got, report, err := extract.Read(t.Context(), p, []string{"shop.test"}, extract.SecretService())
	if err != nil {
		t.Fatal(err)
	}
	if report.Matched != 4 || report.Read != 4 || len(report.Reasons) != 0 {
		t.Errorf("report %+v", report)
	}
	slices.SortFunc(got, func(a, b browserhost.Cookie) int { return strings.Compare(a.Name, b.Name) })
	want := []browserhost.Cookie{
		{Name: "__Host-part", Value: "chips", Domain: "shop.test", Path: "/", Expires: expires.UTC(), Secure: true, SameSite: "None", PartitionKey: "https://top.test", CrossSite: true},
		{Name: "empty", Domain: "shop.test", Path: "/", Secure: true, SameSite: "Strict"},
		{Name: "session", Value: "kept", Domain: "app.shop.test", Path: "/a", SameSite: "Lax"},
		{Name: "sid", Value: canary, Domain: ".shop.test", Path: "/", Expires: expires.UTC(), Secure: true, HTTPOnly: true, SameSite: "None", Priority: "High", SourceScheme: "Secure", SourcePort: 443},
	}
	for i := range got {
		if i < len(want) && want[i].SourceScheme == "" { // Chromium's own choice where none was stated
			want[i].SourceScheme, want[i].SourcePort, want[i].Priority = got[i].SourceScheme, got[i].SourcePort, "Medium"
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

// S1, S3 on a profile that a real Chromium wrote with the fixed key.
func TestRealV10(t *testing.T) {
	p := plant(t, t.TempDir(), "basic")
	if s := schemes(t, p); s["v10"] != len(planted) || len(s) != 1 {
		t.Fatalf("schemes %v", s)
	}
	sites, err := presence.Count(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []presence.Site{
		{Domain: "bank.test", Cookies: 1, Hosts: map[string]int{".bank.test": 1}},
		{Domain: "evil.test", Cookies: 1, Hosts: map[string]int{"shop.test.evil.test": 1}},
		{Domain: "notshop.test", Cookies: 1, Hosts: map[string]int{"notshop.test": 1}},
		{Domain: "shop.test", Cookies: 4, Hosts: map[string]int{".shop.test": 1, "app.shop.test": 1, "shop.test": 2}},
	}
	if !reflect.DeepEqual(sites, want) {
		t.Errorf("sites %+v", sites)
	}
	wantPlanted(t, p)
}

// S1, S2 on a profile that a real Chromium wrote with a key from a real
// keyring: read from the login collection; from a collection that no alias
// names; refused while that one is locked; read again when it is unlocked.
func TestRealV11(t *testing.T) {
	if !session(t) {
		return
	}
	k := startKeyring(t)
	p := plant(t, t.TempDir(), "gnome-libsecret")
	if s := schemes(t, p); s["v11"] != len(planted) || len(s) != 1 {
		t.Fatalf("schemes %v", s)
	}
	wantPlanted(t, p)

	mark := map[string]string{"application": "chromium"}
	password := k.take(mark)
	got, report, err := extract.Read(t.Context(), p, []string{"shop.test"}, extract.SecretService())
	if err != nil || len(got) != 0 || report.Reasons[extract.NoKey] != 4 {
		t.Errorf("without the item: %d cookies, %+v, %v", len(got), report, err)
	}

	other := k.collection("Vault")
	k.store(other, "Chromium Safe Storage", mark, password)
	wantPlanted(t, p)

	k.lock(other)
	wantUnavailable(t, "read", func() error {
		got, _, err := extract.Read(t.Context(), p, []string{"shop.test"}, extract.SecretService())
		if len(got) != 0 {
			err = errors.Join(err, fmt.Errorf("%d cookies", len(got)))
		}
		return err
	})
	k.unlock(other)
	wantPlanted(t, p)

	k.take(mark) // an item without attributes is found by its name
	k.store(other, "Chromium Safe Storage", map[string]string{}, password)
	wantPlanted(t, p)
	if left := k.take(map[string]string{}); left == "" {
		t.Error("the item is gone")
	}
}
