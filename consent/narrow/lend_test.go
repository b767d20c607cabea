package narrow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"browserhost"
)

// AIP-63 C1, C12, S1.50: what is granted to a device is lent to it, and for
// any other device it is not there.
func TestLend(t *testing.T) {
	r := newRig(t)
	id := r.give("grant_shop", ada)
	m, err := r.lend(ada)
	if err != nil || m.Device != ada || !slices.Equal(m.Grants, []browserhost.GrantID{id}) || !slices.Equal(m.Domains, []string{"shop.test"}) {
		t.Fatalf("%+v, %v", m, err)
	}
	if len(m.Cookies) != 1 || m.Cookies[0].Value != browserhost.Secret(canary+"grant_shop") {
		t.Errorf("cookies %v", m.Cookies)
	}
	if strings.Contains(fmt.Sprintf("%+v", m), canary) {
		t.Error("the material prints (AIP-63 C9)")
	}
	_, err = r.lend(otto)
	if e := wants(t, err, browserhost.CodeConsentRequired); e.Cause["domain"] != nil || e.Cause["next"] == nil {
		t.Errorf("cause %v", e.Cause)
	}
	if _, err := r.lend(""); err == nil {
		t.Error("a caller without a device was lent another's sign-in")
	}
	if len(r.For(otto)) != 0 || len(r.For(ada)) != 1 || len(r.Grants()) != 1 {
		t.Errorf("for otto %v, for ada %v, of all %v", r.For(otto), r.For(ada), r.Grants())
	}
}

// Contract I: with sites, only what concerns them is lent; the first site that
// is not granted is named, and one that no grant could name is bad input.
func TestLendSites(t *testing.T) {
	r := newRig(t)
	shop := r.give("grant_shop", ada, sites("shop.test", "cafe.test"))
	r.give("grant_bank", ada, sites("bank.test"))
	m, err := r.lend(ada, "app.shop.test")
	if err != nil || !slices.Equal(m.Domains, []string{"app.shop.test"}) || !slices.Equal(m.Grants, []browserhost.GrantID{shop}) {
		t.Fatalf("%+v, %v", m, err)
	}
	if len(m.Cookies) != 1 || m.Cookies[0].Domain != ".shop.test" {
		t.Errorf("cookies %v, want the one that a browser sends to app.shop.test", m.Cookies)
	}
	_, err = r.lend(ada, "shop.test", "mail.test", "post.test")
	e := wants(t, err, browserhost.CodeConsentRequired)
	next := fmt.Sprint(e.Cause["next"])
	if e.Cause["domain"] != "mail.test" || !strings.Contains(next, "request_access") || !strings.Contains(next, "[mail.test post.test]") {
		t.Errorf("cause %v", e.Cause)
	}
	for _, bad := range []string{"*", "co.uk", "SHOP.test", "shop.test."} {
		_, err := r.lend(ada, bad)
		wants(t, err, browserhost.CodeInputInvalid)
	}
}

// Of the same cookie in two grants the one that was lent last counts; a cookie
// that its grant does not cover is not lent; nor is one for a remote sink only.
func TestLendMerges(t *testing.T) {
	r := newRig(t)
	r.give("grant_old", ada)
	r.give("grant_new", ada)
	r.give("grant_far", ada, sites("far.test"), func(g *browserhost.Grant) {
		g.Sinks = []browserhost.Sink{{Kind: "remote", ProviderID: "hosted", AckSeq: new(int64(1))}}
	})
	id := r.give("grant_odd", ada, sites("odd.test"))
	g, _ := r.opts.Jar.Grant(id)
	if err := r.opts.Jar.Seal(t.Context(), g, []browserhost.Cookie{{Name: "sid", Value: canary, Domain: "notodd.test", Path: "/"}}); err != nil {
		t.Fatal(err)
	}
	m, err := r.lend(ada)
	if err != nil || len(m.Cookies) != 1 || m.Cookies[0].Value != browserhost.Secret(canary+"grant_new") {
		t.Errorf("%d cookies, %v", len(m.Cookies), err)
	}
	if !slices.Equal(m.Domains, []string{"odd.test", "shop.test"}) {
		t.Errorf("domains %v", m.Domains)
	}
}

// K7, S2: without the keychain nothing is lent, and it works again as soon as
// the keychain does.
func TestLendLocked(t *testing.T) {
	r := newRig(t)
	r.give("grant_shop", ada)
	r.keys.locked = true
	_, err := r.lend(ada)
	wants(t, err, browserhost.CodeKeyring)
	r.keys.locked = false
	if _, err := r.lend(ada); err != nil {
		t.Error(err)
	}
}

// A grant whose file is damaged is left out; the others are lent.
func TestLendDamaged(t *testing.T) {
	r := newRig(t)
	r.give("grant_shop", ada)
	r.give("grant_bank", ada, sites("bank.test"))
	write(t, filepath.Join(r.dir, "jar", "grant_bank.age"), []byte("damaged"))
	m, err := r.lend(ada)
	if err != nil || !slices.Equal(m.Domains, []string{"shop.test"}) {
		t.Errorf("%v, %v", m.Domains, err)
	}
	_, err = r.lend(ada, "bank.test")
	wants(t, err, browserhost.CodeConsentRequired)
}

// An error of whoever uses the material is the caller's.
func TestLendPassesErrors(t *testing.T) {
	r := newRig(t)
	r.give("grant_shop", ada)
	broken := errors.New("no browser")
	if err := r.Lend(t.Context(), ada, nil, func(context.Context, browserhost.Material) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if len(r.loans) != 0 {
		t.Error("the loan is still registered")
	}
}

// D31, S1.45: a grant whose time is up is not lent, and meeting it ends it.
func TestLendExpired(t *testing.T) {
	r := newRig(t)
	id := r.give("grant_shop", ada, ends(start.Add(time.Hour)))
	if _, err := r.lend(ada); err != nil {
		t.Fatal(err)
	}
	r.pass(time.Hour)
	if len(r.For(ada)) != 0 {
		t.Error("an expired grant is listed")
	}
	_, err := r.lend(ada)
	wants(t, err, browserhost.CodeConsentRequired)
	r.gone(id)
	if row := r.revokes(id)[0]; row.Actor.Kind != browserhost.System || row.Reason == "" {
		t.Errorf("%+v", row)
	}
}

// AIP-63 C1: what no grant stands behind is not taken to a browser.
func TestSeedNeedsGrant(t *testing.T) {
	r := newRig(t)
	id := r.give("grant_shop", ada)
	for _, m := range []browserhost.Material{
		{Device: ada},
		{Device: ada, Grants: []browserhost.GrantID{"grant_never"}},
		{Device: otto, Grants: []browserhost.GrantID{id}},
	} {
		_, err := r.Seed(t.Context(), m)
		wants(t, err, browserhost.CodeConsentRequired)
	}
	if counts, err := r.Seed(t.Context(), browserhost.Material{Device: ada, Grants: []browserhost.GrantID{id}, Cookies: make([]browserhost.Cookie, 2)}); err != nil || counts.Set != 2 {
		t.Errorf("%+v, %v", counts, err)
	}
	if r.warm.open[otto] != nil {
		t.Error("another device's browser was seeded")
	}
}

// S1.35: there is no way to the disk's cookies but the sealed one.
func TestNothingInClear(t *testing.T) {
	r := newRig(t)
	id := r.give("grant_shop", ada)
	if _, err := r.lend(ada); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Revoke(t.Context(), theOwner, id); err != nil {
		t.Fatal(err)
	}
	r.chain.Close() // nothing is being written any more
	err := filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), canary) {
			t.Errorf("%s holds a value", filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
