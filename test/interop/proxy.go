package main

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// newProxy forwards to the host at authority with the device's bearer added. A
// Host or Origin that means the proxy is made to mean the host; any other one
// is passed on as it came, so that the host's own guard is what refuses it.
func newProxy(authority, bearer string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			own := r.In.Context().Value(http.LocalAddrContextKey).(interface{ String() string }).String()
			r.SetURL(&url.URL{Scheme: "http", Host: authority})
			r.Out.Host = meant(r.In.Host, own, authority)
			if origin := r.In.Header.Get("Origin"); origin != "" {
				scheme, rest, _ := strings.Cut(origin, "://")
				r.Out.Header.Set("Origin", scheme+"://"+meant(rest, own, authority))
			}
			r.Out.Header.Set("Authorization", "Bearer "+bearer)
		},
	}
}

// meant is host where name is the proxy's own address, by number or as
// localhost, else name.
func meant(name, own, host string) string {
	if name == own || name == strings.Replace(own, "127.0.0.1", "localhost", 1) {
		return host
	}
	return name
}
