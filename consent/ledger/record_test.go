package ledger

import (
	"encoding/json/v2"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"browserhost"
)

// AIP-63 C6, C7, C8: what each event needs, and who may not. A record that is
// refused is not written.
func TestInvalid(t *testing.T) {
	for event, r := range whole() {
		if _, err := New(&tape{}).Append(t.Context(), r); err != nil {
			t.Errorf("%s: %v", event, err)
		}
	}
	for name, c := range map[string]struct {
		event  Event
		change func(*Record)
	}{
		"no event":                      {Grant, func(r *Record) { r.Event = "" }},
		"unknown event":                 {Grant, func(r *Record) { r.Event = "widen" }},
		"no actor":                      {Grant, func(r *Record) { r.Actor = Actor{} }},
		"unknown actor":                 {Grant, func(r *Record) { r.Actor.Kind = "root" }},
		"agent grants":                  {Grant, func(r *Record) { r.Actor = ActorOf(agent) }},
		"grant without id":              {Grant, func(r *Record) { r.GrantID = "" }},
		"grant without session":         {Grant, func(r *Record) { r.SessionID = "" }},
		"grant without count":           {Grant, func(r *Record) { r.CookieCount = nil }},
		"grant of nothing":              {Grant, func(r *Record) { r.Domains = nil }},
		"grant of an empty list":        {Grant, func(r *Record) { r.Domains = []string{} }},
		"grant of sites and everything": {Grant, func(r *Record) { r.FullProfile = true }},
		"negative count":                {Grant, func(r *Record) { r.CookieCount = new(-1) }},
		"wildcard":                      {Grant, func(r *Record) { r.Domains = []string{"*.shop.test"} }},
		"capitals":                      {Grant, func(r *Record) { r.Domains = []string{"Shop.test"} }},
		"long domain":                   {Grant, func(r *Record) { r.Domains = []string{strings.Repeat("a.", 125) + "test"} }},
		"a name for a hash":             {Grant, func(r *Record) { r.NameHashes = []string{"sid"} }},
		"capitals in a hash":            {Grant, func(r *Record) { r.NameHashes = []string{strings.Repeat("AB", 32)} }},
		"refresh without id":            {Refresh, func(r *Record) { r.GrantID = "" }},
		"refresh of nothing":            {Refresh, func(r *Record) { r.Domains = nil }},
		"refresh without count":         {Refresh, func(r *Record) { r.CookieCount = nil }},
		"revoke without id":             {Revoke, func(r *Record) { r.GrantID = "" }},
		"revoke without outcome":        {Revoke, func(r *Record) { r.Derived = nil }},
		"unknown local outcome":         {Revoke, func(r *Record) { r.Derived.Local = "maybe" }},
		"unknown remote outcome":        {Revoke, func(r *Record) { r.Derived.Remote = "" }},
		"sink-ack without id":           {SinkAck, func(r *Record) { r.GrantID = "" }},
		"sink-ack without sink":         {SinkAck, func(r *Record) { r.SinkID = "" }},
		"agent acknowledges":            {SinkAck, func(r *Record) { r.Actor = ActorOf(agent) }},
		"system acknowledges":           {SinkAck, func(r *Record) { r.Actor = ActorOf(system) }},
		"deny without reason":           {Deny, func(r *Record) { r.Reason = "" }},
		"long reason":                   {Deny, func(r *Record) { r.Reason = strings.Repeat("x", maxReason+1) }},
		"long reason, counted in pairs": {Deny, func(r *Record) { r.Reason = strings.Repeat("😀", maxReason/2) + "x" }},
		"a number of its own":           {Deny, func(r *Record) { r.Seq = new(int64(1)) }},
		"a time of its own":             {Deny, func(r *Record) { r.At = "2026-01-01T00:00:00.000Z" }},
		"a link of its own":             {Deny, func(r *Record) { r.Prev = strings.Repeat("0", 64) }},
	} {
		t.Run(name, func(t *testing.T) {
			f, r := &tape{}, whole()[c.event]
			c.change(&r)
			if _, err := New(f).Append(t.Context(), r); browserhost.CodeOf(err) != browserhost.CodeInputInvalid || len(f.steps) != 0 {
				t.Errorf("%v, %v", err, f.steps)
			}
		})
	}
	longest := whole()[Deny]
	longest.Reason = strings.Repeat("😀", maxReason/2)
	if _, err := New(&tape{}).Append(t.Context(), longest); err != nil {
		t.Errorf("a reason of exactly the length: %v", err)
	}
}

// The shape is closed when it is read, too: no member more, none without a
// value, none of another type; what other hosts may write is accepted.
func TestParse(t *testing.T) {
	text, err := os.ReadFile("testdata/reference.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for _, c := range []struct{ old, new string }{
		{"", ""},
		{`.000Z`, `+02:00`},
		{`"via":"flag"`, `"via":""`},
		{`"nameHashes":["a88beb323d02d965c3393605a47b67bd28e96857f075984c8cc0752f99a65e3d"]`, `"nameHashes":[]`},
		{`"event":"grant",`, ` "event" : "\u0067rant" , `},
		{`"domains":["github.com"]`, `"fullProfile":true`},
	} {
		if _, err := Parse([]byte(strings.Replace(line, c.old, c.new, 1))); err != nil {
			t.Errorf("%s: %v", c.new, err)
		}
	}
	for _, c := range []struct{ old, new string }{
		{`{"event"`, `{"value":"x","event"`},
		{`"kind"`, `"name":"x","kind"`},
		{`{"event":"grant"`, `{"event":"grant","event":"grant"`},
		{`"event"`, `"Event"`},
		{`"deviceId":"dev-A"`, `"deviceId":""`},
		{`"grantId":"grant_1"`, `"grantId":null`},
		{`"cookieCount":1`, `"cookieCount":1.5`},
		{`"cookieCount":1`, `"cookieCount":"1"`},
		{`"cookieCount"`, `"fullProfile":false,"cookieCount"`},
		{`"cookieCount"`, `"sinkId":null,"cookieCount"`},
		{`"cookieCount"`, `"reason":null,"cookieCount"`},
		{`"cookieCount"`, `"derived":{"local":"none","remote":"failed","x":1},"cookieCount"`},
		{`"seq":0,`, ``},
		{`"seq":0`, `"seq":-1`},
		{`"at":"2026-01-01T00:00:00.000Z"`, `"at":"today"`},
		{`"at":"2026-01-01T00:00:00.000Z"`, `"prev":"x"`},
		{`"seq":0`, `"prev":"","seq":0`},
		{`000Z"}`, `000Z"}{}`},
		{`"github.com"`, `"github.com",7`},
		{`"flag"`, "\"\xff\""},
		{line, `[]`},
		{line, ``},
	} {
		if r, err := Parse([]byte(strings.Replace(line, c.old, c.new, 1))); browserhost.CodeOf(err) != browserhost.CodeInputInvalid || !reflect.DeepEqual(r, Record{}) {
			t.Errorf("%s: %+v %v", c.new, r, err)
		}
	}
}

// Whatever a line says, it is a record or an error; a record stays the same when
// it is written and read again.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("testdata/reference.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f.Add([]byte(strings.TrimSpace(line)))
	}
	for _, r := range whole() {
		line, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(fmt.Appendf(nil, `%s,"seq":0,"at":"2026-01-01T00:00:00Z"}`, line[:len(line)-1]))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := Parse(line)
		if err != nil {
			if browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
				t.Fatal(err)
			}
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := Parse(again); err != nil || !reflect.DeepEqual(r, same) {
			t.Fatalf("%s became %s: %v", line, again, err)
		}
	})
}
