package jar

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"
	"testing"

	"filippo.io/age"
)

// Whatever the file says, it is a valid list or an error; a valid list survives
// being written again.
func FuzzGrants(f *testing.F) {
	f.Add([]byte(`{"version":1,"grants":[]}`))
	f.Add([]byte(`{"version":1,"grants":[{"id":"g","sessionId":"m","source":{"kind":"file","profile":"p"},"fullProfile":true,"sinks":[{"kind":"local"}],"grantedAt":"2026-11-30T10:00:00Z","grantedVia":"flag","cookieCount":0}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		grants, err := parse(text)
		if err != nil {
			return
		}
		dir := t.TempDir()
		j := mustOpen(t, dir, newKeys())
		for _, g := range grants {
			if err := j.Put(t.Context(), g); err != nil {
				t.Fatalf("read, but not writable: %v", err)
			}
		}
		if got := mustOpen(t, dir, newKeys()).Grants(); len(got) != len(grants) {
			t.Fatalf("%d grants became %d", len(grants), len(got))
		}
	})
}

// A plaintext that somebody else made never panics, and an error never quotes it.
func FuzzPlaintext(f *testing.F) {
	var good bytes.Buffer
	enc := jsontext.NewEncoder(&good)
	if err := json.MarshalEncode(enc, header{1, "grant_1", device, 1}); err != nil {
		f.Fatal(err)
	}
	if err := json.MarshalEncode(enc, []cookie{{Name: "sid", Value: []byte("v")}}); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Add([]byte(`{"version":1} [{"value":"` + canary + `"}]`))
	f.Add([]byte(`{"version":1} [{"value":true,"` + canary + `":1}]`))
	f.Add([]byte(`{"version":1} [] {}`))
	f.Fuzz(func(t *testing.T, plain []byte) {
		_, _, err := parseSealed(plain)
		if err != nil && strings.Contains(fmt.Sprintf("%+v", err), canary) {
			t.Fatalf("quoted: %v", err)
		}
	})
}

// One seal and unseal of a jar of 58 KB, without the disk (feasibility: 0.4 ms).
func BenchmarkSealUnseal(b *testing.B) {
	id, err := age.GenerateHybridIdentity()
	if err != nil {
		b.Fatal(err)
	}
	var values []string
	for range 150 {
		values = append(values, strings.Repeat("v", 250))
	}
	jar := cookies(values...)
	for b.Loop() {
		var sealed bytes.Buffer
		if err := seal(&sealed, header{1, "grant_1", device, 1}, jar, id); err != nil {
			b.Fatal(err)
		}
		if _, got, err := open(sealed.Bytes(), []age.Identity{id}); err != nil || len(got) != len(jar) {
			b.Fatal(err)
		}
	}
}
