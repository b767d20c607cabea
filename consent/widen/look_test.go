package widen

import (
	"os"
	"reflect"
	"testing"

	"browserhost"
	"browserhost/consent/extract"
)

// K3, S5: sources are names; two that would be the same can be told apart, and
// nothing is opened to list them.
func TestSources(t *testing.T) {
	gone := extract.Profile{Browser: "chrome", Name: "Default", Cookies: "/nonexistent/Cookies"}
	boxed := gone
	boxed.Package = "flatpak"
	r := newRig(t, gone, boxed, gone)
	got, err := r.Sources(t.Context())
	want := []Source{{"chrome/Default", "chrome", "Default"}, {"chrome-flatpak/Default", "chrome", "Default"}, {"chrome/Default#2", "chrome", "Default"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, s := range want {
		if f, err := r.choose(s.Ref); err != nil || f.ref != s.Ref {
			t.Errorf("%s: %v, %v", s.Ref, f, err)
		}
	}
	r.profiles = nil
	if got, err := r.Sources(t.Context()); err != nil || got == nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	_, err = r.Preview(t.Context(), "", nil)
	wants(t, err, browserhost.CodeNotFound)
}

// AIP-63 C5, S1.39, S5: the counts come without a value, a key or a change to
// the profile; sites are read as the owner types them (K44).
func TestPreview(t *testing.T) {
	p := profile(t, "chromium", "Default", shop(t)...)
	before, err := os.ReadFile(p.Cookies)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, p)
	got, err := r.Preview(t.Context(), "", []string{"SHOP.test.", "bank.test"})
	want := []Site{
		{Domain: "shop.test", Cookies: 3, Hosts: map[string]int{".shop.test": 2, "app.shop.test": 1}},
		{Domain: "bank.test", Hosts: map[string]int{}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if all, err := r.Preview(t.Context(), "chromium/Default", nil); err != nil || len(all) != 3 {
		t.Errorf("every site: %+v, %v", all, err)
	}
	_, err = r.Preview(t.Context(), "", []string{"shop.test", "co.uk"})
	wants(t, err, browserhost.CodeInputInvalid)
	_, err = r.Preview(t.Context(), "chrome/Default", nil)
	wants(t, err, browserhost.CodeInputInvalid)
	if s := r.world.order(); len(s) != 0 {
		t.Errorf("called %v", s)
	}
	if after, err := os.ReadFile(p.Cookies); err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("the profile was changed: %v", err)
	}
	r.nothing()
}
