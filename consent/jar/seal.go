package jar

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"filippo.io/age"

	"browserhost"
)

const (
	sealVersion = 1
	maxSealed   = 16 << 20 // bytes of one sealed file
)

// header binds a sealed file to its grant (K8): age has no associated data.
type header struct {
	Version int                  `json:"version"`
	Grant   browserhost.GrantID  `json:"grantId"`
	Device  browserhost.DeviceID `json:"device"`
	Seq     int64                `json:"seq"` // grows with every sealing of the grant
}

// cookie is [browserhost.Cookie] with a value that can be written.
type cookie struct {
	Name         string    `json:"name"`
	Value        []byte    `json:"value"`
	Domain       string    `json:"domain"`
	Path         string    `json:"path"`
	Expires      time.Time `json:"expires,omitzero"`
	Secure       bool      `json:"secure,omitzero"`
	HTTPOnly     bool      `json:"httpOnly,omitzero"`
	SameSite     string    `json:"sameSite,omitzero"`
	Priority     string    `json:"priority,omitzero"`
	SourceScheme string    `json:"sourceScheme,omitzero"`
	SourcePort   int       `json:"sourcePort,omitzero"`
	PartitionKey string    `json:"partitionKey,omitzero"`
	CrossSite    bool      `json:"crossSite,omitzero"`
}

// Seal replaces the sealed cookies of g in one step. g need not be recorded
// yet; a grant recorded as revoked is refused, whatever g says, so that a
// refresh that lost against a revoke brings nothing back (AIP-63 C8). Without a
// keychain it fails with CodeKeyring and has written nothing (K7).
func (j *Jar) Seal(ctx context.Context, g browserhost.Grant, cookies []browserhost.Cookie) error {
	if err := check(g); err != nil {
		return err
	}
	if err := j.lock(ctx); err != nil {
		return err
	}
	defer j.unlock()
	if known, ok := j.Grant(g.ID); g.RevokedAt != "" || ok && known.RevokedAt != "" {
		return revoked()
	} else if ok && known.DeviceID != g.DeviceID {
		return browserhost.Errorf(browserhost.CodeInputInvalid, "a grant cannot move to another device")
	}
	ids, err := j.identities(ctx)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		fresh, err := j.newIdentity(ctx, current)
		if err != nil {
			return err
		}
		ids = append(ids, fresh)
	}
	seq := j.seqs[g.ID]
	if old, _, err := j.read(g.ID, ids); err == nil {
		seq = max(seq, old.Seq)
	}
	head := header{sealVersion, g.ID, g.DeviceID, seq + 1}
	// While a rotation waits, the last identity is the one that will stay.
	if err := j.write(head, cookies, ids[len(ids)-1]); err != nil {
		return browserhost.Hide(browserhost.CodeInternal, err, "the sign-ins could not be sealed")
	}
	j.seqs[g.ID] = head.Seq
	return nil
}

// Unseal opens the cookies of a recorded, living grant. It fails with
// CodeNotFound when nothing is sealed for it, CodeConsentRequired when it is
// unknown or revoked, CodeKeyring without a keychain or when the keychain has
// lost the key, and CodeInternal, cause reason "altered", for a file that is not the one that was sealed for this
// grant and device, or an older one than this process has seen (K8).
func (j *Jar) Unseal(ctx context.Context, id browserhost.GrantID) ([]browserhost.Cookie, error) {
	if err := j.lock(ctx); err != nil {
		return nil, err
	}
	defer j.unlock()
	g, ok := j.Grant(id)
	switch {
	case !ok:
		return nil, browserhost.Errorf(browserhost.CodeConsentRequired, "there is no such grant")
	case g.RevokedAt != "":
		return nil, revoked()
	case !j.Sealed(id):
		return nil, browserhost.Errorf(browserhost.CodeNotFound, "nothing is sealed for the grant")
	}
	ids, err := j.identities(ctx)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, keyMissing()
	}
	head, cookies, err := j.read(id, ids)
	if err == nil && (head.Device != g.DeviceID || head.Seq < j.seqs[id]) {
		err = errAltered
	}
	if err != nil {
		why := "unreadable"
		if errors.Is(err, errAltered) {
			why = "altered"
		}
		return nil, browserhost.Hide(browserhost.CodeInternal, err, "the sealed sign-ins cannot be opened").With("reason", why)
	}
	j.seqs[id] = head.Seq
	return cookies, nil
}

