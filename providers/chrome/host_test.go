package chrome

import (
	"context"
	"encoding/json/v2"
	"os"

	"browserhost"
)

// hostRole makes this test binary a host that launches one browser, says so on
// its standard output and then does nothing.
const hostRole = "CHROME_TEST_HOST"

// hostOrder is the value of the variable.
type hostOrder struct {
	Exe, DataDir, Key string
	NoSandbox         bool
}

func actAsHost(order string) {
	var o hostOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		panic(err)
	}
	p := New(Config{ExecutablePath: o.Exe, DataDir: o.DataDir, NoSandbox: o.NoSandbox})
	if _, err := p.Launch(context.Background(), browserhost.LaunchOptions{Key: o.Key, Proxy: "http://127.0.0.1:9"}); err != nil {
		panic(err)
	}
	os.Stdout.WriteString("ready\n")
	select {}
}
