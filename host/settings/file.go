package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"go.yaml.in/yaml/v4"
)

// FileName is the file's name in the home directory.
const FileName = "config.yaml"

// maxFile bounds the file. Every key with a long value fits many times.
const maxFile = 64 << 10

// entry is one value of the file and its line.
type entry struct {
	text string
	line int
}

// readFile reads the file; one that does not exist sets nothing. A file that
// someone else may write decides nothing about this host, so it is refused.
func readFile(path string) (map[string]entry, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	if writableByOthers(info) {
		return nil, fmt.Errorf("%s may be written by other users (mode %04o); make it 0600", path, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	return parse(data)
}

// parse reads the content of the file: a mapping of mappings whose leaves are
// single values of known keys, each set once.
func parse(data []byte) (map[string]entry, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: it is larger than %d bytes", FileName, maxFile)
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var doc, second yaml.Node
	if err := loader.Load(&doc); err == io.EOF {
		return nil, nil // empty, or nothing but comments
	} else if err != nil {
		return nil, fmt.Errorf("%s: it is not YAML: %w", FileName, err)
	}
	if err := loader.Load(&second); err != io.EOF {
		return nil, fmt.Errorf("%s: it has more than one document", FileName)
	}
	found := map[string]entry{}
	if len(doc.Content) != 1 {
		return nil, fmt.Errorf("%s: it is not a mapping", FileName)
	}
	if top := doc.Content[0]; top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return nil, nil
	}
	return found, collect(found, "", doc.Content[0])
}

// collect puts the leaves below n into found, under their dotted names.
func collect(found map[string]entry, prefix string, n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return at(n, strings.TrimSuffix(prefix, "."), "is not a mapping")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		name := prefix + k.Value
		switch {
		case k.Kind != yaml.ScalarNode || strings.Contains(k.Value, ".") || !known(name):
			return at(k, name, "is not a setting")
		case find(name) == nil:
			if err := collect(found, name+".", v); err != nil {
				return err
			}
		case v.Kind != yaml.ScalarNode || v.Tag == "!!null":
			return at(v, name, "is not a single value")
		default:
			if _, twice := found[name]; twice {
				return at(k, name, "is set twice")
			}
			found[name] = entry{text: v.Value, line: k.Line}
		}
	}
	return nil
}

// known reports whether name is a key or the beginning of one.
func known(name string) bool {
	for _, k := range keys {
		if k.name == name || strings.HasPrefix(k.name, name+".") {
			return true
		}
	}
	return false
}

func at(n *yaml.Node, name, what string) error {
	if name == "" {
		name = "the file"
	}
	return fmt.Errorf("%s:%d: %s %s", FileName, n.Line, clip(name), what)
}
