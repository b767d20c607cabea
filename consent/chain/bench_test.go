package chain

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// against runs both in turn, so that whatever else the machine does falls on
// both, and reports how many times as long as bare one takes: the ratio of the
// medians, as "x-bare". What is timed as ns/op is ours alone.
func against(b *testing.B, ours, bare func() error) {
	b.Helper()
	var took [2][]time.Duration
	for b.Loop() {
		for i, f := range []func() error{ours, bare} {
			if i == 1 {
				b.StopTimer()
			}
			before := time.Now()
			if err := f(); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(before))
		}
		b.StartTimer()
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2])
	}
	b.ReportMetric(median(took[0])/median(took[1]), "x-bare")
}

// BenchmarkAppendDurable is one row, written and on the disk, with the head
// kept beside it, against a bare write and fsync of the same bytes.
func BenchmarkAppendDurable(b *testing.B) {
	f, _ := start(b, filepath.Join(b.TempDir(), "rows.jsonl"), Options{Keys: keys{"one"}, Label: "test"})
	line := content(b, sampled(b, 2))
	line = line[bytes.IndexByte(line, '\n')+1:]
	plain, err := os.OpenFile(filepath.Join(b.TempDir(), "rows"), os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	against(b, func() error {
		_, _, err := f.Append(b.Context(), row)
		return errors.Join(err, f.Durable(b.Context()))
	}, func() error {
		_, err := plain.Write(line)
		return errors.Join(err, plain.Sync())
	})
	end(b, f)
	if err := plain.Close(); err != nil {
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

// BenchmarkVerify checks a chain, against the bare SHA-256 of the same file, read
// the same way and hashed in one go.
func BenchmarkVerify(b *testing.B) {
	path := sampled(b, sampleRows)
	b.SetBytes(int64(len(content(b, path))))
	buf := make([]byte, pieceSize)
	against(b, func() error {
		r, err := Verify(b.Context(), path, Options{})
		if !r.OK() || r.Records != sampleRows {
			return fmt.Errorf("%+v %w", r, err)
		}
		return err
	}, func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, buf)
		if len(h.Sum(nil)) != sha256.Size {
			return errors.New("no hash")
		}
		return errors.Join(err, f.Close())
	})
}
