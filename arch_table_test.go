package browserhost_test

// row is one line of the import law: what a package may import of ours beside
// the root, and why. A pattern that ends in /* covers the packages below.
type row struct {
	pkg string
	may []string
	why string
}

// law is the import table of the whole tree, packages to come included. A
// package that no row covers fails; of several rows the most exact one holds.
// (K27, K34)
var law = []row{
	{".", nil, "the words import nothing, so that every package can speak them"},

	{"cmd/browserhost", []string{"cmd/internal/wire", "cmd/internal/demo", "host/operator", "host/settings"}, "a main parses flags and prints; it reaches the host as the owner does"},
	{"cmd/browserhost-desktop", []string{"cmd/internal/wire", "host/operator", "ui/*"}, "the same host with a screen"},
	{"cmd/internal/wire", []string{"host", "host/*", "consent/*", "providers/*", "pairing", "pairing/*"}, "the only package that names concrete parts; it draws nothing"},
	{"cmd/internal/demo", []string{"cmd/internal/wire", "cmd/internal/fixsite", "host/operator", "host/settings", "host/egress", "providers/cdp", "providers/proc"}, "an owner and two agents in process, over the real host; it gives the host a network of its own, and drives the owner's browser itself"},
	{"cmd/internal/fixsite", nil, "a web site knows nothing of the host that visits it"},

	{"ui/*", []string{"ui/*", "host/operator", "assets"}, "what is shown comes through the owner's door, as for any owner"},

	{"host", []string{"host/*"}, "joins the links of the line; consent and browsers reach it as root interfaces"},
	{"host/*", nil, "a link of the line knows no other link: it meets them as root interfaces"},

	{"consent/gate", []string{"consent/narrow"}, "lends what was granted; what widens cannot be named from the agents' line (AIP-63 C7)"},
	{"consent/narrow", []string{"consent/domains", "consent/ledger", "consent/jar", "consent/extract"}, "shrinks and lends; a refresh reads the source of its grant again"},
	{"consent/widen", []string{"consent/domains", "consent/presence", "consent/extract", "consent/ledger", "consent/jar"}, "all that grows access; wire alone may import it (AIP-63 C7)"},
	{"consent/requests", []string{"consent/domains"}, "agents file and poll; nothing here can allow"},
	{"consent/domains", nil, "a pure question about names"},
	{"consent/ledger", []string{"consent/chain"}, "typed consent records over the chained file"},
	{"consent/chain", nil, "append-only lines, whatever they say"},
	{"consent/browserdb", nil, "safe copies and schemas; it judges no name and keeps no value"},
	{"consent/presence", []string{"consent/browserdb", "consent/domains"}, "counts per site without a value"},
	{"consent/extract", []string{"consent/browserdb", "consent/domains"}, "reads the named sites and no other"},
	{"consent/jar", []string{"consent/keychain"}, "material sealed under the key in the keychain"},
	{"consent/keychain", nil, "one short secret and nothing about what it opens"},

	{"providers/manifest", nil, "a parser of one file format"},
	{"providers/cdp", nil, "an engine that does not know which browser it drives"},
	{"providers/proc", nil, "processes and markers; it does not know that they are browsers"},
	{"providers/conform", []string{"providers/manifest"}, "judges any provider from outside"},
	{"providers/chrome", []string{"providers/cdp", "providers/proc", "providers/manifest"}, "one kind of browser; no way back to the jar"},
	{"providers/chromelive", []string{"providers/cdp", "providers/proc", "providers/manifest"}, "one kind of browser; no way back to the jar"},
	{"providers/camofox", []string{"providers/cdp", "providers/proc", "providers/manifest"}, "one kind of browser; no way back to the jar"},
	{"providers/hosted", []string{"providers/cdp", "providers/proc", "providers/manifest"}, "one kind of browser; no way back to the jar"},

	{"pairing", []string{"pairing/*"}, "joins the parts of AIP-59"},
	{"pairing/handshake", []string{"pairing/identity", "pairing/offer"}, "proves an identity against an offer"},
	{"pairing/*", nil, "one part of AIP-59 each"},

	{"assets", nil, "bytes"},
	{"bench/check", nil, "reads the text that go test prints"},
	{"test/real", []string{"cmd/internal/*", "host", "host/*", "consent/*", "providers/*", "pairing", "pairing/*"}, "only tests: real browsers and a real keyring"},
	{"test/interop", []string{"cmd/internal/wire", "cmd/internal/fixsite", "host/operator"}, "a running host for other people's clients to judge"},
}

