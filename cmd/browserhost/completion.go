package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (c *completionCmd) Run(cli *program, model *kong.Application) error {
	return writeCompletion(cli.out, c.Shell, model)
}

// words are what may follow a command: its sub-commands and its flags.
type words struct {
	path  string // "browserhost devices"
	next  []string
	flags []string
}

func collect(node *kong.Node, path string, into []words) []words {
	w := words{path: path}
	for _, child := range node.Children {
		if !child.Hidden {
			w.next = append(w.next, child.Name)
		}
	}
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			w.flags = append(w.flags, "--"+flag.Name)
		}
	}
	into = append(into, w)
	for _, child := range node.Children {
		if !child.Hidden {
			into = collect(child, path+" "+child.Name, into)
		}
	}
	return into
}

// writeCompletion writes a completion script made from the commands
// themselves, so that it can never disagree with them.
func writeCompletion(out io.Writer, shell string, model *kong.Application) error {
	all := collect(model.Node, model.Name, nil)
	var b strings.Builder
	switch shell {
	case "fish":
		for _, w := range all {
			seen := strings.Fields(w.path)[1:]
			cond := "__fish_use_subcommand"
			if len(seen) > 0 {
				cond = "__fish_seen_subcommand_from " + seen[len(seen)-1]
			}
			for _, n := range w.next {
				fmt.Fprintf(&b, "complete -c %s -f -n '%s' -a %s\n", model.Name, cond, n)
			}
			for _, f := range w.flags {
				fmt.Fprintf(&b, "complete -c %s -n '%s' -l %s\n", model.Name, cond, strings.TrimPrefix(f, "--"))
			}
		}
	default:
		if shell == "zsh" {
			b.WriteString("autoload -U +X bashcompinit && bashcompinit\n")
		}
		fmt.Fprintf(&b, "_%s() {\n  local cur=${COMP_WORDS[COMP_CWORD]} path=%s w\n", model.Name, model.Name)
		b.WriteString("  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do case \"$path $w\" in\n")
		for _, w := range all[1:] {
			fmt.Fprintf(&b, "    %q) path=%q;;\n", w.path, w.path)
		}
		b.WriteString("  esac; done\n  case \"$path\" in\n")
		for _, w := range all {
			fmt.Fprintf(&b, "    %q) COMPREPLY=($(compgen -W %q -- \"$cur\"));;\n", w.path, strings.Join(append(w.next, w.flags...), " "))
		}
		fmt.Fprintf(&b, "  esac\n}\ncomplete -o default -F _%s %s\n", model.Name, model.Name)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
