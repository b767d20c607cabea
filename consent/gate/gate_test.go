package gate

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"browserhost"
	"browserhost/consent/chain"
	"browserhost/consent/jar"
	"browserhost/consent/keychain"
	"browserhost/consent/ledger"
	"browserhost/consent/narrow"
	"browserhost/consent/requests"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "canary-7e15-gate"

var (
	ada  = browserhost.DeviceID(strings.Repeat("a1", 16))
	otto = browserhost.DeviceID(strings.Repeat("07", 16))
)

// nobody is a fleet without browsers.
type nobody struct{}

func (nobody) Seed(context.Context, browserhost.Material) (browserhost.Counts, error) {
	return browserhost.Counts{}, nil
}

func (nobody) Evict(context.Context, browserhost.DeviceID, string) (int, error) { return 0, nil }

// queue is the real queue of requests, as the gate sees it.
type queue struct{ *requests.Queue }

func seen(r requests.Request) Filed {
	return Filed{ID: r.ID, Code: r.Code, Status: string(r.Status), Domains: r.Domains, GrantID: r.GrantID, ExpiresAt: r.ExpiresAt}
}

func (q queue) File(ctx context.Context, a browserhost.Actor, domains []string, reason string) (Filed, error) {
	r, err := q.Queue.File(ctx, a, domains, reason)
	return seen(r), err
}

func (q queue) Wait(ctx context.Context, d browserhost.DeviceID, id string) (Filed, error) {
	r, err := q.Queue.Wait(ctx, d, id)
	return seen(r), err
}

// rig is a gate over a real lender, jar, ledger and queue. next is the end of
// the line.
type rig struct {
	t      testing.TB
	jar    *jar.Jar
	lender *narrow.Lender
	queue  *requests.Queue
	next   func(context.Context, *browserhost.Call) (*browserhost.Result, error)
	line   browserhost.Handler
	asked  chan requests.Request
}

