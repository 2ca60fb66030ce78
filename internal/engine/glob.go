package engine

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// glob is a pattern of paths below the workspace, by element.
type glob []element

// element is a pattern of one element of a path, as path.Match takes it, or "**" for any number of elements.
type element struct {
	pattern        string
	plain          bool   // no character of it is special
	prefix, suffix string // what every match begins and ends with: most names fail by them, at next to no cost
}

// anyDepth is the element that stands for any number of elements, none included.
const anyDepth = "**"

func newElement(pattern string) element {
	first := strings.IndexAny(pattern, `*?[\`)
	if first < 0 {
		return element{pattern: pattern, plain: true}
	}
	e := element{pattern: pattern, prefix: pattern[:first]}
	last := pattern[strings.LastIndexByte(pattern, '*')+1:]
	if !strings.ContainsAny(last, `?[]\`) { // with a "]" the star may be one of a class
		e.suffix = last
	}
	return e
}

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
			if element != anyDepth || len(g) == 0 || g[len(g)-1].pattern != anyDepth {
				g = append(g, newElement(element))
			}
		}
		globs = append(globs, g)
	}
	return globs, nil
}

// maxMatchSteps bounds the work of matching the paths of one execution. The patterns are a client's and the paths a hostile program's: 64
// long patterns against 100,000 long paths would take hours. A step takes 2 to 10 ns, so all of them take half a second at the most.
const maxMatchSteps = 50_000_000

// matcher matches paths against globs within a budget of steps.
type matcher struct {
	globs    []glob
	hit      []bool   // globs that have matched
	left     int      // steps; none are left below 0, and matches then says no
	elements []string // of the path at hand; kept for its room
}

func newMatcher(globs []glob) matcher {
	return matcher{globs: globs, hit: make([]bool, len(globs)), left: maxMatchSteps}
}

func (m *matcher) exhausted() bool { return m.left < 0 }

// matches says whether any of the globs matches a path. Those that never did are tried to the last, so that the caller can be told.
func (m *matcher) matches(name string) bool {
	m.elements = slices.AppendSeq(m.elements[:0], strings.SplitSeq(name, "/"))
	matched := false
	for i, g := range m.globs {
		if (!matched || !m.hit[i]) && m.matchOne(g, m.elements) {
			matched, m.hit[i] = true, true
		}
	}
	return matched
}

// matchOne compares element by element and, after a mismatch, lets the last "**" take one more element. Only the last one needs
// to be tried again, so the work is bounded by the product of the lengths, whatever the pattern.
func (m *matcher) matchOne(g glob, elements []string) bool {
	at, deep, from := 0, -1, 0 // deep: index in g after the last "**"; from: the first element that it leaves
	for i := 0; i < len(elements) || at < len(g); {
		if m.left--; m.exhausted() {
			return false
		}
		switch {
		case at < len(g) && g[at].pattern == anyDepth:
			at++
			if at == len(g) {
				return true
			}
			deep, from = at, i
			continue
		case at < len(g) && i < len(elements) && m.matchElement(&g[at], elements[i]):
			at++
			i++
			continue
		}
		if deep < 0 || from >= len(elements) {
			return false
		}
		from++
		at, i = deep, from
	}
	return true
}

func (m *matcher) matchElement(e *element, name string) bool {
	if e.plain {
		return e.pattern == name
	}
	if !strings.HasPrefix(name, e.prefix) || !strings.HasSuffix(name, e.suffix) {
		return false
	}
	// path.Match tries what stands between two stars at each place of the name, each time to its end.
	if m.left -= len(e.pattern) * len(name); m.exhausted() {
		return false
	}
	matched, _ := path.Match(e.pattern, name)
	return matched
}
