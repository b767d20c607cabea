package operator

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
	"time"

	"browserhost"
)

// Client is the owner's desk as a command sees it: the same verbs, over
// control.sock. What widens also takes confirm, which is what a person has
// typed: see [Subject], or the device's name. It is safe for concurrent use;
// each call has a connection of its own, so that a person may think as long as
// they like between two of them.
type Client struct{ path string }

// Dial looks whether a host of this user answers at path. The error wraps
// [ErrNoHost] when nobody does.
func Dial(ctx context.Context, path string) (*Client, error) {
	c := &Client{path}
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	return c, conn.Close()
}

// Close gives back what the client holds.
func (c *Client) Close() error { return nil }

// connect opens a connection to a host of this user: a socket of somebody
// else's is not told anything.
func (c *Client) connect(ctx context.Context) (*net.UnixConn, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: %w", ErrNoHost, err)
	}
	if err != nil {
		return nil, err
	}
	u := conn.(*net.UnixConn)
	who, err := peerOf(u)
	if err == nil {
		who.close()
		err = sameUser(who)
	}
	if err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

type (
	request[A any] struct {
		Op      string `json:"op"`
		Confirm string `json:"confirm,omitzero"`
		Args    A      `json:",embed"`
	}
	failure struct {
		OK    bool                       `json:"ok"`
		Error *browserhost.EnvelopeError `json:"error"`
	}
)

// call sends one verb and reads its reply into a value of R. A reply of a
// newer host may have more fields than R.
func call[R, A any](ctx context.Context, c *Client, op, confirm string, args A) (r R, err error) {
	line, err := json.Marshal(request[A]{op, confirm, args})
	if err != nil {
		return r, err
	}
	if len(line) > maxLine {
		return r, browserhost.Errorf(browserhost.CodeInputInvalid, "the request is larger than %d bytes", maxLine)
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// A host that refuses the connection may reply before it has read: its
	// reply is worth more than the error of the write.
	_, unsent := conn.Write(append(line, '\n'))
	answer, err := readLine(conn)
	if err != nil {
		return r, ended(ctx, cmp.Or(unsent, err))
	}
	var f failure
	if err := json.Unmarshal(answer, &f); err != nil {
		return r, fmt.Errorf("the host's reply is not understood: %w", err)
	}
	if !f.OK {
		if f.Error == nil {
			return r, errors.New("the host's reply is not understood: no error in a failure")
		}
		return r, &browserhost.Error{Code: f.Error.Code, Message: f.Error.Message, Retryable: f.Error.Retryable, Cause: f.Error.Cause}
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return r, fmt.Errorf("the host's reply is not understood: %w", err)
	}
	return r, nil
}

// readLine reads one reply, of at most MaxAnswer bytes.
func readLine(conn net.Conn) ([]byte, error) {
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, browserhost.MaxAnswer+1)
	if lines.Scan() {
		return lines.Bytes(), nil
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, errors.New("the host went away without an answer")
}

// ended prefers why the caller stopped over how the connection noticed.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Status says how the host does.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, "status", "", Empty{})
}

// Devices lists what is paired.
func (c *Client) Devices(ctx context.Context) ([]browserhost.Device, error) {
	r, err := call[devicesReply](ctx, c, "devices", "", Empty{})
	return r.Devices, err
}

// RevokeDevice unpairs a device.
func (c *Client) RevokeDevice(ctx context.Context, id browserhost.DeviceID) (Unpaired, error) {
	return call[Unpaired](ctx, c, "device.revoke", "", idArgs{string(id)})
}

// Grants lists what was lent, ended grants included.
func (c *Client) Grants(ctx context.Context) ([]Grant, error) {
	r, err := call[grantsReply](ctx, c, "grants", "", Empty{})
	return r.Grants, err
}

// Revoke ends a grant.
func (c *Client) Revoke(ctx context.Context, id browserhost.GrantID) (Revoked, error) {
	return call[Revoked](ctx, c, "revoke", "", idArgs{string(id)})
}

// Requests lists what devices asked for.
func (c *Client) Requests(ctx context.Context) ([]Request, error) {
	r, err := call[requestsReply](ctx, c, "requests", "", Empty{})
	return r.Requests, err
}

// Deny refuses a request.
func (c *Client) Deny(ctx context.Context, requestID string) (Request, error) {
	r, err := call[requestReply](ctx, c, "deny", "", idArgs{requestID})
	return r.Request, err
}

// Ledger verifies the consent ledger.
func (c *Client) Ledger(ctx context.Context) (Ledger, error) {
	r, err := call[ledgerReply](ctx, c, "ledger.info", "", Empty{})
	return r.Ledger, err
}

// Stop asks the host to end.
func (c *Client) Stop(ctx context.Context) error {
	_, err := call[Empty](ctx, c, "stop", "", Empty{})
	return err
}

// End asks the host to end and returns when its process has, so that another
// one may start in its place.
func (c *Client) End(ctx context.Context) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	host, err := peerOf(conn)
	if err != nil {
		return err
	}
	defer host.close()
	if err := c.Stop(ctx); err != nil {
		return err
	}
	return host.ended(ctx)
}

// Sources lists the owner's browser profiles by name. It needs a terminal.
func (c *Client) Sources(ctx context.Context) ([]Source, error) {
	r, err := call[sourcesReply](ctx, c, "sources", "", Empty{})
	return r.Sources, err
}

// Scan counts cookies per site without reading a value. It needs a terminal.
func (c *Client) Scan(ctx context.Context, source string, domains []string) ([]Site, error) {
	r, err := call[sitesReply](ctx, c, "scan", "", scanArgs{source, domains})
	return r.Sites, err
}

// Grant lends sites to a device. confirm is the [Subject] of the sites.
func (c *Client) Grant(ctx context.Context, spec GrantSpec, confirm string) (Granted, error) {
	return call[Granted](ctx, c, "grant", confirm, spec)
}

// Allow decides a filed request. confirm is the [Subject] of its sites, or of
// those chosen.
func (c *Client) Allow(ctx context.Context, spec AllowSpec, confirm string) (Granted, error) {
	return call[Granted](ctx, c, "requests.allow", confirm, spec)
}

// Pair makes a device and returns its bearer, once. confirm is its name.
func (c *Client) Pair(ctx context.Context, spec PairSpec, confirm string) (Paired, error) {
	return call[Paired](ctx, c, "pair", confirm, spec)
}
