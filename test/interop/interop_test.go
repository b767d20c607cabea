package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The proxy adds the bearer, makes its own address mean the host, and lets a
// foreign Host or Origin through to the host's guard.
func TestProxy(t *testing.T) {
	var host, origin, auth string
	back := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		host, origin, auth = r.Host, r.Header.Get("Origin"), r.Header.Get("Authorization")
	}))
	defer back.Close()
	target, _ := url.Parse(back.URL)
	front := httptest.NewServer(newProxy(target.Host, "apd1.x.y"))
	defer front.Close()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(front.URL, "http://"))

	for _, c := range []struct{ host, origin, wantHost, wantOrigin string }{
		{"127.0.0.1:" + port, "", target.Host, ""},
		{"localhost:" + port, "http://localhost:" + port, target.Host, "http://" + target.Host},
		{"evil.example.com", "http://evil.example.com", "evil.example.com", "http://evil.example.com"},
		{"127.0.0.1:" + port, "http://shop.test", target.Host, "http://shop.test"},
	} {
		req, err := http.NewRequest("POST", front.URL+"/mcp", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if host != c.wantHost || origin != c.wantOrigin || auth != "Bearer apd1.x.y" {
			t.Errorf("Host %q, Origin %q arrived as %q, %q with %q", c.host, c.origin, host, origin, auth)
		}
	}
}

// A failure that nobody expected, one that no longer happens, and one that was
// never looked at: each is an error.
func TestJudge(t *testing.T) {
	bad := errors.New("bad")
	for _, c := range []struct {
		outcomes map[string]error
		expected map[string]string
		ok       bool
	}{
		{map[string]error{"a": nil, "b": bad}, map[string]string{"b": "why"}, true},
		{map[string]error{"a": bad}, nil, false},
		{map[string]error{"a": nil}, map[string]string{"a": "why"}, false},
		{map[string]error{"a": nil}, map[string]string{"c": "why"}, false},
		{nil, nil, false},
	} {
		if err := judge(io.Discard, c.outcomes, c.expected); (err == nil) != c.ok {
			t.Errorf("judge(%v, %v) = %v", c.outcomes, c.expected, err)
		}
	}
}

// Each expected failure names a check that exists and says why.
func TestExpectedFailures(t *testing.T) {
	names := map[string]bool{}
	for _, c := range checks(programs{}, "", "", "") {
		names[c.name] = true
	}
	expected, err := readExpected("expected-failures.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name := range expected {
		if !names[name] {
			t.Errorf("no check is called %s", name)
		}
	}
	for _, text := range []string{"a\n", "a why\na why\n"} {
		file := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readExpected(file); err == nil {
			t.Errorf("readExpected accepts %q", text)
		}
	}
}
