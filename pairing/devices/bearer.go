package devices

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"browserhost"
)

// maxBearer bounds what is looked at: a real bearer has 81 characters.
const maxBearer = 256

const (
	bearerScheme  = "apd1"
	bearerMessage = "agentproto/local-device/v1|"
)

// MAC computes the last part of a local bearer: HMAC-SHA256 of the device's id
// under a secret of 32 random bytes, in base64url without padding (AIP-59).
func MAC(secret []byte, id browserhost.DeviceID) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(bearerMessage + string(id)))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// bearer joins the parts that a device carries.
func bearer(id browserhost.DeviceID, mac string) browserhost.Secret {
	return browserhost.Secret(bearerScheme + "." + string(id) + "." + mac)
}

// parseBearer takes a bearer apart. It accepts exactly three parts: the
// scheme, 32 lowercase hex digits, and characters of base64url. The last part
// is compared later as text, because the spare bits of its last character
// would let one MAC have four spellings.
func parseBearer(s string) (id browserhost.DeviceID, mac string, ok bool) {
	if len(s) > maxBearer {
		return "", "", false
	}
	parts := strings.Split(s, ".")
	if len(parts) != 3 || parts[0] != bearerScheme {
		return "", "", false
	}
	id, mac = browserhost.DeviceID(parts[1]), parts[2]
	if !id.Valid() || mac == "" || strings.ContainsFunc(mac, notBase64URL) {
		return "", "", false
	}
	return id, mac, true
}

func notBase64URL(r rune) bool {
	switch {
	case 'A' <= r && r <= 'Z', 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-', r == '_':
		return false
	}
	return true
}

// verifierOf is what the store keeps of a MAC. The MAC has 256 bits that
// nobody can guess, so a plain hash of it needs no salt and no stretching.
func verifierOf(mac string) string {
	sum := sha256.Sum256([]byte(mac))
	return hex.EncodeToString(sum[:])
}
