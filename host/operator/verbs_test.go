package operator

import (
	"encoding/json/v2"
	"log/slog"
	"strings"
	"testing"

	"browserhost"
)

// Whatever a line says: it is refused with a code, or it is one verb whose
// fields are understood and which is done once. To somebody who is no person
// no wide verb is done at all.
func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"op":"status"}`))
	f.Add([]byte(`{"op":"grant","confirm":"shop.test","device":"d","domains":["shop.test"]}`))
	f.Add([]byte(`{"op":"requests.allow","requestId":"r1","domains":["shop.test"]}`))
	f.Add([]byte(`{"op":"pair","name":"a","scopes":["browser:read"],"confirm":"a"}`))
	f.Add([]byte(`{"op":"scan","source":"chrome/Default","domains":null}`))
	f.Add([]byte(`{"op":"revoke","id":"\ud800"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h := newHouse()
		v, head, err := decode(data)
		if err != nil {
			if browserhost.CodeOf(err) == browserhost.CodeInternal {
				t.Fatalf("%v", err)
			}
			return
		}
		nobody := server{desk: h.desk(), opts: Options{Deny: h.deny}, log: slog.New(slog.DiscardHandler)}
		nobody.answer(t.Context(), &peer{}, data)
		if v.human && (len(h.done) > 0 || len(h.denied) != 1) {
			t.Fatalf("for nobody: done %v, denied %v", h.done, h.denied)
		}
		h.forget()
		value, err := v.do(t.Context(), h.desk(), head.Rest)
		switch {
		case err != nil && (browserhost.CodeOf(err) == browserhost.CodeInternal || len(h.done) > 0):
			t.Fatalf("%v, done %v", err, h.done)
		case err == nil && len(h.done) > 1:
			t.Fatalf("done %v", h.done)
		case err == nil:
			out, err := json.Marshal(value)
			if err != nil || !strings.HasPrefix(string(out), `{"ok":true`) || strings.Contains(string(out), "\n") {
				t.Fatalf("%s, %v", out, err)
			}
		}
	})
}

// The table says which half each verb is of, and each wide verb that changes
// something has a subject (S1.44).
func TestHalves(t *testing.T) {
	changes := map[string]bool{"grant": true, "requests.allow": true, "pair": true}
	wide := map[string]bool{"sources": true, "scan": true, "grant": true, "requests.allow": true, "pair": true}
	seen := map[string]bool{}
	for _, v := range verbs {
		if v.human != wide[v.name] || (v.subject != nil) != changes[v.name] || seen[v.name] {
			t.Errorf("%s: human %v, subject %v", v.name, v.human, v.subject != nil)
		}
		seen[v.name] = true
	}
}
