// Command site makes the documentation site: one static folder from README.md, docs/ and the other Markdown files of the
// root. It works from a folder without a server, searches without a network, and needs no script for anything else.
// `make site` calls it in the folder deploy.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	source := flag.String("source", "..", "`DIR` of the repository")
	out := flag.String("out", "", "`DIR` for the site")
	version := flag.String("version", "", "`VERSION` that the pages describe")
	flag.Parse()
	s := site{source: *source, out: *out, version: *version}
	if err := errors.Join(s.make(), s.check()); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s\n", len(s.pages), *out)
}
