package activity

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	"slices"
	"sync"
	"time"

	"browserhost"
)

const (
	digestLabel = "activity/digest/v1"
	keyTime     = 5 * time.Second // a keychain may wait for its owner; a row does not
	keyRetry    = time.Minute
)

// digestKey is the key of digests, derived once from the host's secret. While
// there is no keychain rows have no digests, and the next try waits.
type digestKey struct {
	keys browserhost.Keys

	mu    sync.Mutex
	key   []byte
	tried time.Time
}

func (k *digestKey) get(ctx context.Context) []byte {
	if k.keys == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != nil || !k.tried.IsZero() && time.Since(k.tried) < keyRetry {
		return k.key
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyTime)
	defer cancel()
	k.tried = time.Now()
	if key, err := k.keys.MAC(ctx, digestLabel, nil); err == nil {
		k.key = key
	}
	return k.key
}

// extent measures a JSON text; nil for none.
func (k *digestKey) extent(ctx context.Context, text []byte) *Extent {
	if len(text) == 0 {
		return nil
	}
	e := &Extent{Bytes: len(text)}
	key := k.get(ctx)
	if key == nil {
		return e
	}
	canonical := jsontext.Value(slices.Clone(text))
	if err := canonical.Canonicalize(); err != nil { // RFC 8785
		canonical = text // not JSON: what came is what counts
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(canonical)
	e.Digest = "hmac-sha256:" + hex.EncodeToString(mac.Sum(nil))
	return e
}

func picture(img *browserhost.Image) *Picture {
	if img == nil {
		return nil
	}
	sum := sha256.Sum256(img.Data)
	return &Picture{MIME: img.MIME, Width: img.Width, Height: img.Height, Bytes: len(img.Data), SHA256: hex.EncodeToString(sum[:])}
}
