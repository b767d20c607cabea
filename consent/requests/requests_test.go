package requests

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"browserhost"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func device(n int) browserhost.Actor {
	return browserhost.Actor{Kind: browserhost.Agent, Name: "Bot", Via: "mcp", Device: browserhost.DeviceID(fmt.Sprintf("%032x", n))}
}

var ada = device(1)

func file(t testing.TB, q *Queue, by browserhost.Actor, names ...string) Request {
	t.Helper()
	r, err := q.File(t.Context(), by, names, "to order milk")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func open(t testing.TB, opts Options) *Queue {
	t.Helper()
	q := New(opts)
	t.Cleanup(q.Close)
	return q
}

// S1.43: the record of a request, member by member; a member that would let an
// agent choose source, sink or duration does not exist.
func TestRecord(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	q := open(t, Options{Now: func() time.Time { return now }})
	r := file(t, q, ada, "shop.test", "bank.test")
	if !regexp.MustCompile(`^[A-Z][2-9]-\d{3}$`).MatchString(r.Code) || !strings.HasPrefix(r.ID, "req_") || len(r.ID) < 24 || len(r.Digest) != 64 {
		t.Errorf("%+v", r)
	}
	show := func(r Request) string {
		r.ID, r.Code, r.Digest = "i", "c", "d"
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const filed = `{"id":"i","code":"c","deviceId":"00000000000000000000000000000001","kind":"browser.grant","domains":["shop.test","bank.test"],"provider":"chrome",` +
		`"reason":"to order milk","createdAt":"2026-01-01T12:00:00.000Z","expiresAt":"2026-01-01T12:10:00.000Z",`
	if got, want := show(r), filed+`"status":"pending","digest":"d"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	now = now.Add(time.Minute)
	answered, err := q.Decide(r.ID, Allowed, "grant_1")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := show(answered), filed+`"status":"allowed","decidedBy":"human","decidedAt":"2026-01-01T12:01:00.000Z","grantId":"grant_1","digest":"d"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if answered.Digest != r.Digest || answered.digest() != r.Digest {
		t.Error("the digest changes with the answer")
	}
	for _, change := range []func(*Request){
		func(r *Request) { r.ID = "x" }, func(r *Request) { r.DeviceID = "x" }, func(r *Request) { r.Domains = r.Domains[:1] },
		func(r *Request) { r.Reason = "x" }, func(r *Request) { r.ExpiresAt = "x" },
	} {
		other := r
		if change(&other); other.digest() == r.Digest {
			t.Errorf("the digest does not cover %+v", other)
		}
	}
	r.Domains[0] = "evil.test"
	if got, err := q.Get(ada.Device, r.ID); err != nil || got.Domains[0] != "shop.test" {
		t.Errorf("a copy changes the request: %+v %v", got, err)
	}
}

// A request that could never be allowed, or says nothing, is not filed (AIP-63
// C2), and neither is one of nobody.
func TestRefused(t *testing.T) {
	told := 0
	q := open(t, Options{Changed: func(Request) { told++ }})
	for _, c := range []struct {
		by     browserhost.Actor
		names  []string
		reason string
		code   browserhost.Code
	}{
		{ada, nil, "r", browserhost.CodeInputInvalid},
		{ada, []string{"shop.test", "co.uk"}, "r", browserhost.CodeInputInvalid},
		{ada, []string{"*"}, "r", browserhost.CodeInputInvalid},
		{ada, slices.Repeat([]string{"shop.test"}, 17), "r", browserhost.CodeInputInvalid},
		{ada, []string{"shop.test"}, "", browserhost.CodeInputInvalid},
		{ada, []string{"shop.test"}, "\u202e \n\x00", browserhost.CodeInputInvalid},
		{browserhost.Actor{Kind: browserhost.Human}, []string{"shop.test"}, "r", browserhost.CodeUnauthorised},
		{browserhost.Actor{Kind: browserhost.Agent, Device: "x"}, []string{"shop.test"}, "r", browserhost.CodeUnauthorised},
	} {
		if r, err := q.File(t.Context(), c.by, c.names, c.reason); browserhost.CodeOf(err) != c.code || r.ID != "" {
			t.Errorf("%v %q: %+v %v", c.names, c.reason, r, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.File(gone, ada, []string{"shop.test"}, "r"); err == nil {
		t.Error("filed for a caller that is gone")
	}
	if told != 0 || len(q.List()) != 0 {
		t.Errorf("told %d times, %v", told, q.List())
	}
}

// The agent's words are shown to the owner as one short line that hides nothing.
func TestReason(t *testing.T) {
	q := open(t, Options{})
	for in, want := range map[string]string{
		"  to\norder\t milk ":                  "to order milk",
		"order\u202eklim\u2066 \u200b\x1b[31m": "order klim [31m",
		strings.Repeat("é", 400):               strings.Repeat("é", 300),
		"bad \xff byte":                        "bad \ufffd byte",
		"line\u2028break":                      "line break",
	} {
		r, err := q.File(t.Context(), ada, []string{"shop.test"}, in)
		if err != nil || r.Reason != want {
			t.Errorf("%q became %q, want %q: %v", in, r.Reason, want, err)
		}
		if _, err := q.Decide(r.ID, Denied, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// Asking twice for the same sites is one question to the owner, in whatever
// order they are named; after an answer, and for another device or other sites,
// it is a new one.
func TestCoalesce(t *testing.T) {
	told := 0
	q := open(t, Options{Changed: func(Request) { told++ }})
	first := file(t, q, ada, "shop.test", "bank.test")
	if again := file(t, q, ada, "bank.test", "shop.test", "bank.test"); again.ID != first.ID {
		t.Errorf("%+v", again)
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	seen := []string{first.ID, file(t, q, ada, "shop.test").ID, file(t, q, device(2), "shop.test", "bank.test").ID}
	if _, err := q.Decide(first.ID, Denied, ""); err != nil {
		t.Fatal(err)
	}
	seen = append(seen, file(t, q, ada, "shop.test", "bank.test").ID)
	slices.Sort(seen)
	if len(slices.Compact(seen)) != 4 {
		t.Errorf("%q", seen)
	}
}

// Each bound holds at the bound: three pending requests of a device, 32 of all,
// 256 that are remembered.
func TestBounds(t *testing.T) {
	q := open(t, Options{})
	for n := range MaxPending {
		by := device(n/MaxPerDevice + 1)
		file(t, q, by, fmt.Sprintf("shop%d.test", n))
		if n == MaxPerDevice-1 {
			_, err := q.File(t.Context(), by, []string{"more.test"}, "r")
			if browserhost.CodeOf(err) != browserhost.CodeRateLimited || browserhost.AsError(err).Cause["retryAfter"] != 600 {
				t.Errorf("a fourth of one device: %v", err)
			}
			file(t, q, by, "shop0.test") // what it has already, it may ask for again
		}
	}
	if _, err := q.File(t.Context(), device(99), []string{"more.test"}, "r"); browserhost.CodeOf(err) != browserhost.CodeRateLimited {
		t.Errorf("one more than all: %v", err)
	}
	for n := range 2 * maxKept {
		if _, err := q.Decide(q.List()[max(0, len(q.List())-1)].ID, Denied, ""); err != nil {
			t.Fatal(err)
		}
		file(t, q, device(100+n), "shop.test")
	}
	list := q.List()
	codes := map[string]bool{}
	pending := 0
	for _, r := range list {
		codes[r.Code] = true
		if r.Status == Pending {
			pending++
		}
	}
	if len(list) != maxKept || pending != MaxPending || len(codes) != maxKept {
		t.Errorf("%d requests, %d pending, %d codes", len(list), pending, len(codes))
	}
}

// AIP-63 C12: a request of another device is one that never was.
func TestForeignRequest(t *testing.T) {
	q := open(t, Options{})
	r := file(t, q, ada, "shop.test")
	for _, c := range []struct {
		device browserhost.DeviceID
		id     string
	}{{device(2).Device, r.ID}, {ada.Device, "req_x"}, {ada.Device, r.Code}, {"", r.ID}} {
		_, err := q.Get(c.device, c.id)
		_, waited := q.Wait(t.Context(), c.device, c.id)
		for _, err := range []error{err, waited} {
			if browserhost.CodeOf(err) != browserhost.CodeNotFound || err.Error() != unknown().Error() {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
	if got, ok := q.Find(strings.ToLower(r.Code)); !ok || got.ID != r.ID {
		t.Errorf("%+v", got)
	}
	if _, ok := q.Find(""); ok {
		t.Error("no id finds a request")
	}
}

// An answer is final, and an allowed one has its grant (AIP-63 C7).
func TestDecide(t *testing.T) {
	q := open(t, Options{})
	r := file(t, q, ada, "shop.test")
	for _, c := range []struct {
		id     string
		status Status
		grant  browserhost.GrantID
		code   browserhost.Code
	}{
		{"req_x", Denied, "", browserhost.CodeNotFound},
		{r.ID, Allowed, "", browserhost.CodeInputInvalid},
		{r.ID, Denied, "grant_1", browserhost.CodeInputInvalid},
		{r.ID, Pending, "", browserhost.CodeInputInvalid},
		{r.ID, Expired, "", browserhost.CodeInputInvalid},
	} {
		if _, err := q.Decide(c.id, c.status, c.grant); browserhost.CodeOf(err) != c.code {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if got, err := q.Get(ada.Device, r.ID); err != nil || got.Status != Pending {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := q.Decide(r.Code, Denied, ""); err != nil || got.Status != Denied {
		t.Errorf("%+v %v", got, err)
	}
	got, err := q.Decide(r.ID, Allowed, "grant_1")
	if browserhost.CodeOf(err) != browserhost.CodeInputInvalid || browserhost.AsError(err).Cause["status"] != "denied" || got.Status != Denied || got.GrantID != "" {
		t.Errorf("%+v %v", got, err)
	}
}

// Who waits is woken by the answer, and by nothing else before its patience ends.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(t, Options{})
		r := file(t, q, ada, "shop.test")
		patience, cancel := context.WithTimeout(t.Context(), browserhost.AskTime)
		defer cancel()
		began := time.Now()
		if got, err := q.Wait(patience, ada.Device, r.ID); err != nil || got.Status != Pending || time.Since(began) != browserhost.AskTime {
			t.Errorf("%+v %v after %v", got, err, time.Since(began))
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if got, err := q.Wait(t.Context(), ada.Device, r.ID); err != nil || got.Status != Allowed || got.GrantID != "grant_1" {
					t.Errorf("%+v %v", got, err)
				}
			})
		}
		synctest.Wait()
		if _, err := q.Decide(r.ID, Allowed, "grant_1"); err != nil {
			t.Fatal(err)
		}
		all.Wait()
	})
}

// S1.43: nobody answering for ten minutes is no: the request expires by
// itself, who waits is told, and it cannot be allowed any more.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []Status
		q := open(t, Options{Changed: func(r Request) { told = append(told, r.Status) }})
		r := file(t, q, ada, "shop.test")
		time.Sleep(Answerable - time.Millisecond)
		synctest.Wait()
		if got, err := q.Get(ada.Device, r.ID); err != nil || got.Status != Pending {
			t.Errorf("%+v %v", got, err)
		}
		if got, err := q.Wait(t.Context(), ada.Device, r.ID); err != nil || got.Status != Expired || got.DecidedBy != browserhost.System || got.DecidedAt != r.ExpiresAt {
			t.Errorf("%+v %v", got, err)
		}
		if _, err := q.Decide(r.ID, Allowed, "grant_1"); browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
			t.Error(err)
		}
		synctest.Wait()
		if !slices.Equal(told, []Status{Pending, Expired}) {
			t.Errorf("%q", told)
		}
		if again := file(t, q, ada, "shop.test"); again.ID == r.ID {
			t.Error("an expired request is not a new one")
		}
	})
}

// A computer that slept wakes its timers late: what is over its time by the
// clock cannot be allowed, and does not count as waiting.
func TestExpiryByTheClock(t *testing.T) {
	now := time.Now()
	q := open(t, Options{Now: func() time.Time { return now }})
	r := file(t, q, ada, "shop.test")
	now = now.Add(Answerable)
	if got, err := q.Decide(r.ID, Allowed, "grant_1"); browserhost.CodeOf(err) != browserhost.CodeInputInvalid || got.Status != Expired {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := q.Wait(t.Context(), ada.Device, r.ID); err != nil || got.Status != Expired {
		t.Errorf("%+v %v", got, err)
	}
}

// AIP-63 C13: a removed device's questions are taken back, and only its own.
func TestWithdraw(t *testing.T) {
	q := open(t, Options{})
	gone, stays := file(t, q, ada, "shop.test"), file(t, q, device(2), "shop.test")
	done := file(t, q, ada, "bank.test")
	if _, err := q.Decide(done.ID, Denied, ""); err != nil {
		t.Fatal(err)
	}
	q.WithdrawDevice(ada.Device)
	for id, want := range map[string]Status{gone.ID: Withdrawn, stays.ID: Pending, done.ID: Denied} {
		if r, ok := q.Find(id); !ok || r.Status != want {
			t.Errorf("%+v, want %s", r, want)
		}
	}
	q.Close()
	if r, err := q.Wait(t.Context(), device(2).Device, stays.ID); err != nil || r.Status != Withdrawn {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := q.File(t.Context(), ada, []string{"shop.test"}, "r"); browserhost.CodeOf(err) != browserhost.CodeNotReady {
		t.Error(err)
	}
}
