package extract

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"runtime"
	"unicode/utf8"

	"browserhost"
)

// system is how one operating system's Chromium derives its keys.
type system struct {
	readable   bool // v10 and v11 are as below
	keyring    bool // v11 keys come from passwords in a keyring
	iterations int
}

// linux is Chromium's scheme on Linux and its kin.
var linux = system{readable: true, keyring: true, iterations: 1}

var thisSystem = systemOf(runtime.GOOS)

func systemOf(goos string) system {
	switch goos {
	case "darwin", "ios", "windows", "android", "js", "wasip1", "plan9":
		return system{}
	}
	return linux
}

// fixed is the password of v10, the same in every Chromium on Linux. Some
// versions wrote with an empty one.
var fixed = []browserhost.Secret{"peanuts", ""}

const (
	saltText  = "saltysalt"
	keyLength = 16
	hashSince = 24 // from this schema on, the plaintext begins with a hash of the host
)

// keys are the AES keys to try on a row, by scheme and in order.
type keys struct {
	system system
	v10    [][]byte
	v11    [][]byte
	found  bool // the keyring had a password
}

// keys collects the keys, asking for passwords only if a row wants them.
// locked says that the keyring may hold more than it gave.
func (s system) keys(ctx context.Context, browser string, secrets Secrets, wanted bool) (k keys, locked bool, err error) {
	k.system = s
	if !s.readable {
		return k, false, nil
	}
	for _, password := range fixed {
		k.v10 = append(k.v10, derive(password, s.iterations))
	}
	if !wanted {
		return k, false, nil
	}
	got, err := secrets.Passwords(ctx, browser)
	if err != nil {
		return keys{}, false, err
	}
	k.found = len(got.Found) > 0
	for _, password := range got.Found {
		k.v11 = append(k.v11, derive(password, s.iterations))
	}
	k.v11 = append(k.v11, k.v10...)
	return k, got.Locked, nil
}

// value opens the row's value, or gives the reason why not.
func (k keys) value(version int, r row) (value, why string) {
	var candidates [][]byte
	switch r.scheme() {
	case "":
		return text(r.value)
	case "v10":
		candidates = k.v10
	case "v11":
		candidates = k.v11
	case "v12":
		return "", PortalKey
	case "v20":
		return "", AppBound
	default:
		return "", UnknownScheme
	}
	switch {
	case len(r.value) > 0:
		return "", TwoValues
	case !k.system.readable:
		return "", UnsupportedOS
	}
	value, why = open(candidates, version, r.host, r.encrypted[3:])
	if (why == WrongKey || why == HashMismatch) && r.scheme() == "v11" && !k.found {
		why = NoKey // only the empty and the fixed password were tried; a mismatch is chance
	}
	return value, why
}

// open tries each key. A wrong one passes the padding once in 256 values; what
// tells it apart is the hash of the host, compared whole and exactly, and in
// older schemas, which have none, that the result is text.
func open(candidates [][]byte, version int, host string, encrypted []byte) (value, why string) {
	why = WrongKey
	for _, key := range candidates {
		plain, ok := unseal(key, encrypted)
		if !ok {
			continue
		}
		if version >= hashSince {
			sum := sha256.Sum256([]byte(host))
			rest, ok := bytes.CutPrefix(plain, sum[:])
			if !ok {
				why = HashMismatch
				continue
			}
			return text(rest)
		}
		if value, bad := text(plain); bad == "" {
			return value, ""
		}
	}
	return "", why
}

// text takes what a browser takes as a cookie's value, the empty one included.
func text(b []byte) (value, why string) {
	if len(b) > maxValue || !utf8.Valid(b) {
		return "", BadValue
	}
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f || c == ';' {
			return "", BadValue
		}
	}
	return string(b), ""
}

func derive(password browserhost.Secret, iterations int) []byte {
	key, err := pbkdf2.Key(sha1.New, string(password), []byte(saltText), iterations, keyLength)
	if err != nil { // only in FIPS mode: then no row can be read
		return nil
	}
	return key
}

// unseal decrypts AES-128-CBC with Chromium's fixed vector of 16 spaces and
// takes the padding off, strictly.
func unseal(key, encrypted []byte) ([]byte, bool) {
	block, err := aes.NewCipher(key)
	if err != nil || len(encrypted) == 0 || len(encrypted)%aes.BlockSize != 0 {
		return nil, false
	}
	plain := make([]byte, len(encrypted))
	cipher.NewCBCDecrypter(block, bytes.Repeat([]byte{' '}, aes.BlockSize)).CryptBlocks(plain, encrypted)
	n := int(plain[len(plain)-1])
	if n == 0 || n > aes.BlockSize {
		return nil, false
	}
	for _, b := range plain[len(plain)-n:] {
		if int(b) != n {
			return nil, false
		}
	}
	return plain[:len(plain)-n], true
}
