package chain

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"browserhost"
)

// A row as the activity record has them.
type sample struct {
	CallID  string               `json:"callId"`
	Method  string               `json:"method"`
	Tool    string               `json:"tool"`
	Device  browserhost.DeviceID `json:"device"`
	Peer    string               `json:"peer"`
	OK      bool                 `json:"ok"`
	Took    int                  `json:"latencyMs"`
	Request string               `json:"request"`
	Answer  string               `json:"response"`
}

var row = sample{
	CallID: "c1042", Method: "browser.input_text", Tool: "browser_act", Device: "0123456789abcdef0123456789abcdef", Peer: "shop.test", OK: true, Took: 117,
	Request: "hmac-sha256:" + strings.Repeat("0f", 32), Answer: "hmac-sha256:" + strings.Repeat("f0", 32),
}

// BenchmarkAppendDurable is one row, written and on the disk, with the head
// kept beside it; its floor is BenchmarkBareFsync.
func BenchmarkAppendDurable(b *testing.B) {
	f, _ := start(b, filepath.Join(b.TempDir(), "rows.jsonl"), Options{Keys: keys{"one"}, Label: "test"})
	for b.Loop() {
		if _, _, err := f.Append(b.Context(), row); err != nil {
			b.Fatal(err)
		}
		if err := f.Durable(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	end(b, f)
}

// BenchmarkBareFsync writes the same bytes to a file and syncs it.
func BenchmarkBareFsync(b *testing.B) {
	line := content(b, sampled(b, 2))
	line = line[bytes.IndexByte(line, '\n')+1:]
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "rows"), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

// sampled makes a chain of n rows.
func sampled(b *testing.B, n int) string {
	path := filepath.Join(b.TempDir(), "rows.jsonl")
	f, _ := start(b, path, Options{})
	for range n {
		if _, _, err := f.Append(b.Context(), row); err != nil {
			b.Fatal(err)
		}
	}
	end(b, f)
	return path
}

const sampleRows = 20_000 // some 10 MB

// BenchmarkVerify checks a chain on the disk; its floor is BenchmarkBareSHA256.
func BenchmarkVerify(b *testing.B) {
	path := sampled(b, sampleRows)
	b.SetBytes(int64(len(content(b, path))))
	for b.Loop() {
		if r, err := Verify(b.Context(), path, Options{}); err != nil || !r.OK() || r.Records != sampleRows {
			b.Fatal(r, err)
		}
	}
}

// BenchmarkBareSHA256 hashes the same bytes in one go, from memory.
func BenchmarkBareSHA256(b *testing.B) {
	text := content(b, sampled(b, sampleRows))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		sha256.Sum256(text)
	}
}
