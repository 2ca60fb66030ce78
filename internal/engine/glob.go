package engine

import (
	"fmt"
	"path"
	"strings"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// glob is a pattern of paths below the workspace, by element: each as path.Match takes it, or "**" for any number of elements.
type glob []string

// anyDepth is the element that stands for any number of elements, none included.
const anyDepth = "**"

// parseGlobs reads patterns. "dir/" means all below dir; a pattern may begin with "/workspace/".
func parseGlobs(patterns []string) ([]glob, error) {
	var globs []glob
	for i, p := range patterns {
		field := fmt.Sprintf("return_files[%d]", i)
		text := strings.TrimPrefix(p, sandbox.Workspace+"/")
		text = strings.TrimPrefix(text, "./")
		if strings.HasSuffix(text, "/") {
			text += anyDepth
		}
		switch {
		case text == "":
			return nil, sandbox.Invalidf(field, "is empty; ** returns every file")
		case len(p) > MaxGlob:
			return nil, sandbox.Invalidf(field, "is longer than %d bytes", MaxGlob)
		case text[0] == '/':
			return nil, sandbox.Invalidf(field, "%.80q is not below %s", p, sandbox.Workspace)
		}
		var g glob
		for element := range strings.SplitSeq(text, "/") {
			if _, err := path.Match(element, ""); err != nil {
				return nil, sandbox.Invalidf(field, "%.80q is not a pattern", p)
			}
			if element == ".." || element == "." || element == "" {
				return nil, sandbox.Invalidf(field, "%.80q is not a clean pattern", p)
			}
			if element != anyDepth || len(g) == 0 || g[len(g)-1] != anyDepth {
				g = append(g, element)
			}
		}
		globs = append(globs, g)
	}
	return globs, nil
}

func matchAny(globs []glob, name string) bool {
	elements := strings.Split(name, "/")
	for _, g := range globs {
		if g.match(elements) {
			return true
		}
	}
	return false
}

// match compares element by element and, after a mismatch, lets the last "**" take one more element. Only the last one needs
// to be tried again, so the work is bounded by the product of the lengths, whatever the pattern.
func (g glob) match(elements []string) bool {
	at, deep, from := 0, -1, 0 // deep: index in g after the last "**"; from: the first element that it leaves
	for i := 0; i < len(elements) || at < len(g); {
		switch {
		case at < len(g) && g[at] == anyDepth:
			at++
			deep, from = at, i
			continue
		case at < len(g) && i < len(elements):
			if ok, _ := path.Match(g[at], elements[i]); ok {
				at++
				i++
				continue
			}
		}
		if deep < 0 || from >= len(elements) {
			return false
		}
		from++
		at, i = deep, from
	}
	return true
}
