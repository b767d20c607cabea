package devices

import (
	"encoding/hex"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"browserhost"
)

// maxStore bounds the file: MaxDevices records stay far below it.
const maxStore = 1 << 20

// document is the file. Its shape is closed.
type document struct {
	V       int      `json:"v"`
	Devices []record `json:"localDevices"`
}

// record is one device in the file. It holds no secret: the verifier is the
// hash of the bearer's last part.
type record struct {
	ID        browserhost.DeviceID `json:"fingerprint"`
	Name      string               `json:"name"`
	Role      string               `json:"role"`
	Scopes    []browserhost.Scope  `json:"scopes"`
	CreatedAt string               `json:"createdAt"`
	LastSeen  string               `json:"lastSeen,omitzero"`
	Verifier  string               `json:"verifier"`
}

const version = 2

// parse reads a file's bytes. Anything that this version would not write is
// an error: a store that is half understood must not be overwritten later.
func parse(data []byte) ([]record, error) {
	var doc document
	if err := json.Unmarshal(data, &doc, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("it is not a device store: %w", err)
	}
	if doc.V != version {
		return nil, fmt.Errorf("its version is %d, this program knows %d", doc.V, version)
	}
	if len(doc.Devices) > MaxDevices {
		return nil, fmt.Errorf("it has more than %d devices", MaxDevices)
	}
	seen := map[browserhost.DeviceID]bool{}
	for i, r := range doc.Devices {
		if why := r.wrong(); why != "" {
			return nil, fmt.Errorf("device %d: %s", i, why)
		}
		if seen[r.ID] {
			return nil, fmt.Errorf("device %d: its fingerprint occurs twice", i)
		}
		seen[r.ID] = true
	}
	return doc.Devices, nil
}

// wrong says what is wrong with a record, "" when it is right.
func (r record) wrong() string {
	name, nameErr := cleanName(r.Name)
	_, createdErr := time.Parse(browserhost.TimeLayout, r.CreatedAt)
	_, seenErr := time.Parse(browserhost.TimeLayout, r.LastSeen)
	verifier, hexErr := hex.DecodeString(r.Verifier)
	switch {
	case !r.ID.Valid():
		return "its fingerprint is not 32 hex digits"
	case nameErr != nil || name != r.Name:
		return "its name is not one that this program gives"
	case r.Role != RoleAgent:
		return "its role is unknown"
	case checkScopes(r.Scopes) != nil:
		return "its scopes are unknown"
	case createdErr != nil:
		return "its creation time is malformed"
	case r.LastSeen != "" && seenErr != nil:
		return "its last time seen is malformed"
	case hexErr != nil || len(verifier) != 32:
		return "its verifier is malformed"
	}
	return ""
}

// read reads the file and what identifies this version of it. A file that does
// not exist has no devices and a nil identity.
func read(path string) ([]record, fs.FileInfo, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxStore+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > maxStore {
		return nil, nil, fmt.Errorf("it is larger than %d bytes", maxStore)
	}
	records, err := parse(data)
	return records, info, err
}

// write replaces the file in one step: the new content is on the disk before
// it gets the name, and the name is on the disk before write returns (AIP-63 C11).
func write(path string, records []record) (fs.FileInfo, error) {
	data, err := json.Marshal(document{V: version, Devices: records}, jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".pairings-*") // 0600
	if err != nil {
		return nil, err
	}
	info, err := fill(f, append(data, '\n'))
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()))
	}
	return info, syncDir(dir)
}

func fill(f *os.File, data []byte) (fs.FileInfo, error) {
	_, err := f.Write(data)
	err = errors.Join(err, f.Sync())
	info, statErr := f.Stat()
	return info, errors.Join(err, statErr, f.Close())
}

// syncDir makes a rename durable. Windows keeps directory entries durable by
// itself and cannot open a directory for this.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// same reports whether two identities are the same version of the file.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
