package main

import (
	"context"
	"slices"
	"strings"

	"browserhost"
	"browserhost/host/operator"
)

type requestsCmd struct {
	List  requestsListCmd  `cmd:"" default:"withargs" help:"List what waits for you."`
	Allow requestsAllowCmd `cmd:"" help:"Lend what a request asks for, or fewer of its sites."`
	Deny  requestsDenyCmd  `cmd:"" help:"Refuse a request."`
}

type requestsListCmd struct {
	answering
	All bool `help:"Also what is decided or has expired."`
}

func (c *requestsListCmd) Run(p *program) error {
	ctx := context.Background()
	host, err := p.host(ctx)
	if err != nil {
		return err
	}
	requests, err := host.Requests(ctx)
	if err != nil {
		return err
	}
	if !c.All {
		requests = slices.DeleteFunc(requests, func(r operator.Request) bool { return r.Status != "pending" })
	}
	if p.json {
		return p.object(map[string]any{"requests": slices.Concat([]operator.Request{}, requests)})
	}
	var rows [][]string
	for _, r := range requests {
		rows = append(rows, []string{r.Code, r.DeviceName, operator.Subject(r.Domains), r.Status, when(r.ExpiresAt), r.Reason})
	}
	if err := p.list("nobody asks for anything", []string{"CODE", "DEVICE", "SITES", "STATUS", "UNTIL", "THE AGENT SAYS (NOT CHECKED)"}, rows); err != nil {
		return err
	}
	if slices.ContainsFunc(requests, func(r operator.Request) bool { return r.Status == "pending" }) {
		p.hint("browserhost requests allow CODE, or deny CODE")
	}
	return nil
}

// request finds a request by the code that both sides see, or by its id.
func request(ctx context.Context, host *operator.Client, codeOrID string) (operator.Request, error) {
	requests, err := host.Requests(ctx)
	if err != nil {
		return operator.Request{}, err
	}
	var found []operator.Request
	for _, r := range requests {
		if r.ID == codeOrID {
			return r, nil
		}
		if strings.EqualFold(r.Code, codeOrID) {
			found = append(found, r)
		}
	}
	// A code is short and comes again; the one that waits is meant.
	if i := slices.IndexFunc(found, func(r operator.Request) bool { return r.Status == "pending" }); i >= 0 {
		return found[i], nil
	}
	if len(found) > 0 {
		return found[len(found)-1], nil
	}
	return operator.Request{}, &mistake{browserhost.Errorf(browserhost.CodeNotFound, "there is no request %q", clean(codeOrID)), exitFailed, "browserhost requests"}
}

type requestsAllowCmd struct {
	answering
	lending
	Request string   `arg:"" help:"Its code or id."`
	Domains []string `help:"Only these of its sites."`
}

func (c *requestsAllowCmd) Run(p *program) error {
	ctx := context.Background()
	host, err := p.host(ctx)
	if err != nil {
		return err
	}
	r, err := request(ctx, host, c.Request)
	if err != nil {
		return err
	}
	if r.Status != "pending" {
		return failed("browserhost requests", "the request is %s already", r.Status)
	}
	ends, err := c.until()
	if err != nil {
		return err
	}
	plan := plan{device: r.DeviceName, says: r.Reason, domains: r.Domains, source: c.Source, ends: ends}
	if len(c.Domains) > 0 {
		plan.domains = c.Domains
	}
	typed, err := plan.confirm(ctx, p, host)
	if err != nil {
		return err
	}
	p.progress("reading and sealing the cookies…")
	out, err := host.Allow(ctx, operator.AllowSpec{RequestID: r.ID, Domains: plan.domains, Source: plan.source, ExpiresAt: ends}, typed)
	if err != nil {
		return err
	}
	return p.showGranted(out)
}

type requestsDenyCmd struct {
	answering
	Request string `arg:"" help:"Its code or id."`
}

func (c *requestsDenyCmd) Run(p *program) error {
	ctx := context.Background()
	host, err := p.host(ctx)
	if err != nil {
		return err
	}
	r, err := request(ctx, host, c.Request)
	if err != nil {
		return err
	}
	if r, err = host.Deny(ctx, r.ID); err != nil {
		return err
	}
	if p.json {
		return p.object(map[string]any{"request": r})
	}
	p.say("denied %s: %s gets nothing of %s", r.Code, clean(r.DeviceName), operator.Subject(r.Domains))
	return nil
}
