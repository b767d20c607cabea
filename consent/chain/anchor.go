package chain

import (
	"context"
	"crypto/hmac"
	"encoding/hex"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// anchor is the head as it is kept beside the file, in PATH.head.
type anchor struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
	MAC  string `json:"mac"`

	state string // why it cannot be used: None or Mismatch
}

func (a anchor) text() []byte { return fmt.Appendf(nil, "%d %s", a.Seq, a.Hash) }

// keepHead replaces the kept head. Without a key none is kept, since anybody
// could write one (K7); one that cannot be written stays behind.
func (c *File) keepHead(ctx context.Context, seq int64, head string) {
	if c.opts.Keys == nil || seq < 0 {
		return
	}
	a := anchor{Seq: seq, Hash: head}
	mac, err := c.opts.Keys.MAC(ctx, c.opts.Label, a.text())
	if err != nil {
		return
	}
	a.MAC = hex.EncodeToString(mac)
	text, err := json.Marshal(a)
	if err != nil {
		return
	}
	name := c.path + ".head"
	if os.WriteFile(name+".new", text, 0o600) == nil {
		os.Rename(name+".new", name)
	}
}

func readAnchor(ctx context.Context, path string, opts Options) anchor {
	none, forged := anchor{Seq: -1, state: None}, anchor{Seq: -1, state: Mismatch}
	if opts.Keys == nil {
		return none
	}
	text, err := os.ReadFile(path + ".head")
	if errors.Is(err, fs.ErrNotExist) {
		return none
	}
	var a anchor
	if err != nil || json.Unmarshal(text, &a, json.RejectUnknownMembers(true)) != nil || a.Seq < 0 {
		return forged
	}
	want, err := opts.Keys.MAC(ctx, opts.Label, a.text())
	if err != nil {
		return none // the keychain cannot be asked
	}
	if got, err := hex.DecodeString(a.MAC); err != nil || !hmac.Equal(got, want) {
		return forged
	}
	return a
}

// judge compares the kept head with a file of so many lines, in which the row
// that the head names has the hash at.
func (a anchor) judge(lines int64, at string) string {
	switch {
	case a.state != "":
		return a.state
	case a.Seq >= lines:
		return Truncated
	case a.Hash != at:
		return Mismatch
	case a.Seq == lines-1:
		return Matches
	}
	return Behind
}
