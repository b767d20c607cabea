package ledger

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"browserhost"
	"browserhost/consent/chain"
)

// keys are MACs under a secret of the test's own.
type keys string

func (k keys) MAC(_ context.Context, label string, data []byte) ([]byte, error) {
	h := hmac.New(sha256.New, []byte(string(k)+label))
	h.Write(data)
	return h.Sum(nil), nil
}

// tape is a chain that notes what is asked of it, in order, and can fail.
type tape struct {
	steps               []string
	row                 any
	appending, flushing error
}

func (f *tape) Append(_ context.Context, row any) (int64, string, error) {
	f.steps, f.row = append(f.steps, "append"), row
	return 7, "", f.appending
}

func (f *tape) Durable(context.Context) error {
	f.steps = append(f.steps, "durable")
	return f.flushing
}

var (
	human  = browserhost.Actor{Kind: browserhost.Human, Name: "Ada", Via: "cli"}
	agent  = browserhost.Actor{Kind: browserhost.Agent, Name: "Bot", Via: "mcp", Device: "00112233445566778899aabbccddeeff"}
	system = browserhost.Actor{Kind: browserhost.System, Via: "expiry"}
)

// whole are records that have all that their event needs.
func whole() map[Event]Record {
	return map[Event]Record{
		Grant:   {Event: Grant, Actor: ActorOf(human), GrantID: "grant_1", SessionID: "main", Domains: []string{"shop.test"}, CookieCount: new(2)},
		Refresh: {Event: Refresh, Actor: ActorOf(agent), GrantID: "grant_1", Domains: []string{"shop.test"}, CookieCount: new(0)},
		Revoke:  {Event: Revoke, Actor: ActorOf(system), GrantID: "grant_1", Derived: &Derived{"deleted", "not-applicable"}},
		SinkAck: {Event: SinkAck, Actor: ActorOf(human), GrantID: "grant_1", SinkID: "browserbase"},
		Deny:    {Event: Deny, Actor: ActorOf(agent), Reason: "an agent asked to widen a grant"},
	}
}