func newRig(t testing.TB) *rig {
	t.Helper()
	dir, vault := t.TempDir(), keychain.Open(keychain.Options{Store: keychain.Memory})
	book := filepath.Join(dir, "consent.jsonl")
	f, _, err := chain.Open(t.Context(), book, chain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	r := &rig{t: t, asked: make(chan requests.Request, 16)}
	if r.jar, err = jar.Open(dir, vault); err != nil {
		t.Fatal(err)
	}
	r.lender = narrow.New(narrow.Options{Ledger: ledger.New(f), LedgerPath: book, Jar: r.jar, Warm: nobody{}})
	r.queue = requests.New(requests.Options{Changed: func(q requests.Request) {
		if q.Status == requests.Pending {
			r.asked <- q
		}
	}})
	t.Cleanup(r.queue.Close)
	g := New(Options{Lender: r.lender, Requests: queue{r.queue}})
	r.line = g.Link(browserhost.HandlerFunc(func(ctx context.Context, call *browserhost.Call) (*browserhost.Result, error) {
		return r.next(ctx, call)
	}))
	r.next = func(_ context.Context, call *browserhost.Call) (*browserhost.Result, error) {
		return &browserhost.Result{Value: "passed on"}, nil
	}
	return r
}

func (r *rig) give(id string, device browserhost.DeviceID, domains ...string) browserhost.GrantID {
	r.t.Helper()
	g := browserhost.Grant{
		ID: browserhost.GrantID(id), SessionID: "main", DeviceID: device, Domains: domains, CookieCount: 1,
		Source: browserhost.GrantSource{Kind: "chrome", Profile: "Profile 7"}, Sinks: []browserhost.Sink{{Kind: "local"}},
		GrantedAt: "2026-11-30T12:00:00.000Z", GrantedVia: "interactive",
	}
	err := r.jar.Seal(r.t.Context(), g, []browserhost.Cookie{{Name: "sid", Value: canary, Domain: domains[0], Path: "/"}})
	if err = errors.Join(err, r.jar.Put(r.t.Context(), g)); err != nil {
		r.t.Fatal(err)
	}
	return g.ID
}

func (r *rig) call(device browserhost.DeviceID, op browserhost.Operation, args browserhost.Args) (*browserhost.Result, error) {
	return r.line.ServeTool(context.Background(), &browserhost.Call{
		Operation: op, Args: args, Actor: browserhost.Actor{Kind: browserhost.Agent, Device: device, Via: "mcp"},
	})
}

func wants(t testing.TB, err error, code browserhost.Code, state browserhost.Execution) *browserhost.Error {
	t.Helper()
	e := browserhost.AsError(err)
	if e == nil || e.Code != code || e.Execution != state {
		t.Fatalf("got %v (%+v), want %s, execution %q", err, e, code, state)
	}
	return e
}

// S1.35, AIP-63 C1: material is on a call while it runs and only where the gate
// put it: on a signed-in launch of the device that it was granted to.
func TestLaunch(t *testing.T) {
	r := newRig(t)
	id := r.give("grant_shop", ada, "shop.test")
	var got *browserhost.Material
	r.next = func(_ context.Context, call *browserhost.Call) (*browserhost.Result, error) {
		got = call.Material
		return &browserhost.Result{Value: "opened"}, nil
	}
	call := &browserhost.Call{Operation: browserhost.OpLaunch, Args: browserhost.Args{SignedIn: true}, Actor: browserhost.Actor{Kind: browserhost.Agent, Device: ada}}
	res, err := r.line.ServeTool(t.Context(), call)
	if err != nil || res.Value != "opened" || got == nil || !slices.Equal(got.Grants, []browserhost.GrantID{id}) || got.Cookies[0].Value != canary {
		t.Fatalf("%+v, %v, material %v", res, err, got)
	}
	if call.Material != nil {
		t.Error("the material stays on the call")
	}
	for _, op := range []browserhost.Operation{browserhost.OpLaunch, browserhost.OpNewPage, browserhost.OpSnapshot} {
		got = nil
		forged := &browserhost.Call{Operation: op, Actor: call.Actor, Material: &browserhost.Material{Device: ada}}
		if _, err := r.line.ServeTool(t.Context(), forged); err != nil || got != nil {
			t.Errorf("%s: %v, material %v", op, err, got)
		}
	}
}

// AIP-63 C12, contract I, K15: without a grant the launch is not started; the
// answer gives the fact, the site, and what to call.
func TestLaunchWithoutGrant(t *testing.T) {
	r := newRig(t)
	r.give("grant_shop", ada, "shop.test")
	r.next = func(context.Context, *browserhost.Call) (*browserhost.Result, error) {
		t.Error("the launch was passed on")
		return nil, nil
	}
	_, err := r.call(otto, browserhost.OpLaunch, browserhost.Args{SignedIn: true})
	e := wants(t, err, browserhost.CodeConsentRequired, browserhost.NotStarted)
	if d, ok := e.Cause["domain"]; !ok || d != nil || !strings.Contains(fmt.Sprint(e.Cause["next"]), "request_access") {
		t.Errorf("cause %v", e.Cause)
	}
	_, err = r.call(ada, browserhost.OpLaunch, browserhost.Args{SignedIn: true, Sites: []string{"shop.test", "bank.test"}})
	if e := wants(t, err, browserhost.CodeConsentRequired, browserhost.NotStarted); e.Cause["domain"] != "bank.test" {
		t.Errorf("cause %v", e.Cause)
	}
	_, err = r.call(ada, browserhost.OpLaunch, browserhost.Args{SignedIn: true, Sites: []string{"*"}})
	wants(t, err, browserhost.CodeInputInvalid, browserhost.NotStarted)
	_, err = r.call(ada, browserhost.OpLaunch, browserhost.Args{Sites: []string{"shop.test"}})
	if e := wants(t, err, browserhost.CodeInputInvalid, browserhost.NotStarted); e.Cause["field"] != "sites" {
		t.Errorf("cause %v", e.Cause)
	}
}

// The fleet's own word about how far a launch got is kept.
func TestLaunchKeepsState(t *testing.T) {
	r := newRig(t)
	r.give("grant_shop", ada, "shop.test")
	r.next = func(context.Context, *browserhost.Call) (*browserhost.Result, error) {
		return nil, browserhost.Errorf(browserhost.CodeTargetGone, "lost").State(browserhost.OutcomeUnknown)
	}
	_, err := r.call(ada, browserhost.OpLaunch, browserhost.Args{SignedIn: true})
	wants(t, err, browserhost.CodeTargetGone, browserhost.OutcomeUnknown)
}

// AIP-63 C8: a launch that a revoke meets is stopped and refused.
func TestLaunchMeetsRevoke(t *testing.T) {
	r := newRig(t)
	id := r.give("grant_shop", ada, "shop.test")
	inside := make(chan struct{})
	r.next = func(ctx context.Context, _ *browserhost.Call) (*browserhost.Result, error) {
		close(inside)
		<-ctx.Done()
		return &browserhost.Result{Value: "opened"}, nil
	}
	answer := make(chan error, 1)
	go func() {
		_, err := r.call(ada, browserhost.OpLaunch, browserhost.Args{SignedIn: true})
		answer <- err
	}()
	<-inside
	if _, err := r.lender.Revoke(t.Context(), browserhost.Actor{Kind: browserhost.Human}, id); err != nil {
		t.Fatal(err)
	}
	if e := wants(t, <-answer, browserhost.CodeConsentRequired, browserhost.NotStarted); e.Cause["reason"] != "grant_revoked" {
		t.Errorf("cause %v", e.Cause)
	}
}

// S1.41, AIP-63 C9, C12: a device lists its own grants, without a value, the
// owner's profile, or a word about anybody else.
func TestList(t *testing.T) {
	r := newRig(t)
	r.give("grant_shop", ada, "shop.test", "cafe.test")
	r.give("grant_bank", otto, "bank.test")
	res, err := r.call(ada, browserhost.OpProfileList, browserhost.Args{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(res.Value)
	if want := `{"grants":[{"grant_id":"grant_shop","domains":["shop.test","cafe.test"],"cookies":1,"granted_at":"2026-11-30T12:00:00.000Z"}]}`; err != nil || string(b) != want {
		t.Errorf("%s, %v, want %s", b, err, want)
	}
	res, err = r.call("", browserhost.OpProfileList, browserhost.Args{})
	if b, _ := json.Marshal(res.Value); err != nil || string(b) != `{"grants":[]}` {
		t.Errorf("without a device: %s, %v", b, err)
	}
}

// S1.41: a device gives its own grant back, and nobody else's.
func TestRevoke(t *testing.T) {
	r := newRig(t)
	id, foreign := r.give("grant_shop", ada, "shop.test"), r.give("grant_bank", otto, "bank.test")
	for _, other := range []string{string(foreign), "grant_never", "../../x"} {
		_, err := r.call(ada, browserhost.OpProfileRevoke, browserhost.Args{GrantID: other})
		wants(t, err, browserhost.CodeConsentRequired, browserhost.NotStarted)
	}
	res, err := r.call(ada, browserhost.OpProfileRevoke, browserhost.Args{GrantID: string(id)})
	if err != nil || res.Value != (Returned{browserhost.Completed, id, "deleted", "not-applicable", 0, false}) {
		t.Errorf("%+v, %v", res, err)
	}
	if len(r.lender.For(ada)) != 0 || len(r.lender.For(otto)) != 1 {
		t.Error("the wrong grants are left")
	}
}

// broken fails to revoke.
type broken struct{ *narrow.Lender }

func (broken) Revoke(context.Context, browserhost.Actor, browserhost.GrantID) (narrow.Revoked, error) {
	return narrow.Revoked{}, errors.New(canary)
}

// Contract F: a revoke that is not known to be done says so, and not why.
func TestRevokeUnknown(t *testing.T) {
	r := newRig(t)
	line := New(Options{Lender: broken{r.lender}, Requests: queue{r.queue}}).Link(r.line)
	_, err := line.ServeTool(t.Context(), &browserhost.Call{Operation: browserhost.OpProfileRevoke})
	if e := wants(t, err, browserhost.CodeInternal, browserhost.OutcomeUnknown); strings.Contains(e.Error(), canary) {
		t.Error(e)
	}
}

// S1.43: a request waits for the owner, and an allowed one names its grant.
func TestAskAllowed(t *testing.T) {
	r := newRig(t)
	answer := make(chan any, 1)
	go func() {
		res, err := r.call(ada, browserhost.OpRequestAccess, browserhost.Args{Domains: []string{"shop.test", "bank.test"}, Reason: "to order"})
		if err != nil {
			answer <- err
			return
		}
		answer <- res.Value
	}()
	asked := <-r.asked
	if asked.DeviceID != ada || asked.Reason != "to order" {
		t.Fatalf("%+v", asked)
	}
	id := r.give("grant_shop", ada, "shop.test") // less than was asked for
	if _, err := r.queue.Decide(asked.ID, requests.Allowed, id); err != nil {
		t.Fatal(err)
	}
	got, ok := (<-answer).(Allowed)
	if !ok || got.Status != "allowed" || got.RequestID != asked.ID || got.RequestCode != asked.Code || got.GrantID != id || !slices.Equal(got.Domains, []string{"shop.test"}) {
		t.Fatalf("%+v", got)
	}
	if res, err := r.call(ada, browserhost.OpRequestAccess, browserhost.Args{RequestID: asked.ID}); err != nil || res.Value.(Allowed).GrantID != id {
		t.Errorf("polled: %+v, %v", res, err)
	}
	_, err := r.call(otto, browserhost.OpRequestAccess, browserhost.Args{RequestID: asked.ID})
	wants(t, err, browserhost.CodeNotFound, "")
	if _, err := r.lender.Revoke(t.Context(), browserhost.Actor{Kind: browserhost.Human}, id); err != nil {
		t.Fatal(err)
	}
	_, err = r.call(ada, browserhost.OpRequestAccess, browserhost.Args{RequestID: asked.ID})
	if e := wants(t, err, browserhost.CodeConsentRequired, ""); e.Cause["reason"] != "grant_revoked" {
		t.Errorf("cause %v", e.Cause)
	}
}

// Contract B, I: after 45 seconds the agent is told that nobody has answered
// yet, with what it needs to come back; asking again is the same request.
func TestAskPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.queue.Close()
		began := time.Now()
		_, err := r.call(ada, browserhost.OpRequestAccess, browserhost.Args{Domains: []string{"shop.test"}, Reason: "to order"})
		if took := time.Since(began); took != browserhost.AskTime {
			t.Errorf("waited %v", took)
		}
		asked := <-r.asked
		e := wants(t, err, browserhost.CodeConsentRequired, "")
		c := e.Cause
		if c["pending"] != true || c["status"] != "pending" || c["request_id"] != asked.ID || c["request_code"] != asked.Code || c["expires_at"] != asked.ExpiresAt || c["domain"] != "shop.test" {
			t.Errorf("cause %v", c)
		}
		if !strings.Contains(fmt.Sprint(c["next"]), asked.ID) {
			t.Errorf("next %v", c["next"])
		}
		again := make(chan error, 1)
		go func() {
			_, err := r.call(ada, browserhost.OpRequestAccess, browserhost.Args{Domains: []string{"shop.test"}, Reason: "again"})
			again <- err
		}()
		synctest.Wait()
		if _, err := r.queue.Decide(asked.ID, requests.Denied, ""); err != nil {
			t.Fatal(err)
		}
		if e := wants(t, <-again, browserhost.CodeConsentRequired, ""); e.Cause["status"] != "denied" || e.Cause["request_id"] != asked.ID {
			t.Errorf("cause %v", e.Cause)
		}
	})
}

