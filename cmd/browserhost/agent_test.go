//go:build unix

package main

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// agent is an agent's client, with a shell: "ask SITE…" asks the owner for
// sites and prints the answer; "run COMMAND…" speaks as its device and then
// runs a command.
func agent() {
	switch os.Args[1] {
	case "ask":
		args, err := json.Marshal(map[string]any{"domains": os.Args[2:], "reason": "to buy tea \x1b[2J\u202e"})
		must(err)
		answer, err := speak("POST", "/v1/tools/request_access", string(args))
		must(err)
		fmt.Println(answer)
	case "run":
		_, err := speak("GET", "/v1/tools", "")
		must(err)
		cmd := exec.Command(os.Args[2], os.Args[3:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = cmd.Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			os.Exit(exit.ExitCode())
		}
		must(err)
	}
}

// speak sends one request of the device.
func speak(method, path, body string) (string, error) {
	r, err := http.NewRequest(method, "http://"+os.Getenv("LISTEN")+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+os.Getenv("BEARER"))
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, answer)
	}
	return string(answer), err
}

// alone becomes another command without the terminal of whoever runs the tests.
func alone() {
	_, err := unix.Setsid()
	must(err)
	path, err := exec.LookPath(os.Args[1])
	must(err)
	must(unix.Exec(path, os.Args[1:], os.Environ()))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
}
