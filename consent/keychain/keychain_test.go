package keychain

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zalando/go-keyring"
	"go.uber.org/goleak"

	"browserhost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "canary-7f3a-keychain"

// fake is a keychain whose next call can be made to hang or to panic.
type fake struct {
	memory
	hang   chan struct{} // calls wait for it when set
	boom   bool
	fail   error
	inside int // calls inside at once
	most   int
	calls  int
	count  sync.Mutex
}

func newFake() (*fake, *Vault) {
	f := &fake{memory: memory{items: map[string]string{}}}
	v := Open(Options{Account: "test"})
	v.store = f
	return f, v
}

func (f *fake) enter() error {
	f.count.Lock()
	f.calls++
	f.inside++
	f.most = max(f.most, f.inside)
	hang, boom, fail := f.hang, f.boom, f.fail
	f.count.Unlock()
	defer func() { f.count.Lock(); f.inside--; f.count.Unlock() }()
	if hang != nil {
		<-hang
	}
	if boom {
		var nothing *fake
		_ = nothing.calls // what the library does when the bus goes away
	}
	return fail
}

func (f *fake) get(s, u string) (string, error) {
	if err := f.enter(); err != nil {
		return "", err
	}
	return f.memory.get(s, u)
}

func (f *fake) set(s, u, v string) error {
	if err := f.enter(); err != nil {
		return err
	}
	return f.memory.set(s, u, v)
}

func (f *fake) delete(s, u string) error {
	if err := f.enter(); err != nil {
		return err
	}
	return f.memory.delete(s, u)
}

func wantReason(t *testing.T, err error, want reason) {
	t.Helper()
	e := browserhost.AsError(err)
	if e == nil || e.Code != browserhost.CodeKeyring || e.Cause["reason"] != string(want) {
		t.Fatalf("got %v (cause %v), want %s with reason %s", err, e, browserhost.CodeKeyring, want)
	}
}

// Items come back as they were stored, are kept apart by account, and a
// missing one is told apart from a missing keychain.
func TestItems(t *testing.T) {
	keyring.MockInit()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/mocked")
	for _, which := range []Store{Keychain, Memory} {
		t.Run(string(which), func(t *testing.T) {
			ctx := t.Context()
			one, two := Open(Options{Store: which, Account: "one"}), Open(Options{Store: which, Account: "two"})
			if _, err := one.Get(ctx, "x"); !errors.Is(err, ErrMissing) || browserhost.CodeOf(err) != browserhost.CodeNotFound {
				t.Fatalf("missing item: %v", err)
			}
			if err := one.Set(ctx, "x", canary); err != nil {
				t.Fatal(err)
			}
			if got, err := one.Get(ctx, "x"); err != nil || string(got) != canary {
				t.Fatalf("got %v, %v", got, err)
			}
			if _, err := two.Get(ctx, "x"); !errors.Is(err, ErrMissing) {
				t.Fatalf("the other account sees the item: %v", err)
			}
			if err := one.Delete(ctx, "x"); err != nil {
				t.Fatal(err)
			}
			if err := one.Delete(ctx, "x"); err != nil {
				t.Fatalf("deleting what is gone: %v", err)
			}
			if _, err := one.Get(ctx, "x"); !errors.Is(err, ErrMissing) {
				t.Fatalf("still there: %v", err)
			}
		})
	}
}

// K8: every keychain takes 80 characters; no more are ever tried.
func TestItemLength_K8(t *testing.T) {
	f, v := newFake()
	for _, n := range []int{0, MaxItem + 1} {
		err := v.Set(t.Context(), "x", browserhost.Secret(strings.Repeat("a", n)))
		if browserhost.CodeOf(err) != browserhost.CodeInputInvalid {
			t.Errorf("%d characters: %v", n, err)
		}
	}
	if err := v.Set(t.Context(), "x", browserhost.Secret(strings.Repeat("a", MaxItem))); err != nil {
		t.Error(err)
	}
	if _, err := v.MAC(t.Context(), "l", nil); err != nil {
		t.Error(err)
	}
	for name, value := range f.items {
		if len(value) > MaxItem {
			t.Errorf("%s has %d characters", name, len(value))
		}
	}
}

// A MAC is stable across restarts, differs by label and by state directory,
// and after the first one the keychain is left alone.
func TestMAC(t *testing.T) {
	ctx := t.Context()
	f, v := newFake()
	first, err := v.MAC(ctx, "names", []byte("sid"))
	if err != nil || len(first) != sha256.Size {
		t.Fatalf("%x, %v", first, err)
	}
	calls := f.calls
	again, _ := v.MAC(ctx, "names", []byte("sid"))
	label, _ := v.MAC(ctx, "bearers", []byte("sid"))
	if !bytes.Equal(first, again) || bytes.Equal(first, label) {
		t.Fatal("a MAC must depend on its label and on nothing that changes")
	}
	if f.calls != calls {
		t.Errorf("the keychain was asked %d times more", f.calls-calls)
	}
	restarted := Open(Options{Account: "test"})
	restarted.store = f
	if after, err := restarted.MAC(ctx, "names", []byte("sid")); err != nil || !bytes.Equal(first, after) {
		t.Errorf("after a restart: %x, %v", after, err)
	}
	other := Open(Options{Account: "other"})
	other.store = f
	if foreign, _ := other.MAC(ctx, "names", []byte("sid")); bytes.Equal(first, foreign) {
		t.Error("two state directories share a secret")
	}
}