// However a request ends, its agent is told which way.
func TestAskEnds(t *testing.T) {
	for _, status := range []string{"denied", "expired", "withdrawn"} {
		e := unanswered(Filed{ID: "req_1", Code: "K7-204", Status: status, Domains: []string{"shop.test"}})
		if e.Code != browserhost.CodeConsentRequired || e.Cause["status"] != status || e.Cause["pending"] != nil || e.Retryable {
			t.Errorf("%s: %+v", status, e)
		}
	}
}

// S1.36, S1.43, S3: bad arguments are refused, named, and nobody is asked.
func TestAskRefused(t *testing.T) {
	r := newRig(t)
	for field, args := range map[string]browserhost.Args{
		"domains":    {Reason: "to order"},
		"reason":     {Domains: []string{"shop.test"}},
		"request_id": {RequestID: "req_1", Domains: []string{"shop.test"}, Reason: "to order"},
	} {
		_, err := r.call(ada, browserhost.OpRequestAccess, args)
		if e := wants(t, err, browserhost.CodeInputInvalid, ""); e.Cause["field"] != field {
			t.Errorf("%s: cause %v", field, e.Cause)
		}
	}
	for _, bad := range []string{"*", "test", "co.uk", "github.io", "127.0.0.1", "", "shop test", "SHOP.test", "shop.test."} {
		_, err := r.call(ada, browserhost.OpRequestAccess, browserhost.Args{Domains: []string{"shop.test", bad}, Reason: "to order"})
		wants(t, err, browserhost.CodeInputInvalid, "")
	}
	if n := len(r.queue.List()); n != 0 {
		t.Errorf("%d requests were filed", n)
	}
}

// Every other operation passes as it is.
func TestOthersPass(t *testing.T) {
	r := newRig(t)
	for _, op := range []browserhost.Operation{browserhost.OpTargets, browserhost.OpNavigate, browserhost.OpCloseBrowser} {
		if res, err := r.call(ada, op, browserhost.Args{}); err != nil || res.Value != "passed on" {
			t.Errorf("%s: %+v, %v", op, res, err)
		}
	}
}