// What this package writes is byte for byte what AIP-63's reference writes:
// names, order, numbers, times and links.
func TestReferenceVector(t *testing.T) {
	want, err := os.ReadFile("testdata/reference.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2025, 12, 31, 23, 59, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "consent.jsonl")
	f, _, err := chain.Open(t.Context(), path, chain.Options{Now: func() time.Time { at = at.Add(time.Minute); return at }})
	if err != nil {
		t.Fatal(err)
	}
	l := New(f)
	for i, r := range []Record{
		{Event: Grant, Actor: Actor{browserhost.Human, "flag", "dev-A"}, GrantID: "grant_1", SessionID: "s1", Domains: []string{"github.com"},
			CookieCount: new(1), NameHashes: []string{"a88beb323d02d965c3393605a47b67bd28e96857f075984c8cc0752f99a65e3d"}},
		{Event: Revoke, Actor: Actor{Kind: browserhost.Human}, GrantID: "grant_1", SessionID: "s1", Derived: &Derived{"deleted", "not-applicable"}},
	} {
		if seq, err := l.Append(t.Context(), r); seq != int64(i) || err != nil {
			t.Fatal(seq, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
		t.Errorf("%v\n%s, want\n%s", err, got, want)
	}
	n := 0
	for r, err := range Read(t.Context(), path) {
		if err != nil || *r.Seq != int64(n) {
			t.Errorf("%+v %v", r, err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d records", n)
	}
}

// Every member in its place: the order of the reference.
func TestOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "consent.jsonl")
	f, _, err := chain.Open(t.Context(), path, chain.Options{Now: func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }})
	if err != nil {
		t.Fatal(err)
	}
	hash := strings.Repeat("0f", 32)
	if _, err := New(f).Append(t.Context(), Record{Event: Refresh, Actor: Actor{browserhost.Agent, "mcp", "d"}, GrantID: "g", SessionID: "s", Domains: []string{"a.test"},
		CookieCount: new(0), NameHashes: []string{hash}, SinkID: "p", Derived: &Derived{"none", "failed"}, Reason: "<r> & é"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	want := `{"event":"refresh","actor":{"kind":"agent","via":"mcp","deviceId":"d"},"grantId":"g","sessionId":"s","domains":["a.test"],"cookieCount":0,` +
		`"nameHashes":["` + hash + `"],"sinkId":"p","derived":{"local":"none","remote":"failed"},"reason":"<r> & é","seq":0,"at":"2026-01-01T00:00:00.000Z"}` + "\n"
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%v\n%s, want\n%s", err, got, want)
	}
}

// AIP-63 C1, C10: a record is on the disk when Append returns, and one that is
// not is an error, whatever went wrong.
func TestRecordFirst(t *testing.T) {
	f := &tape{}
	if seq, err := New(f).Append(t.Context(), whole()[Grant]); seq != 7 || err != nil || !slices.Equal(f.steps, []string{"append", "durable"}) {
		t.Errorf("%d %v %v", seq, err, f.steps)
	}
	disk := errors.New("no space left")
	f = &tape{appending: disk}
	if _, err := New(f).Append(t.Context(), whole()[Grant]); !errors.Is(err, disk) || len(f.steps) != 1 {
		t.Errorf("%v %v", err, f.steps)
	}
	f = &tape{flushing: disk}
	if _, err := New(f).Append(t.Context(), whole()[Grant]); !errors.Is(err, disk) {
		t.Error(err)
	}
	if err := New(f).Deny(t.Context(), agent, "no"); !errors.Is(err, disk) {
		t.Error(err)
	}
}

// S1.42: a refusal is recorded with who asked and why, without the name that a
// device gave itself, and cut where a record ends.
func TestDeny(t *testing.T) {
	f := &tape{}
	if err := New(f).Deny(t.Context(), agent, strings.Repeat("é", 498)+"😀\xff tail"); err != nil {
		t.Fatal(err)
	}
	want := Record{Event: Deny, Actor: Actor{browserhost.Agent, "mcp", agent.Device}, Reason: strings.Repeat("é", 498) + "😀"}
	if !reflect.DeepEqual(f.row, want) {
		t.Errorf("%+v", f.row)
	}
	if err := New(f).Deny(t.Context(), agent, ""); browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
		t.Error("a refusal without a reason", err)
	}
}

// AIP-63 C9, D11: names of cookies are kept as hashes that only this host can
// make, one for each name, in their first order.
func TestNameHashes(t *testing.T) {
	hashes := func(k keys, id browserhost.GrantID, names ...string) []string {
		h, err := NameHashes(t.Context(), k, id, names)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	got := hashes("one", "grant_1", "sid", "user_session", "sid")
	if len(got) != 2 || !hashForm.MatchString(got[0]) || got[1] != hashes("one", "grant_1", "user_session")[0] {
		t.Errorf("%q", got)
	}
	// The plain hash of the reference, which anybody can compute:
	const plain = "94835d11e253f621ce30b0ec38ab31eaf687193825ea0bcedd4a91a1ba24fc4c"
	if sum := sha256.Sum256([]byte("grant_1\x00sid")); hex.EncodeToString(sum[:]) != plain {
		t.Fatal("the vector of the plain hash does not hold")
	}
	others := []string{plain, hashes("two", "grant_1", "sid")[0], hashes("one", "grant_2", "sid")[0], hashes("one", "grant_", "1\x00sid")[0]}
	if slices.Contains(others, got[0]) {
		t.Error("the hash does not depend on the host and the grant")
	}
	if h, err := NameHashes(t.Context(), nil, "grant_1", nil); h != nil || browserhost.CodeOf(err) != browserhost.CodeKeyring {
		t.Errorf("%v %v", h, err)
	}
}

// Lines that are no records are passed over with an error each; the rest is read.
func TestReadGoesOn(t *testing.T) {
	want, err := os.ReadFile("testdata/reference.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(want), "\n")
	path := filepath.Join(t.TempDir(), "consent.jsonl")
	if err := os.WriteFile(path, []byte(lines[0]+"{\"event\":\"gr\n"+lines[1]+`{"ev`), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []Event
	for r, err := range Read(t.Context(), path) {
		if err != nil && browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
			t.Error(err)
		}
		got = append(got, r.Event)
	}
	if !slices.Equal(got, []Event{Grant, "", Revoke, ""}) {
		t.Errorf("%q", got)
	}
}
