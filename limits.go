package browserhost

import "time"

// Limits (contract B). Each is one number in one place.
const (
	MaxBrowsers       = 4
	MaxPagesPerDevice = 16
	MaxPagesPerHost   = 64

	SnapshotChars    = 24_000    // characters of a snapshot when none are asked for
	MaxSnapshotChars = 256 << 10 // most that may be asked for
	MaxNodeText      = 512       // bytes of one node's name or value
	MaxImageBytes    = 1 << 20   // a picture, encoded
	MaxImageSide     = 4096      // pixels
	MaxInputText     = 4096      // bytes
	MaxURL           = 8192      // bytes
	MaxTitle         = 256       // characters
	MaxCDPMessage    = 64 << 20  // bytes; a larger frame is skipped and fails only its call
	MaxHTTPBody      = 4 << 20   // bytes
	MaxArgs          = 256 << 10 // bytes of one MCP argument object
	MaxAnswer        = 8 << 20   // bytes of any answer

	SettleTime   = 1500 * time.Millisecond // after an act
	CallTime     = 30 * time.Second        // one call
	AskTime      = 45 * time.Second        // request_access
	LaunchBudget = 120 * time.Second       // soft
	LaunchLimit  = 360 * time.Second       // hard
	InstanceIdle = 30 * time.Minute
	InstanceLife = 4 * time.Hour
	ReapTick     = 60 * time.Second
)

// TimeLayout is how times are written in records: RFC 3339 with milliseconds, in UTC.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// FormatTime writes t as records do.
func FormatTime(t time.Time) string { return t.UTC().Format(TimeLayout) }
