package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"browserhost"
	"browserhost/host/operator"
)

type scanCmd struct {
	answering
	Source  string   `help:"Only this profile, such as chrome/Default."`
	Domains []string `help:"Only these sites."`
}

// scanned is what one profile holds.
type scanned struct {
	Source string          `json:"source"`
	Sites  []operator.Site `json:"sites"`
}

func (c *scanCmd) Run(p *program) error {
	ctx := context.Background()
	host, err := p.host(ctx)
	if err != nil {
		return err
	}
	refs := []string{c.Source}
	if c.Source == "" {
		sources, err := host.Sources(ctx)
		if err != nil {
			return err
		}
		refs = nil
		for _, s := range sources {
			refs = append(refs, s.Ref)
		}
	}
	all := []scanned{}
	var rows [][]string
	for _, ref := range refs {
		p.progress("counting the cookies of %s…", clean(ref))
		sites, err := host.Scan(ctx, ref, c.Domains)
		if err != nil {
			return err
		}
		all = append(all, scanned{ref, sites})
		for _, s := range sites {
			rows = append(rows, []string{ref, s.Domain, fmt.Sprint(s.Cookies)})
		}
	}
	if p.json {
		return p.object(map[string]any{"sources": all})
	}
	return p.list("no browser profile with cookies was found", []string{"PROFILE", "SITE", "COOKIES"}, rows)
}

// lending is what the owner adds to a decision.
type lending struct {
	Source string        `help:"The browser profile to take the sign-in from, such as chrome/Default. Needed when there are several."`
	For    time.Duration `help:"How long, such as 8h. Without it: until you revoke it."`
}

// until is the end of what is lent, as records write it.
func (l lending) until() (string, error) {
	if l.For < 0 {
		return "", usage(fmt.Errorf("--for: %s is in the past", l.For))
	}
	if l.For == 0 {
		return "", nil
	}
	return browserhost.FormatTime(time.Now().Add(l.For)), nil
}

type grantCmd struct {
	answering
	lending
	Device  string   `help:"The name or id of the device."`
	Domains []string `help:"The sites to lend, such as shop.example,mail.example."`
}

func (c *grantCmd) Run(p *program) error {
	if err := c.complete(); err != nil {
		return err
	}
	ctx := context.Background()
	host, err := p.host(ctx)
	if err != nil {
		return err
	}
	device, err := find(ctx, host, c.Device)
	if err != nil {
		return err
	}
	ends, err := c.until()
	if err != nil {
		return err
	}
	plan := plan{device: device.Name, domains: c.Domains, source: c.Source, ends: ends}
	typed, err := plan.confirm(ctx, p, host)
	if err != nil {
		return err
	}
	p.progress("reading and sealing the cookies…")
	out, err := host.Grant(ctx, operator.GrantSpec{Device: device.ID, Domains: plan.domains, Source: plan.source, ExpiresAt: ends}, typed)
	if err != nil {
		return err
	}
	return p.showGranted(out)
}

// complete lists all that a grant lacks, in this order, before anything is
// asked or changed: what is left out never means everything (AIP-63 C4).
func (c *grantCmd) complete() error {
	var lacks []string
	if len(c.Domains) == 0 {
		lacks = append(lacks, "--domains")
	}
	if c.Device == "" {
		lacks = append(lacks, "--device")
	}
	if len(lacks) == 0 {
		return nil // the host itself looks for a person
	}
	if !atTerminal() {
		lacks = append(lacks, "a terminal, to type the sites")
	}
	return &mistake{
		browserhost.Errorf(browserhost.CodeInputInvalid, "a grant names its sites and its device").With("missing", lacks),
		exitEnvironment, "browserhost grant --device NAME --domains SITE,SITE",
	}
}

// plan is what is about to be lent, as the owner is told.
type plan struct {
	device  string
	says    string // the device's own words, "" for a grant without a request
	domains []string
	source  string
	ends    string
}

