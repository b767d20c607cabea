package operator

import (
	"context"
	"strings"

	"browserhost"
)

// What a wide verb wants, as cause.missing names it.
const (
	wantTerminal = "terminal"
	wantConfirm  = "confirm"
)

// person decides whether a wide verb may run: nil, or why not. It is the one
// place where control.sock takes somebody for the owner (S1.44, D22).
func (s *server) person(ctx context.Context, who *peer, v verb, h head) error {
	if s.opts.Closed {
		return s.refuse(ctx, browserhost.Device{}, v, "the owner switched this off for the command line").With("setting", "operator.cli")
	}
	if s.opts.ClientOf == nil || s.opts.HasTerminal == nil || who.pid <= 0 {
		return s.refuse(ctx, browserhost.Device{}, v, "it cannot be told who asks")
	}
	device, isClient := s.opts.ClientOf(who.pid)
	terminal := s.opts.HasTerminal(who.pid)
	// Only now is it certain that both answers are about the process that
	// connected, and not about a later one with its number.
	if !who.alive() {
		return s.refuse(ctx, device, v, "the program that asked is gone")
	}
	if isClient {
		return s.refuse(ctx, device, v, "an agent started the program that asks; only the owner may do this")
	}
	var missing []string
	if !terminal {
		missing = append(missing, wantTerminal)
	}
	if v.subject != nil {
		subject, err := v.subject(ctx, s.desk, h.Rest)
		if err != nil && terminal {
			return err // a person's mistake, told as such
		}
		if err != nil || subject == "" || h.Confirm != subject {
			missing = append(missing, wantConfirm)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return s.refuse(ctx, browserhost.Device{}, v, "only the owner may do this, at a terminal", missing...)
}

// refuse records the attempt and makes its error. Whether the record could be
// written does not change the answer.
func (s *server) refuse(ctx context.Context, device browserhost.Device, v verb, why string, missing ...string) *browserhost.Error {
	by := browserhost.Actor{Kind: browserhost.System, Via: s.desk.by.Via}
	if device.ID != "" {
		by.Kind, by.Device, by.Name = browserhost.Agent, device.ID, device.Name
	}
	reason := v.name + " on the command line: " + why
	err := browserhost.Errorf(browserhost.CodeUnauthorised, "%s", why)
	if len(missing) > 0 {
		reason += "; missing: " + strings.Join(missing, ", ")
		err = err.With("missing", missing)
	}
	if s.opts.Deny != nil {
		if failed := s.opts.Deny(context.WithoutCancel(ctx), by, reason); failed != nil {
			s.log.Error("a refused attempt could not be recorded", "op", v.name, "error", failed)
		}
	}
	return err
}
