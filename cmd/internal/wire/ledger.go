package wire

import (
	"context"
	"fmt"
	"path/filepath"

	"browserhost/consent/chain"
	"browserhost/consent/keychain"
	"browserhost/consent/ledger"
	"browserhost/host/operator"
)

// LedgerPath is the consent ledger of the host in home.
func LedgerPath(home string) string { return filepath.Join(home, consentFile) }

// VerifyLedger checks a ledger file without a host: every record, every link,
// and the head where it is kept beside the file. Of a ledger that is the
// host's own the head is checked under the host's secret, when there is a
// keychain to ask.
func VerifyLedger(ctx context.Context, opts Options, path string) (operator.Ledger, error) {
	check := chain.Options{Label: consentLabel}
	if path == LedgerPath(opts.Home) {
		id, err := hostID(opts.Home)
		if err != nil {
			return operator.Ledger{}, err
		}
		vault := openVault(opts.Settings.Store, id)
		if ok, _ := vault.State(ctx); ok && opts.Settings.Store != string(keychain.Memory) {
			check.Keys = vault
		}
	}
	report, err := chain.Verify(ctx, path, check)
	if err != nil {
		return operator.Ledger{}, err
	}
	return verdict(path, report), nil
}

// ReadLedger calls each with every record, as it stands in the file. What is
// no record, such as a row that a crash cut short, is passed over, and the
// first such line is the error at the end.
func ReadLedger(ctx context.Context, path string, each func(line []byte) error) error {
	var odd error
	for line, err := range chain.Lines(ctx, path) {
		if err == nil {
			_, err = ledger.Parse(line)
		}
		if err != nil {
			if odd == nil {
				odd = err
			}
			continue
		}
		if err := each(line); err != nil {
			return err
		}
	}
	return odd
}

// verdict says what verifying found, in the owner's words.
func verdict(path string, r chain.Report) operator.Ledger {
	out := operator.Ledger{Path: path, Records: r.Records, Head: r.Head, OK: r.OK()}
	switch {
	case r.Bad != nil:
		out.Seq = new(r.Bad.Seq)
		out.Problem = fmt.Sprintf("record %d (line %d): %s", r.Bad.Seq, r.Bad.Line, r.Bad.Why)
	case r.Anchor == "truncated":
		out.Problem = "records at the end are missing: the head that was kept beside the file is further"
	case r.Anchor == "mismatch":
		out.Problem = "the head that was kept beside the file is not the head of these records"
	case !r.OK():
		out.Problem = fmt.Sprintf("the last line is cut short: %d bytes", r.Torn)
	}
	return out
}
