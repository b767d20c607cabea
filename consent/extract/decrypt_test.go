package extract

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"browserhost"
)

// Vectors that other implementations agree on: macOS's count of iterations and
// Linux's key.
func TestVectors(t *testing.T) {
	key := derive("synthetic-safe-storage-password", 1003)
	if got := hex.EncodeToString(key); got != "6bd0d3469c81f15d3ad682aa12144756" {
		t.Errorf("key %s", got)
	}
	if got := hex.EncodeToString(derive("peanuts", 1)); got != "fd621fe5a2b402539dfa147ca9272778" {
		t.Errorf("v10 key %s", got)
	}
	for _, c := range []struct {
		version int
		sealed  string
	}{
		{23, "76313059e3ac6f161b96b05e673667d117a912"},
		{24, "7631300e77fdf04019c7600b17f70790c91f90cc2248f3a98b7a2732e4a4d8273fe029a2bad43ddd7b9c6fabb1cc31db6843ab"},
	} {
		sealed, err := hex.DecodeString(c.sealed)
		if err != nil {
			t.Fatal(err)
		}
		value, why := open([][]byte{key}, c.version, ".example.test", sealed[3:])
		if value != "hello-cookie" || why != "" {
			t.Errorf("schema %d: %q, %s", c.version, value, why)
		}
		host := ".example.test"
		if c.version < hashSince {
			host = ""
		}
		if got := hex.EncodeToString(seal("v10", key, host, "hello-cookie")); got != c.sealed {
			t.Errorf("schema %d: sealed as %s", c.version, got)
		}
	}
	// The hash covers the host with its dot: without it, the value is another host's.
	sealed, err := hex.DecodeString("7631300e77fdf04019c7600b17f70790c91f90cc2248f3a98b7a2732e4a4d8273fe029a2bad43ddd7b9c6fabb1cc31db6843ab")
	if err != nil {
		t.Fatal(err)
	}
	if value, why := open([][]byte{key}, 24, "example.test", sealed[3:]); value != "" || why != HashMismatch {
		t.Errorf("another host: %q, %s", value, why)
	}
}

// A wrong key passes the padding of some values by chance; none of them comes
// out, in either schema.
func TestWrongKeyByChance(t *testing.T) {
	wrong := [][]byte{derive("wrong", 1)}
	passed := 0
	for i := range 4000 {
		host := fmt.Sprintf("h%d.test", i)
		encrypted := v11(host, canary)[3:]
		if _, ok := unseal(wrong[0], encrypted); ok {
			passed++
		}
		if value, why := open(wrong, 24, host, encrypted); value != "" || why == "" {
			t.Fatalf("schema 24: %q", value)
		}
		old := v11("", host)[3:]
		if value, why := open(wrong, 23, host, old); value != "" || why == "" {
			t.Fatalf("schema 23: %q", value)
		}
	}
	if passed == 0 {
		t.Error("no value passed the padding: this test proves nothing")
	}
}

// The padding is whole or the value is refused: each last block that is wrong
// in one place only.
func TestStrictPadding(t *testing.T) {
	key := derive("peanuts", 1)
	for n := range 33 {
		encrypted := seal("", key, "", strings.Repeat("a", n))
		plain, ok := unseal(key, encrypted)
		if !ok || len(plain) != n {
			t.Errorf("%d bytes: %d, %v", n, len(plain), ok)
		}
	}
	// A plaintext of exactly one block is written without padding by nobody.
	for _, last := range []string{"\x00", "\x11", "\xff", "\x03\x02\x03", "\x02"} {
		block := strings.Repeat("a", 16-len(last)) + last
		encrypted := seal("", key, "", block)[:16]
		if plain, ok := unseal(key, encrypted); ok {
			t.Errorf("%q: accepted as %q", last, plain)
		}
	}
}

// Whatever lies in the column: no panic, a value or a reason and never both,
// and what was sealed comes back.
func FuzzDecrypt(f *testing.F) {
	f.Add(24, ".shop.test", "", v10(".shop.test", "alpha"))
	f.Add(24, ".shop.test", "", v11(".shop.test", ""))
	f.Add(23, ".shop.test", "", v11("", "beta"))
	f.Add(24, ".shop.test", "clear", []byte{})
	f.Add(24, ".shop.test", "clear", []byte("v10"))
	f.Add(24, "x", "", []byte("v20app-bound"))
	f.Add(0, "", "", []byte("v1"))
	k, _, err := linux.keys(f.Context(), "chromium", unlocked(password), true)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, version int, host, clear string, encrypted []byte) {
		value, why := k.value(version, row{host: host, value: []byte(clear), encrypted: encrypted})
		if value != "" && why != "" {
			t.Fatalf("a value and a reason: %q %s", value, why)
		}
		if _, bad := text([]byte(value)); bad != "" {
			t.Fatalf("not text: %q", value)
		}
		if _, bad := text([]byte(clear)); bad != "" {
			return
		}
		bind := host
		if version < hashSince {
			bind = ""
		}
		if bind == "" && version >= hashSince {
			return // the test's own seal would leave the hash out
		}
		for _, sealed := range [][]byte{v10(bind, clear), v11(bind, clear)} {
			if got, why := k.value(version, row{host: host, encrypted: sealed}); why != "" || got != clear {
				t.Fatalf("sealed %q, got %q %s", clear, got, why)
			}
		}
	})
}

// A bent database file is a typed error or an honest report.
func FuzzRead(f *testing.F) {
	p := profile(f, 24, stored{host: ".shop.test", encrypted: v10(".shop.test", "alpha")}, stored{host: "shop.test", value: "clear"})
	good := readFile(f, p.Cookies)
	f.Add(0, byte(0))
	for _, at := range []int{18, 100, 103, 4096, 8192, len(good) - 30, len(good) - 5} {
		f.Add(at, byte(0xff))
	}
	f.Fuzz(func(t *testing.T, at int, flip byte) {
		bent := append([]byte(nil), good...)
		if at >= 0 {
			bent[at%len(bent)] ^= flip
			bent[(at*7+at/11)%len(bent)] ^= flip
		}
		p := p
		p.Cookies = writeFile(t, bent)
		cookies, report, err := read(t.Context(), p, []string{"shop.test"}, unlocked(password), linux, now)
		if err != nil {
			if c := browserhost.CodeOf(err); c != browserhost.CodeUpstream {
				t.Fatalf("%s: %v", c, err)
			}
			return
		}
		sum := report.Read
		for _, n := range report.Reasons {
			sum += n
		}
		if sum != report.Matched || len(cookies) != report.Read {
			t.Fatalf("%+v, %d cookies", report, len(cookies))
		}
	})
}

// A thousand cookies read and decrypted.
func BenchmarkRead(b *testing.B) {
	var rows []stored
	for i := range 1000 {
		host := fmt.Sprintf(".h%d.shop.test", i)
		rows = append(rows, stored{host: host, encrypted: v11(host, strings.Repeat("v", 60))})
	}
	p := profile(b, 24, rows...)
	for b.Loop() {
		if cookies, _, err := read(b.Context(), p, []string{"shop.test"}, unlocked(password), linux, now); err != nil || len(cookies) != 1000 {
			b.Fatal(len(cookies), err)
		}
	}
}
