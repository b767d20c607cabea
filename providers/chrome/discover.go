package chrome

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"browserhost"
)

// versionTime bounds the question for the version, the disk's first reading of
// the program included.
const versionTime = 10 * time.Second

// program is a browser that can be run.
type program struct {
	path    string // of the browser itself, not of a script before it
	version string // "Chromium 156.0.8078.114"
	shell   bool   // the headless shell
}

// version is what a file said it is, and which file that was.
type version struct {
	file fs.FileInfo
	text string
}

// errNone is the answer where no browser is installed. It names the setting and
// the variable that point to one (S4.2).
var errNone = errors.New("no Chromium or Chrome was found; chrome.executablePath or CHROME_EXECUTABLE_PATH can name one")

// Discover looks for a browser and asks it for its version, which opens
// nothing; the answer is kept for as long as the file is the same. A host
// without a browser is a valid one (S3.13, S3.40).
func (p *Provider) Discover(ctx context.Context) browserhost.Discovery {
	prog, err := p.find(ctx, false)
	if err != nil {
		return browserhost.Discovery{Why: err.Error()}
	}
	return browserhost.Discovery{Runnable: true, Version: prog.version, Path: prog.path}
}

// choose finds the browser for a launch.
func (p *Provider) choose(ctx context.Context, headed bool) (program, error) {
	prog, err := p.find(ctx, headed)
	if err != nil {
		return program{}, notReady(err, "%v", err) // safe to show: find names no path
	}
	if headed && prog.shell {
		return program{}, notReady(nil, "the configured browser has no windows")
	}
	return prog, nil
}

// find looks in the order: what the owner named, and nothing else then; the
// headless shell, where it is wanted and will do; any Chromium or Chrome. Its
// errors name no path.
func (p *Provider) find(ctx context.Context, headed bool) (program, error) {
	if path := p.config.ExecutablePath; path != "" {
		prog, err := p.probe(ctx, path, true)
		if err != nil {
			return program{}, fmt.Errorf("the configured browser %w", err)
		}
		return prog, nil
	}
	places := candidates(runtime.GOOS, os.Getenv)
	if p.config.HeadlessShell && !headed {
		places = append(shellNames[:len(shellNames):len(shellNames)], places...)
	}
	var first error
	for _, place := range places {
		path, err := exec.LookPath(place)
		if err != nil {
			continue
		}
		prog, err := p.probe(ctx, path, false)
		if err == nil {
			return prog, nil
		}
		if first == nil {
			first = fmt.Errorf("the installed browser %w", err)
		}
	}
	if first != nil {
		return program{}, first
	}
	return program{}, errNone
}

// shellNames are the headless shell's names on the search path.
var shellNames = []string{"chromium-headless-shell", "chrome-headless-shell"}

