//go:build real && linux

package cdp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"browserhost"
)

// Lent cookies are held as they were lent, partition and all; what Chromium
// drops without a word is counted, and the page gets no other (S1.59).
func TestLentCookies(t *testing.T) {
	var sent []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Host+": "+r.Header.Get("Cookie"))
		io.WriteString(w, "<title>Seen</title>")
	}))
	defer s.Close()
	drv, err := launch(t, full).Attach(t.Context(), browserhost.AttachOptions{Proxy: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	d := drv.(*driver)
	later := time.Now().Add(time.Hour)
	counts, err := d.SetCookies(t.Context(), []browserhost.Cookie{
		{Name: "host", Value: "a", Domain: "shop.test", Path: "/", Expires: later, HTTPOnly: true, SameSite: "Lax", Priority: "High"},
		{Name: "wide", Value: "b", Domain: ".shop.test", Path: "/", SameSite: "Strict", Priority: "Low", SourceScheme: "NonSecure", SourcePort: 80},
		{Name: "session", Value: "c", Domain: "shop.test", Path: "/"},
		{Name: "__Host-id", Value: "d", Domain: "shop.test", Path: "/", Secure: true, SameSite: "None", SourceScheme: "Secure", SourcePort: 443},
		{Name: "part", Value: "e", Domain: "shop.test", Path: "/", Secure: true, SameSite: "None", PartitionKey: "https://bank.test", CrossSite: true},
		{Name: "insecure", Value: "f", Domain: "shop.test", Path: "/", SameSite: "None"},
		{Name: "old", Value: "g", Domain: "shop.test", Path: "/", Expires: time.Now().Add(-time.Hour)},
		{Name: "__Host-wide", Value: "h", Domain: ".shop.test", Path: "/", Secure: true},
		{Name: "suffix", Value: "i", Domain: ".co.uk", Path: "/"},
		{Name: "nowhere", Value: "j"},
	})
	if err != nil {
		t.Fatal(err)
	}
	total := counts.Set
	for _, n := range counts.Refused {
		total += n
	}
	if counts.Set != 5 || total != 10 || counts.Refused[refusedExpired] != 1 || counts.Refused[refusedMalformed] != 1 {
		t.Errorf("%+v", counts)
	}
	if n, err := d.CookiesLeft(t.Context(), []string{"shop.test"}); n != 5 || err != nil {
		t.Errorf("%d held, %v", n, err)
	}
	openAt(t, d, "http://shop.test/")
	openAt(t, d, "http://app.shop.test/")
	want := map[string]string{"shop.test": "host=a; wide=b; session=c", "app.shop.test": "wide=b"}
	for host, cookies := range want {
		found := false
		for _, line := range sent {
			if got, ok := strings.CutPrefix(line, host+": "); ok {
				found = true
				if !sameCookies(got, cookies) {
					t.Errorf("%s got %q, want %q", host, got, cookies)
				}
			}
		}
		if !found {
			t.Errorf("%s was not asked", host)
		}
	}
}

func sameCookies(a, b string) bool {
	x, y := strings.Split(a, "; "), strings.Split(b, "; ")
	if len(x) != len(y) {
		return false
	}
	for _, c := range x {
		if !strings.Contains("; "+b+";", "; "+c+";") {
			return false
		}
	}
	return true
}