// widen may be imported by these packages only, tests of the whole tree
// included: an agent cannot reach what cannot be named (AIP-63 C7, K34).
var widenBy = []string{"cmd/internal/wire", "consent/widen"}

// screen is what needs cgo and a display.
var screen = []string{"ui/tray", "ui/dialogs", "cmd/browserhost-desktop"}

// owner is one line about a third-party module: the packages whose product
// code imports it. More than one owner needs the reason in why; no owner means
// that only tests use it.
type owner struct {
	module string
	by     []string
	why    string
}

// owners is who may use what that others wrote. An import that no line covers
// fails. Tests may use any of these. (K27)
var owners = []owner{
	{"filippo.io/age", []string{"consent/jar"}, "material at rest"},
	{"github.com/zalando/go-keyring", []string{"consent/keychain"}, "our own item in the keychain"},
	{"modernc.org/sqlite", []string{"consent/browserdb", "host/activity"}, "shared: browser databases, and the index of the activity record, which no browser writes"},
	{"github.com/godbus/dbus/v5", []string{"consent/extract", "ui/tray"}, "shared: the browsers' items in every collection, and the tray's bus; go-keyring reads only its own item"},
	{"golang.org/x/net/publicsuffix", []string{"consent/domains"}, "what may be named"},
	{"golang.org/x/net/idna", []string{"consent/domains"}, "names as typed"},
	{"github.com/modelcontextprotocol/go-sdk", []string{"host/mcp", "cmd/browserhost", "cmd/internal/demo", "providers/conform"}, "shared: the server is host/mcp's; the others are clients (the stdio bridge, the demo's agents, the suite)"},
	{"github.com/google/jsonschema-go", []string{"host/mcp"}, "the SDK's own schema type"},
	{"github.com/santhosh-tekuri/jsonschema/v6", []string{"providers/manifest"}, "every error of a manifest with its path"},
	{"go.yaml.in/yaml/v4", []string{"host/settings", "providers/manifest"}, "shared: two file formats of ours are YAML"},
	{"github.com/fsnotify/fsnotify", []string{"host/settings"}, "the settings file is watched"},
	{"github.com/gofrs/flock", []string{"cmd/internal/wire"}, "one host per state directory: held by whoever opens it"},
	{"github.com/shirou/gopsutil/v4", []string{"providers/proc"}, "the marker in foreign processes, on every system"},
	{"github.com/chromedp/cdproto", []string{"providers/cdp", "providers/chrome", "providers/chromelive"}, "shared: the protocol's types; the connection is providers/cdp's"},
	{"github.com/gorilla/websocket", []string{"providers/cdp", "pairing/tunnel", "pairing/rendezvous"}, "shared: three protocols that are websockets"},
	{"github.com/alecthomas/kong", []string{"cmd/browserhost"}, "the command line"},
	{"golang.org/x/term", []string{"cmd/browserhost"}, "whether a person is at the other end"},
	{"golang.org/x/sys", []string{"providers/proc", "host/operator", "consent/browserdb", "cmd/internal/demo", "cmd/browserhost"}, "shared: system calls that the standard library does not wrap"},
	{"fyne.io/fyne/v2", []string{"ui/tray", "ui/dialogs", "cmd/browserhost-desktop"}, "shared: windows and the tray; ui/view stays free of it"},
	{"github.com/skip2/go-qrcode", []string{"ui/dialogs"}, "the code that a phone scans"},

	{"github.com/rogpeppe/go-internal", nil, "testscript for the command line"},
	{"go.uber.org/goleak", nil, "no goroutine stays behind"},
	{"pgregory.net/rapid", nil, "properties of state machines"},
	{"github.com/google/go-cmp", nil, "readable differences"},
	{"github.com/creack/pty", nil, "a terminal for the questions that ask for one"},
}
