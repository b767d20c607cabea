// Package wire puts the host together. It is the only package that names the
// concrete parts: everything else meets its neighbours as interfaces of the
// root package or of its own.
//
// Two doors lead in and share nothing that widens. The agents' door is the
// line of package host, at the end of which consent/gate lends what was
// granted. The owner's door is the [operator.Desk]; behind it stands
// consent/widen, which no other package can import (AIP-63 C7, K34).
package wire
