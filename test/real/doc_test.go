//go:build real

// Package real holds the tests that need the real thing: a Chromium, and a
// keyring on a session bus. They run with the build tag real; `make test`
// installs what they need and runs them. Each makes its own directories, bus
// and browser, and leaves no process behind.
package real
