package chrome

import (
	"context"
	"encoding/json/v2"
	"fmt"

	"browserhost"
)

// hostRole makes this test binary a host that launches one browser, opens a
// page, prints the browser's process and directory, and then does nothing.
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
	i, err := p.Launch(context.Background(), browserhost.LaunchOptions{Key: o.Key, Proxy: "http://127.0.0.1:9"})
	if err != nil {
		panic(err)
	}
	d, err := i.Attach(context.Background(), browserhost.AttachOptions{Proxy: "http://127.0.0.1:9"})
	if err != nil {
		panic(err)
	}
	if _, _, err := d.NewPage(context.Background(), ""); err != nil {
		panic(err)
	}
	fmt.Println(i.(*instance).process.PID(), i.(*instance).dir)
	select {}
}