// candidates are names on the search path and places, best first.
func candidates(goos string, env func(string) string) []string {
	var out []string
	switch goos {
	case "darwin":
		for _, base := range []string{"/", env("HOME")} {
			for _, app := range []string{"Google Chrome", "Chromium", "Google Chrome Beta", "Microsoft Edge", "Brave Browser"} {
				out = append(out, filepath.Join(base, "Applications", app+".app", "Contents", "MacOS", app))
			}
		}
	case "windows":
		for _, name := range []string{`Google\Chrome\Application\chrome.exe`, `Chromium\Application\chrome.exe`, `Microsoft\Edge\Application\msedge.exe`} {
			for _, base := range []string{"PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA"} {
				if dir := env(base); dir != "" {
					out = append(out, dir+`\`+name)
				}
			}
		}
	default:
		out = []string{"chromium", "google-chrome", "google-chrome-stable", "chromium-browser", "/opt/google/chrome/chrome", "microsoft-edge", "brave-browser"}
	}
	return out
}

// probe looks at one file. A script before a browser adds arguments of its own
// (Debian's: extensions), so the browser behind it is run; only a script that
// the owner named, and behind which none is known, is run itself.
func (p *Provider) probe(ctx context.Context, path string, named bool) (program, error) {
	if !filepath.IsAbs(path) {
		return program{}, errors.New("is not named by an absolute path")
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return program{}, errors.New("is not there")
	}
	if filepath.Base(real) == "snap" {
		return program{}, errors.New("is a snap, which may not use a profile of this host")
	}
	script, err := isScript(real)
	if err != nil {
		return program{}, errors.New("cannot be read")
	}
	if script {
		behind, ok := behindScript(real)
		if !ok && !named {
			return program{}, errors.New("is a script, and which browser it starts is not known")
		}
		if ok {
			real = behind
		}
	}
	info, err := os.Stat(real)
	if err != nil || !info.Mode().IsRegular() || runtime.GOOS != "windows" && info.Mode().Perm()&0o111 == 0 {
		return program{}, errors.New("is not a program")
	}
	text, err := p.version(ctx, real, info)
	if err != nil {
		return program{}, err
	}
	name := strings.ReplaceAll(filepath.Base(real), "_", "-")
	return program{path: real, version: text, shell: strings.Contains(name, "headless-shell")}, nil
}

func isScript(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var start [2]byte
	_, err = io.ReadFull(f, start[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return string(start[:]) == "#!", err
}

// behindScript is the browser that a distribution's script starts: beside it as
// Google has it, or in a library directory as Debian, Fedora and Arch do.
func behindScript(script string) (string, bool) {
	dir := filepath.Dir(script)
	name := strings.TrimSuffix(filepath.Base(script), ".sh")
	for _, path := range []string{
		filepath.Join(dir, "chrome"),
		filepath.Join(dir, name),
		filepath.Join(dir, "..", "lib", name, name),
		filepath.Join(dir, "..", "lib64", name, name),
		filepath.Join(dir, "..", "lib", "chromium", name),
	} {
		if path == script {
			continue
		}
		if script, err := isScript(path); err == nil && !script {
			return path, true
		}
	}
	return "", false
}

var versionForm = regexp.MustCompile(`^([A-Za-z][A-Za-z ]{0,40}?) (\d+(?:\.\d+){1,3})\b`)

// version asks the program once for each file that stands at the path.
func (p *Provider) version(ctx context.Context, path string, file fs.FileInfo) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, ok := p.versions[path]; ok && os.SameFile(v.file, file) && v.file.Size() == file.Size() && v.file.ModTime().Equal(file.ModTime()) {
		return v.text, nil
	}
	text, err := askVersion(ctx, path)
	if err != nil {
		return "", err
	}
	p.versions[path] = version{file, text}
	return text, nil
}

// askVersion runs the program for its version. On Windows that would open a
// window; there it is the name of the directory beside it.
func askVersion(ctx context.Context, path string) (string, error) {
	if runtime.GOOS == "windows" {
		return versionBeside(path)
	}
	home, err := os.MkdirTemp("", "browserhost-version-")
	if err != nil {
		return "", errors.New("could not be asked for its version")
	}
	defer os.RemoveAll(home)
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	var out limited
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = environment(os.Environ(), home, false)
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return "", errors.New("does not say its version")
	}
	m := versionForm.FindSubmatch(bytes.TrimSpace(out.b))
	if m == nil {
		return "", errors.New("does not say a version that is known")
	}
	return string(m[1]) + " " + string(m[2]), nil
}

var directoryForm = regexp.MustCompile(`^\d+\.\d+\.\d+\.\d+$`)

func versionBeside(path string) (string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return "", errors.New("cannot be read")
	}
	found := ""
	for _, e := range entries {
		if e.IsDir() && directoryForm.MatchString(e.Name()) {
			found = e.Name() // an update leaves the older one, which sorts before
		}
	}
	if found == "" {
		return "", errors.New("does not say its version")
	}
	return "Chrome " + found, nil
}

// limited keeps the beginning of what is written.
type limited struct{ b []byte }

func (l *limited) Write(p []byte) (int, error) {
	l.b = append(l.b, p[:min(len(p), 256-len(l.b))]...)
	return len(p), nil
}