// confirm counts what is there, tells the person, and returns what they typed.
// The sites and the profile become those that were shown. No value is read for
// this (AIP-63 C5).
func (l *plan) confirm(ctx context.Context, p *program, host *operator.Client) (string, error) {
	if !atTerminal() {
		return "", nil
	}
	if err := l.choose(ctx, host); err != nil {
		return "", err
	}
	p.progress("counting the cookies of %s…", clean(l.source))
	sites, err := host.Scan(ctx, l.source, l.domains)
	if err != nil {
		return "", err
	}
	l.domains = nil
	rows := [][]string{{"SITE", "COOKIES"}}
	for _, s := range sites {
		l.domains = append(l.domains, s.Domain)
		rows = append(rows, []string{s.Domain, fmt.Sprint(s.Cookies)})
	}
	return p.confirm(operator.Subject(l.domains), func(tty io.Writer) error {
		ends := "until you revoke it"
		if l.ends != "" {
			ends = "until " + when(l.ends)
		}
		fmt.Fprintf(tty, "%s will be able to act as you on these sites and all below them,\nwith your sign-in from %s, %s:\n\n", clean(l.device), clean(l.source), ends)
		err := table(tty, rows)
		if l.says != "" {
			fmt.Fprintf(tty, "\nThe agent says (not checked): %s\n", clean(l.says))
		}
		fmt.Fprintln(tty)
		return err
	})
}

// choose finds the profile: the one named, or the only one. Which account is
// lent is never guessed.
func (l *plan) choose(ctx context.Context, host *operator.Client) error {
	if l.source != "" {
		return nil
	}
	sources, err := host.Sources(ctx)
	if err != nil {
		return err
	}
	switch len(sources) {
	case 0:
		return &mistake{browserhost.Errorf(browserhost.CodeNotFound, "no browser profile with cookies was found"), exitFailed, "sign in to the site in your own browser first"}
	case 1:
		l.source = sources[0].Ref
		return nil
	}
	var refs []string
	for _, s := range sources {
		refs = append(refs, clean(s.Ref))
	}
	return failed("choose one with --source; browserhost scan shows what each holds", "there is more than one browser profile: %s", strings.Join(refs, ", "))
}

// showGranted says what was lent and what became of every cookie.
func (p *program) showGranted(out operator.Granted) error {
	if p.json {
		return p.object(out)
	}
	g := out.Grant
	p.say("lent %s to %s: %s", operator.Subject(g.Domains), clean(g.DeviceName), g.ID)
	told := count(out.Imported, "cookie") + " sealed"
	for _, why := range slices.Sorted(maps.Keys(out.NotRead)) {
		told += fmt.Sprintf("; %d not read: %s", out.NotRead[why], clean(why))
	}
	p.say("%s", told)
	p.hint("browserhost revoke %s ends it", g.ID)
	return nil
}

type grantsCmd struct {
	answering
	All bool `help:"Also what has ended."`
}

func (c *grantsCmd) Run(p *program) error {
	ctx := context.Background()
	host, err := p.host(ctx)
	if err != nil {
		return err
	}
	grants, err := host.Grants(ctx)
	if err != nil {
		return err
	}
	if !c.All {
		grants = slices.DeleteFunc(grants, func(g operator.Grant) bool { return !g.Active })
	}
	if p.json {
		return p.object(map[string]any{"grants": slices.Concat([]operator.Grant{}, grants)})
	}
	var rows [][]string
	for _, g := range grants {
		rows = append(rows, []string{string(g.ID), deviceName(g), operator.Subject(g.Domains), fmt.Sprint(g.CookieCount), when(g.GrantedAt), ends(g)})
	}
	return p.list("nothing is lent", []string{"ID", "DEVICE", "SITES", "COOKIES", "SINCE", "UNTIL"}, rows)
}

func deviceName(g operator.Grant) string {
	if g.DeviceName != "" {
		return g.DeviceName
	}
	return string(g.DeviceID) // it is not paired any more
}

// ends says when a grant ends or has ended.
func ends(g operator.Grant) string {
	switch {
	case g.RevokedAt != "":
		return "ended " + when(g.RevokedAt)
	case g.ExpiresAt != "":
		return when(g.ExpiresAt)
	}
	return "you revoke it"
}

type revokeCmd struct {
	answering
	ID string `arg:"" help:"The grant, as browserhost grants shows it."`
}

func (c *revokeCmd) Run(p *program) error {
	ctx := context.Background()
	host, err := p.host(ctx)
	if err != nil {
		return err
	}
	p.progress("closing pages, deleting what was lent, sealing the rest anew…")
	out, err := host.Revoke(ctx, browserhost.GrantID(c.ID))
	if browserhost.CodeOf(err) == browserhost.CodeNotFound {
		return &mistake{err, exitFailed, "browserhost grants"}
	}
	if err != nil {
		return err
	}
	if p.json {
		return p.object(out)
	}
	told := "what was lent is deleted"
	if out.Local == "none" {
		told = "nothing of it was left"
	}
	p.say("%s has ended; %s; %s closed", out.ID, told, count(out.Pages, "page"))
	if out.Rotation {
		p.hint("the keychain is locked: its key is replaced when it opens (browserhost doctor)")
	}
	return nil
}
