package widen

import (
	"fmt"
	"slices"
	"strings"

	"browserhost"
	"browserhost/consent/domains"
	"browserhost/consent/extract"
)

// found is one profile with the name under which it can be chosen.
type found struct {
	ref     string
	profile extract.Profile
}

// found names the profiles: browser, how it was installed where that matters,
// and profile. Two that would have the same name are numbered in their order.
func (w *Widener) found() []found {
	var all []found
	seen := map[string]int{}
	for _, p := range w.opts.Profiles() {
		ref := p.Browser
		if p.Package != "" {
			ref += "-" + p.Package
		}
		ref += "/" + p.Name
		seen[ref]++
		if n := seen[ref]; n > 1 {
			ref = fmt.Sprintf("%s#%d", ref, n)
		}
		all = append(all, found{ref, p})
	}
	return all
}

// choose finds the source. None named is right only where there is no choice:
// which account is lent is never guessed.
func (w *Widener) choose(source string) (found, error) {
	all := w.found()
	if len(all) == 0 {
		return found{}, browserhost.Errorf(browserhost.CodeNotFound, "no browser profile with cookies was found on this computer")
	}
	refs := make([]string, len(all))
	for i, f := range all {
		refs[i] = f.ref
	}
	if source == "" && len(all) == 1 {
		return all[0], nil
	}
	if i := slices.Index(refs, source); i >= 0 && source != "" {
		return all[i], nil
	}
	why := "there is no such browser profile"
	if source == "" {
		why = "there is more than one browser profile; name one"
	}
	return found{}, browserhost.Errorf(browserhost.CodeInputInvalid, "source: %s (%s)", why, strings.Join(refs, ", ")).
		With("field", "source").With("sources", refs)
}

// fromOwner brings names into the stored form and checks the whole list: every
// name can be granted, or none is taken (AIP-63 C2, K44).
func fromOwner(typed []string) ([]string, error) {
	names := make([]string, 0, len(typed))
	for _, t := range typed {
		name, err := domains.FromOwner(t)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return domains.CheckAll(names)
}
