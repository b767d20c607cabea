package wire_test

import (
	"os"
	"path/filepath"
	"testing"

	"browserhost/cmd/internal/wire"
)

// K36: what a crash cut short hides no other record, and is told at the end.
func TestReadLedgerGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "consent.jsonl")
	row := `{"event":"deny","actor":{"kind":"system"},"reason":"a test","seq":0,"at":"2026-01-01T00:00:00.000Z"}`
	if err := os.WriteFile(path, []byte(row+"\n{\"event\":\"de\n"+row+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := 0
	err := wire.ReadLedger(t.Context(), path, func(line []byte) error {
		read++
		if string(line) != row {
			t.Errorf("%s", line)
		}
		return nil
	})
	if read != 2 || err == nil {
		t.Errorf("%d records, %v", read, err)
	}
}
