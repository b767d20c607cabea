package jar

import (
	"bytes"
	stdjson "encoding/json"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"time"

	"browserhost"
)

const (
	recordVersion = 1
	maxRecords    = 16 << 20 // bytes of grants.json
)

var (
	// grantID is also a file name, so it holds nothing that a path could mean.
	grantID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,79}$`)
	domain  = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+([a-z]{2,63}|xn--[a-z0-9-]{1,59})$`)
)

var (
	sourceKinds = []string{"chrome", "firefox", "file", "native-login"}
	vias        = []string{"interactive", "flag"}
)

const (
	sinkLocal  = "local"
	sinkRemote = "remote"
)

// records is the whole file. It is closed: an unknown key is an error.
type records struct {
	Version int                 `json:"version"`
	Grants  []browserhost.Grant `json:"grants"`
}

// check refuses a record that breaks a rule of AIP-63 §4.1. Which names may be
// granted at all is not asked here: consent/domains did, before the owner was.
func check(g browserhost.Grant) error {
	bad := func(format string, args ...any) error {
		return browserhost.Errorf(browserhost.CodeInputInvalid, "the grant is not valid: "+format, args...)
	}
	switch {
	case !grantID.MatchString(string(g.ID)):
		return bad("its id is not one")
	case g.SessionID == "":
		return bad("it names no session")
	case g.DeviceID != "" && !g.DeviceID.Valid():
		return bad("its device id is not one")
	case !slices.Contains(sourceKinds, g.Source.Kind) || g.Source.Profile == "":
		return bad("it names no source")
	case (len(g.Domains) > 0) == g.FullProfile:
		return bad("it has either sites or the full profile") // AIP-63 C3
	case len(g.Sinks) == 0:
		return bad("it has no sink")
	case !slices.Contains(vias, g.GrantedVia):
		return bad("it does not say how it was granted")
	case g.CookieCount < 0:
		return bad("its cookie count is negative")
	}
	for _, d := range g.Domains {
		if len(d) > 253 || !domain.MatchString(d) {
			return bad("a site is not a domain name")
		}
	}
	for _, s := range g.Sinks {
		local := s.Kind == sinkLocal && s.ProviderID == "" && s.AckSeq == nil
		remote := s.Kind == sinkRemote && s.ProviderID != "" && s.AckSeq != nil && *s.AckSeq >= 0 // AIP-63 C6
		if !local && !remote {
			return bad("a sink is neither local nor acknowledged")
		}
		if g.FullProfile && !local {
			return bad("a full profile stays on this computer") // AIP-63 C3
		}
	}
	for _, t := range []struct {
		value string
		must  bool
	}{{g.GrantedAt, true}, {g.ExpiresAt, false}, {g.RevokedAt, false}} {
		if t.value == "" && !t.must {
			continue
		}
		if _, err := time.Parse(time.RFC3339, t.value); err != nil {
			return bad("a time is not RFC 3339")
		}
	}
	return nil
}

// readGrants reads the file; a missing one is an empty list. Nothing of a file
// that breaks a rule is used: half a list of grants is a wrong list.
func readGrants(path string) ([]browserhost.Grant, error) {
	broken := func(err error) error {
		return browserhost.Hide(browserhost.CodeInternal, err, "the grant list on the disk is not valid")
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, broken(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, broken(err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return nil, broken(err)
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRecords+1))
	if err != nil {
		return nil, broken(err)
	}
	if len(text) > maxRecords {
		return nil, broken(errors.New("jar: the grant list is too long"))
	}
	grants, err := parse(text)
	if err != nil {
		return nil, broken(err)
	}
	return grants, nil
}

func parse(text []byte) ([]browserhost.Grant, error) {
	var all records
	if err := json.Unmarshal(text, &all, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if all.Version != recordVersion || all.Grants == nil {
		return nil, fmt.Errorf("jar: version %d of the grant list, or no list", all.Version)
	}
	seen := map[browserhost.GrantID]bool{}
	for i, g := range all.Grants {
		if err := check(g); err != nil {
			return nil, fmt.Errorf("jar: grant %d: %w", i, err)
		}
		if seen[g.ID] {
			return nil, fmt.Errorf("jar: grant %d has the id of an earlier one", i)
		}
		seen[g.ID] = true
	}
	return all.Grants, nil
}

// writeGrants writes as the reference host does: two spaces, optional members
// left out, no HTML escapes.
func writeGrants(path string, grants []browserhost.Grant) error {
	var text bytes.Buffer
	enc := stdjson.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(records{recordVersion, grants}); err != nil {
		return err
	}
	if text.Len() > maxRecords {
		return errors.New("jar: the grant list is too long")
	}
	return write(path, text.Bytes())
}
