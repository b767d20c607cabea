package main

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"browserhost/cmd/internal/wire"
	"browserhost/host/operator"
)

type ledgerCmd struct {
	Verify ledgerVerifyCmd `cmd:"" default:"withargs" help:"Check every record, every link and the end."`
	Show   ledgerShowCmd   `cmd:"" help:"Show the records."`
	Export ledgerExportCmd `cmd:"" help:"Print the records as they stand in the file; the copy verifies like the file."`
}

// ledgerFile is the file that a command is about.
type ledgerFile struct {
	File string `arg:"" optional:"" type:"path" help:"A ledger file; without it, this host's own."`
}

// open says which file that is.
func (l ledgerFile) open(p *program) (wire.Options, string, error) {
	opts, err := p.options(nil)
	if err != nil {
		return opts, "", err
	}
	if l.File != "" {
		return opts, l.File, nil
	}
	return opts, wire.LedgerPath(opts.Home), nil
}

// absent makes the error of a ledger that is not there a person's.
func (l ledgerFile) absent(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if l.File != "" {
		return environment(fmt.Errorf("there is no file %s", clean(l.File)))
	}
	return &mistake{errors.New("this host has no record yet"), exitEnvironment, "browserhost serve"}
}

type ledgerVerifyCmd struct {
	answering
	ledgerFile
}

func (c *ledgerVerifyCmd) Run(p *program) error {
	found, err := c.verify(p)
	if err != nil {
		return c.absent(err)
	}
	switch {
	case p.json:
		err = p.object(found)
	case found.OK:
		p.say("ok: %s, nothing changed", count(found.Records, "record"))
	default:
		p.say("NOT OK: %s", clean(found.Problem))
	}
	if err == nil && !found.OK {
		return errReported
	}
	return err
}

// verify asks the running host about its own ledger, since it may hold a head
// that nobody else can check; a file, or the ledger of a host that does not
// run, is read here.
func (c *ledgerVerifyCmd) verify(p *program) (operator.Ledger, error) {
	ctx := context.Background()
	opts, path, err := c.open(p)
	if err != nil {
		return operator.Ledger{}, err
	}
	p.progress("verifying %s…", clean(path))
	if c.File == "" {
		host, err := p.host(ctx)
		if err == nil {
			return host.Ledger(ctx)
		}
		if !errors.Is(err, operator.ErrNoHost) {
			return operator.Ledger{}, err
		}
	}
	return wire.VerifyLedger(ctx, opts, path)
}

// record is what a table shows of a row.
type record struct {
	Seq   int64  `json:"seq"`
	At    string `json:"at"`
	Event string `json:"event"`
	Actor struct {
		Kind     string `json:"kind"`
		Via      string `json:"via"`
		DeviceID string `json:"deviceId"`
	} `json:"actor"`
	GrantID     string   `json:"grantId"`
	Domains     []string `json:"domains"`
	CookieCount *int     `json:"cookieCount"`
	Reason      string   `json:"reason"`
	Derived     *struct {
		Local  string `json:"local"`
		Remote string `json:"remote"`
	} `json:"derived"`
}

type ledgerShowCmd struct {
	answering
	ledgerFile
}

func (c *ledgerShowCmd) Run(p *program) error {
	_, path, err := c.open(p)
	if err != nil {
		return err
	}
	lines := []jsontext.Value{}
	var rows [][]string
	err = wire.ReadLedger(context.Background(), path, func(line []byte) error {
		if p.json {
			lines = append(lines, jsontext.Value(line).Clone())
			return nil
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		rows = append(rows, r.row())
		return nil
	})
	if err != nil && len(rows)+len(lines) == 0 {
		return c.absent(err)
	}
	// A line that is no record does not hide the others; it is told after them.
	if p.json {
		return errors.Join(p.object(map[string]any{"path": path, "records": lines}), c.absent(err))
	}
	return errors.Join(p.list("no record yet", []string{"SEQ", "AT", "EVENT", "BY", "WHAT"}, rows), c.absent(err))
}

// row writes a record for a person.
func (r record) row() []string {
	by := r.Actor.Kind
	if r.Actor.Via != "" {
		by += " (" + r.Actor.Via + ")"
	}
	if r.Actor.DeviceID != "" {
		by += " " + r.Actor.DeviceID
	}
	var what []string
	for _, part := range []string{r.GrantID, strings.Join(r.Domains, " "), r.Reason} {
		if part != "" {
			what = append(what, part)
		}
	}
	if r.CookieCount != nil {
		what = append(what, count(*r.CookieCount, "cookie"))
	}
	if r.Derived != nil {
		what = append(what, "here: "+r.Derived.Local+", elsewhere: "+r.Derived.Remote)
	}
	return []string{fmt.Sprint(r.Seq), when(r.At), r.Event, by, strings.Join(what, ", ")}
}

type ledgerExportCmd struct{ ledgerFile }

func (c *ledgerExportCmd) Run(p *program) error {
	_, path, err := c.open(p)
	if err != nil {
		return err
	}
	return c.absent(wire.ReadLedger(context.Background(), path, func(line []byte) error {
		_, err := p.out.Write(append(append([]byte{}, line...), '\n'))
		return err
	}))
}
