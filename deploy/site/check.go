package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/net/html"
)

// check reads the pages as a browser does, and reports links to pages and anchors that do not exist.
func (s *site) check() error {
	anchors, links := map[string]bool{}, map[string]string{}
	for _, p := range s.pages {
		name := file(p.name)
		content, err := os.ReadFile(filepath.Join(s.out, name))
		if err != nil {
			return err
		}
		anchors[name] = true
		parsed, err := html.Parse(bytes.NewReader(content))
		if err != nil {
			return err
		}
		for n := range parsed.Descendants() {
			for _, a := range n.Attr {
				switch {
				case a.Key == "id":
					anchors[name+"#"+a.Val] = true
				case a.Key == "href" && strings.HasPrefix(a.Val, "#"):
					links[name+a.Val] = p.source
				case a.Key == "href" && !strings.Contains(a.Val, ":") && strings.Contains(a.Val, ".html"):
					links[a.Val] = p.source
				}
			}
		}
	}
	var errs []error
	for to, from := range links {
		if !anchors[to] {
			errs = append(errs, fmt.Errorf("%s: there is no %s", from, to))
		}
	}
	return errors.Join(errs...)
}
