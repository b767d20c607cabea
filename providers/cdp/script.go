package cdp

import (
	"embed"
	"strings"
)

//go:embed walk/*.js
var walkFiles embed.FS

// scriptAt is where the script lives in the isolated world. A page can put a
// name into that world's global object (an element's id), but no symbol.
const scriptAt = `globalThis[Symbol.for("browserhost.walker")]`

// script is the walker's half in the page as one expression. The order is that
// of use: what is below may use what is above.
var script = func() string {
	var b strings.Builder
	b.WriteString("(()=>{\"use strict\";\n")
	for _, name := range []string{"dom", "text", "roles", "values", "names", "fence", "walk", "act", "main"} {
		source, err := walkFiles.ReadFile("walk/" + name + ".js")
		if err != nil {
			panic(err) // not built
		}
		b.Write(source)
	}
	b.WriteString("return api;\n})()")
	return b.String()
}()