// The construction itself: HKDF-SHA256 over the item's 32 bytes, RFC 5869 with
// no salt and the label as info, computed here by hand.
func TestMACConstruction(t *testing.T) {
	f, v := newFake()
	f.items["test/host-secret"] = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="
	mac := func(key, data []byte) []byte {
		h := hmac.New(sha256.New, key)
		h.Write(data)
		return h.Sum(nil)
	}
	prk := mac(make([]byte, sha256.Size), bytes.Repeat([]byte{7}, 32))
	want := mac(mac(prk, []byte("label\x01")), []byte("data"))
	if got, err := v.MAC(t.Context(), "label", []byte("data")); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %x, %v; want %x", got, err, want)
	}
}

// A damaged host secret is reported, not replaced: replacing it would break
// every MAC without a word.
func TestDamagedSecret(t *testing.T) {
	f, v := newFake()
	f.items["test/host-secret"] = "c2hvcnQ="
	_, err := v.MAC(t.Context(), "l", nil)
	wantReason(t, err, damaged)
	if f.items["test/host-secret"] != "c2hvcnQ=" {
		t.Error("the item was replaced")
	}
}

// Many first MACs at once make one secret.
func TestMACTogether(t *testing.T) {
	f, v := newFake()
	var group sync.WaitGroup
	sums := make([]string, 32)
	for i := range sums {
		group.Go(func() {
			sum, err := v.MAC(t.Context(), "l", []byte("d"))
			sums[i] = fmt.Sprintf("%x %v", sum, err)
		})
	}
	group.Wait()
	for _, s := range sums {
		if s != sums[0] {
			t.Fatalf("%s and %s", s, sums[0])
		}
	}
	if f.most != 1 {
		t.Errorf("%d calls at once (SC.2 wants one)", f.most)
	}
}

// S2: a keychain that does not answer costs a caller 5 s once, the next ones
// nothing, and when it answers everything works without a restart.
func TestS2HungKeychain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, v := newFake()
		hang := make(chan struct{})
		f.hang = hang
		start := time.Now()
		_, err := v.Get(t.Context(), "x")
		wantReason(t, err, timeout)
		if took := time.Since(start); took != DefaultTimeout {
			t.Errorf("first call: %v", took)
		}
		start = time.Now()
		err = v.Set(t.Context(), "x", canary)
		wantReason(t, err, busy)
		_, err = v.MAC(t.Context(), "l", nil)
		wantReason(t, err, busy)
		if ok, why := v.State(t.Context()); ok || why == "" {
			t.Errorf("state: %v %q", ok, why)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("later calls waited %v behind a hung one", took)
		}
		f.count.Lock()
		f.hang = nil
		f.count.Unlock()
		close(hang)
		synctest.Wait()
		if err := v.Set(t.Context(), "x", canary); err != nil {
			t.Errorf("after it answered: %v", err)
		}
		if ok, why := v.State(t.Context()); !ok {
			t.Errorf("state: %s", why)
		}
		if f.most != 1 {
			t.Errorf("%d calls at once", f.most)
		}
	})
}

// Waiting for a turn counts: twenty callers of a keychain that hangs are all
// answered within the one time-out.
func TestTurnsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, v := newFake()
		hang := make(chan struct{})
		f.hang = hang
		start := time.Now()
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				_, err := v.Get(t.Context(), "x")
				if browserhost.CodeOf(err) != browserhost.CodeKeyring {
					t.Errorf("got %v", err)
				}
			})
		}
		group.Wait()
		if took := time.Since(start); took != DefaultTimeout {
			t.Errorf("took %v", took)
		}
		close(hang)
	})
}

// A caller that leaves is let go at once, and the next one gets its turn.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, v := newFake()
		hang := make(chan struct{})
		f.hang = hang
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := v.Get(ctx, "x")
		wantReason(t, err, timeout)
		f.count.Lock()
		f.hang = nil
		f.count.Unlock()
		go func() {
			<-time.After(time.Second)
			close(hang)
		}()
		if err := v.Set(t.Context(), "x", canary); err != nil {
			t.Error(err)
		}
	})
}

// K7: whatever goes wrong has one code and a reason, and no error, however it
// is printed, holds a secret.
func TestErrors_K7(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*fake)
		want reason
	}{
		{"locked", func(f *fake) {
			f.fail = errors.New("failed to unlock correct collection '/org/freedesktop/secrets/aliases/default'")
		}, locked},
		{"service missing", func(f *fake) {
			f.fail = errors.New("The name org.freedesktop.secrets was not provided by any .service files")
		}, noService},
		{"anything", func(f *fake) { f.fail = keyring.ErrUnsupportedPlatform }, failed},
		{"panic", func(f *fake) { f.boom = true }, failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, v := newFake()
			c.set(f)
			_, err := v.Get(t.Context(), "x")
			wantReason(t, err, c.want)
			err = v.Set(t.Context(), "x", canary)
			wantReason(t, err, c.want)
			wantReason(t, v.Delete(t.Context(), "x"), c.want)
			_, macErr := v.MAC(t.Context(), "l", []byte(canary))
			wantReason(t, macErr, c.want)
			ok, why := v.State(t.Context())
			if ok || why != sentences[c.want] {
				t.Errorf("state: %v %q", ok, why)
			}
			for _, e := range []error{err, macErr} {
				if text := fmt.Sprintf("%v %+v %#v %v", e, e, e, browserhost.Failure(e)); strings.Contains(text, canary) {
					t.Errorf("the secret is in %s", text)
				}
			}
			if m := browserhost.AsError(err).Message; strings.Contains(m, "/") {
				t.Errorf("a path is in %q", m)
			}
		})
	}
}

// An unknown store serves nothing; it never means "somewhere else".
func TestUnknownStore_K7(t *testing.T) {
	v := Open(Options{Store: "file"})
	wantReason(t, v.Set(t.Context(), "x", canary), noStore)
	_, err := v.Get(t.Context(), "x")
	wantReason(t, err, noStore)
	wantReason(t, v.Delete(t.Context(), "x"), noStore)
}
