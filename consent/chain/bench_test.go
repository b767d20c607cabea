package chain

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var text = strings.Repeat("x", 400)

// BenchmarkAppend is one durable row; its floor is BenchmarkBareFsync.
func BenchmarkAppend(b *testing.B) {
	f, _ := open(b, filepath.Join(b.TempDir(), "rows.jsonl"), Options{})
	for b.Loop() {
		put(b, f, text)
	}
}

func BenchmarkBareFsync(b *testing.B) {
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "rows"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	line := []byte(text + strings.Repeat("y", 140) + "\n")
	for b.Loop() {
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

// rows makes a chain of 2,000 rows.
func rows(b *testing.B) string {
	path := filepath.Join(b.TempDir(), "rows.jsonl")
	f, _ := open(b, path, Options{})
	for range 2000 {
		if _, _, err := f.Append(b.Context(), word{text}); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkVerify checks 2,000 rows; its floor is BenchmarkBareSHA256.
func BenchmarkVerify(b *testing.B) {
	path := rows(b)
	for b.Loop() {
		if r, err := Verify(b.Context(), path, Options{}); err != nil || !r.OK() {
			b.Fatal(r, err)
		}
	}
}

func BenchmarkBareSHA256(b *testing.B) {
	path := rows(b)
	for b.Loop() {
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(sha256.New(), f); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}