// errAltered is inside the error of whatever cannot be what was sealed.
var errAltered = errors.New("jar: not the file that was sealed")

// read opens the sealed file of id with any of the identities. An error that
// is not errAltered is the disk's.
func (j *Jar) read(id browserhost.GrantID, ids []age.Identity) (header, []browserhost.Cookie, error) {
	sealed, err := readFile(j.path(id))
	if err != nil {
		return header{}, nil, err
	}
	head, cookies, err := open(sealed, ids)
	if err != nil {
		return header{}, nil, errors.Join(errAltered, err)
	}
	if head.Version != sealVersion || head.Grant != id || head.Seq < 1 {
		return header{}, nil, errAltered
	}
	return head, cookies, nil
}

func (j *Jar) write(head header, cookies []browserhost.Cookie, id age.Identity) error {
	var sealed bytes.Buffer
	if err := seal(&sealed, head, cookies, id); err != nil {
		return err
	}
	if sealed.Len() > maxSealed {
		return errors.New("jar: the cookies are too many")
	}
	return write(j.path(head.Grant), sealed.Bytes())
}

func seal(to io.Writer, head header, cookies []browserhost.Cookie, id age.Identity) error {
	hybrid, ok := id.(*age.HybridIdentity)
	if !ok {
		return errors.New("jar: an identity without a recipient")
	}
	w, err := age.Encrypt(to, hybrid.Recipient())
	if err != nil {
		return err
	}
	written := make([]cookie, len(cookies))
	for i, c := range cookies {
		written[i] = cookie{c.Name, []byte(c.Value), c.Domain, c.Path, c.Expires.UTC(), c.Secure, c.HTTPOnly, c.SameSite, c.Priority, c.SourceScheme, c.SourcePort, c.PartitionKey, c.CrossSite}
	}
	enc := jsontext.NewEncoder(w)
	if err := errors.Join(json.MarshalEncode(enc, head), json.MarshalEncode(enc, written)); err != nil {
		return err
	}
	return w.Close()
}

func open(sealed []byte, ids []age.Identity) (header, []browserhost.Cookie, error) {
	r, err := age.Decrypt(bytes.NewReader(sealed), ids...)
	if err != nil {
		return header{}, nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxSealed))
	if err != nil {
		return header{}, nil, err
	}
	return parseSealed(plain)
}

// parseSealed reads the header and the list behind it; both are closed shapes,
// and nothing may follow.
func parseSealed(plain []byte) (head header, cookies []browserhost.Cookie, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(plain))
	strict := json.RejectUnknownMembers(true)
	if err := json.UnmarshalDecode(dec, &head, strict); err != nil {
		return header{}, nil, shapeless(err)
	}
	var written []cookie
	if err := json.UnmarshalDecode(dec, &written, strict); err != nil {
		return header{}, nil, shapeless(err)
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return header{}, nil, errors.New("jar: more than one list behind the header")
	}
	cookies = make([]browserhost.Cookie, len(written))
	for i, c := range written {
		cookies[i] = browserhost.Cookie{Name: c.Name, Value: browserhost.Secret(c.Value), Domain: c.Domain, Path: c.Path, Expires: c.Expires, Secure: c.Secure, HTTPOnly: c.HTTPOnly, SameSite: c.SameSite, Priority: c.Priority, SourceScheme: c.SourceScheme, SourcePort: c.SourcePort, PartitionKey: c.PartitionKey, CrossSite: c.CrossSite}
	}
	return head, cookies, nil
}

// shapeless says where a plaintext breaks its shape without quoting it, as the
// decoder's own errors may (AIP-63 C9).
func shapeless(err error) error {
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		return errors.New("jar: the plaintext has another shape at " + shape(e.JSONPointer))
	}
	return errors.New("jar: the plaintext is not JSON")
}

// shape keeps the known words of a pointer.
func shape(p jsontext.Pointer) string {
	for t := range p.Tokens() {
		switch t {
		case "version", "grantId", "device", "seq", "name", "value", "domain", "path", "expires":
			return t
		}
	}
	return "some member"
}

// readFile reads a regular file of bounded size.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() || info.Size() > maxSealed {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errAltered}
	}
	return io.ReadAll(io.LimitReader(f, maxSealed))
}
