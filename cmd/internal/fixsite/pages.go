package fixsite

import (
	"context"
	"crypto/subtle"
	"embed"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"strings"
	"time"
)

//go:embed pages
var files embed.FS

var pages = template.Must(template.New("").ParseFS(files, "pages/*.html"))

// The cookies of a signed-in visitor. The second one is open to scripts.
const (
	sessionCookie = "__Host-session"
	themeCookie   = "theme"
)

// view is what a page may say.
type view struct {
	Host     string
	SignedIn bool
	Greeting string
	Cart     int
	Wrong    bool
	Numbers  []int
	Filler   string
}

// first says whether a plain connection has been counted.
type first struct{ done bool }

type firstKey struct{}

func withFirst(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, firstKey{}, &first{})
}

// servePlain sends everybody to https.
func (s *Site) servePlain(w http.ResponseWriter, r *http.Request) {
	host := hostName(r)
	if f, ok := r.Context().Value(firstKey{}).(*first); ok && !f.done { // one request at a time on a connection
		f.done = true
		s.count(s.accepted, host)
	}
	s.remember(r)
	if _, ok := hosts[host]; !ok {
		http.NotFound(w, r)
		return
	}
	http.Redirect(w, r, "https://"+host+r.URL.RequestURI(), http.StatusMovedPermanently)
}

func (s *Site) routes() http.Handler {
	mux := http.NewServeMux()
	for _, name := range []string{"login", "private", "relabel", "clobber", "dialog", "popup", "frames", "controls"} {
		mux.HandleFunc("GET /"+name, s.page(name+".html"))
	}
	mux.HandleFunc("GET /{$}", s.page("home.html"))
	mux.HandleFunc("GET /big", s.big)
	mux.HandleFunc("POST /login", s.signIn)
	mux.HandleFunc("POST /logout", s.signOut)
	mux.HandleFunc("POST /cart", s.addToCart)
	mux.HandleFunc("POST /press/{button}", s.press)
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /{script}", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.PathValue("script"), ".js") {
			http.NotFound(w, r)
			return
		}
		http.ServeFileFS(w, r, files, "pages/"+r.PathValue("script"))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.remember(r)
		// As strict as a careful shop: what works here does not lean on the page.
		w.Header().Set("Content-Security-Policy", "default-src 'self'; frame-src https:; style-src 'unsafe-inline'; require-trusted-types-for 'script'")
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

func (s *Site) remember(r *http.Request) {
	v := Request{Host: hostName(r), Method: r.Method, Path: r.URL.Path, SignedIn: s.signedIn(r)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == keptRequests {
		s.requests = append(s.requests[:0], s.requests[1:]...)
	}
	s.requests = append(s.requests, v)
}

func hostName(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// signedIn reports whether r bears the session of its own host.
func (s *Site) signedIn(r *http.Request) bool {
	c, err := r.Cookie(sessionCookie)
	want := s.sessions[hostName(r)]
	return err == nil && want != "" && subtle.ConstantTimeCompare([]byte(c.Value), []byte(want)) == 1
}

func (s *Site) page(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.render(w, name, view{Host: hostName(r), SignedIn: s.signedIn(r), Wrong: r.URL.Query().Has("wrong")})
	}
}

func (s *Site) render(w http.ResponseWriter, name string, v view) {
	v.Greeting, v.Cart = Greeting, s.Cart()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	pages.ExecuteTemplate(w, name, v)
}

// big is a page of 5,000 links and a table of two megabytes (scenario S14).
func (s *Site) big(w http.ResponseWriter, r *http.Request) {
	numbers := make([]int, 5000)
	for i := range numbers {
		numbers[i] = i + 1
	}
	s.render(w, "big.html", view{Host: hostName(r), Numbers: numbers, Filler: strings.Repeat("quite a long cell ", 22)})
}

func (s *Site) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	if r.PostFormValue("name") != User || r.PostFormValue("password") != s.password {
		http.Redirect(w, r, "/login?wrong", http.StatusSeeOther)
		return
	}
	month := int((30 * 24 * time.Hour).Seconds()) // persistent, so that it is on the disk of the owner's browser
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: s.sessions[hostName(r)], Path: "/", MaxAge: month, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.SetCookie(w, &http.Cookie{Name: themeCookie, Value: "dark", Path: "/", MaxAge: month, Secure: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, "/private", http.StatusSeeOther)
}

func (s *Site) signOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (s *Site) addToCart(w http.ResponseWriter, r *http.Request) {
	if !s.signedIn(r) {
		http.Error(w, "sign in first", http.StatusForbidden)
		return
	}
	s.count(s.pressed, "cart")
	fmt.Fprint(w, s.Cart())
}

func (s *Site) press(w http.ResponseWriter, r *http.Request) {
	switch button := r.PathValue("button"); button {
	case "edit", "delete", "pay", "save", "under":
		s.count(s.pressed, button)
		w.WriteHeader(http.StatusNoContent)
	default:
		http.NotFound(w, r)
	}
}
