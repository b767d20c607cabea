package wire

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"browserhost"
	"browserhost/consent/keychain"
	"browserhost/host/mcp"
	"browserhost/host/operator"
	"browserhost/pairing/devices"
)

// BearerVariable is where the stdio bridge looks for a bearer first.
const BearerVariable = "BROWSERHOST_BEARER"

// A bearer is one character too long for some keychains, so it is kept
// without what all bearers begin with.
const bearerPrefix = "apd1."

func bearerItem(id browserhost.DeviceID) string { return "bearer." + string(id) }

func keepBearer(ctx context.Context, vault *keychain.Vault, id browserhost.DeviceID, bearer browserhost.Secret) error {
	return vault.Set(ctx, bearerItem(id), browserhost.Secret(strings.TrimPrefix(string(bearer), bearerPrefix)))
}

// Bridge is `browserhost mcp NAME`: MCP over in and out, for clients that start
// programs. The bearer comes from the environment or from the keychain, never
// from an argument. It returns when in ends.
func Bridge(ctx context.Context, opts Options, name string, in io.Reader, out io.Writer) error {
	bearer := browserhost.Secret(os.Getenv(BearerVariable))
	if bearer == "" {
		var err error
		if bearer, err = findBearer(ctx, opts, name); err != nil {
			return err
		}
	}
	return mcp.Bridge(ctx, in, out, "http://"+address(ctx, opts)+"/mcp", bearer)
}

func findBearer(ctx context.Context, opts Options, name string) (browserhost.Secret, error) {
	list, err := devices.Open(filepath.Join(opts.Home, devicesFile), devices.Options{})
	if err != nil {
		return "", err
	}
	device, ok := list.Find(name)
	if !ok {
		return "", browserhost.Errorf(browserhost.CodeNotFound, "no device is called %q", name)
	}
	if opts.Settings.Store == string(keychain.Memory) {
		return "", browserhost.Errorf(browserhost.CodeKeyring, "with store: memory no bearer is kept; give it in %s", BearerVariable)
	}
	id, err := hostID(opts.Home)
	if err != nil {
		return "", err
	}
	kept, err := openVault(opts.Settings.Store, id).Get(ctx, bearerItem(device.ID))
	if errors.Is(err, keychain.ErrMissing) {
		return "", browserhost.Errorf(browserhost.CodeNotFound, "the keychain has no bearer of %q; pair it again, or give it in %s", name, BearerVariable)
	}
	return browserhost.Secret(bearerPrefix + string(kept)), err
}

// address is where the host of this state directory listens: as it says
// itself, else as the settings say.
func address(ctx context.Context, opts Options) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if client, err := operator.Dial(ctx, operator.Path(opts.Home)); err == nil {
		defer client.Close()
		if st, err := client.Status(ctx); err == nil {
			return st.Listen
		}
	}
	return opts.Settings.Listen.String()
}
