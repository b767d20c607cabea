package cdp

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives its connection.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
