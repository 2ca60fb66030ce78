package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Globs are patterns of paths below the workspace.
type Globs []glob

// glob is a pattern by element.
type glob []element

// element is a pattern of one path element for path.Match, or "**" for any number of elements.
type element struct {
	pattern        string
	plain          bool   // without special characters
	prefix, suffix string // of every match: a cheap test that most names fail
}

// anyDepth matches any number of elements, also none.
const anyDepth = "**"

func newElement(pattern string) element {
	first := strings.IndexAny(pattern, `*?[\`)
	if first < 0 {
		return element{pattern: pattern, plain: true}
	}
	e := element{pattern: pattern, prefix: pattern[:first]}
	last := pattern[strings.LastIndexByte(pattern, '*')+1:]
	if !strings.ContainsAny(last, `?[]\`) { // with a "]", the star may be in a class
		e.suffix = last
	}
	return e
}

// parseGlobs parses patterns. "dir/" means all below dir; a pattern may begin with "/workspace/".
func parseGlobs(patterns []string) (Globs, error) {
	var globs Globs
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

// maxMatchSteps limits the work of matching the paths of one run: 64 long patterns of a client against 100,000 long
// paths of a hostile program would take hours. A step takes 2 to 10 ns, so all of them take at most half a second.
const maxMatchSteps = 50_000_000

// Matcher matches paths against globs within a budget of steps.
type Matcher struct {
	globs    Globs
	hit      []bool   // globs that have matched
	left     int      // steps; below 0, nothing matches
	elements []string // of the current path; kept to reuse its memory
}

// Matcher returns a matcher with a full budget.
func (g Globs) Matcher() Matcher {
	return Matcher{globs: g, hit: make([]bool, len(g)), left: maxMatchSteps}
}

// Exhausted reports whether the budget is used up.
func (m *Matcher) Exhausted() bool { return m.left < 0 }

// Hit reports whether the i-th glob has matched, and whether it matches every path.
func (m *Matcher) Hit(i int) (hit, all bool) {
	g := m.globs[i]
	return m.hit[i], len(g) == 1 && g[0].pattern == anyDepth
}

// Matches reports whether any glob matches a path. It also tries all globs that never matched, for a hint about those.
func (m *Matcher) Matches(name string) bool {
	m.elements = slices.AppendSeq(m.elements[:0], strings.SplitSeq(name, "/"))
	matched := false
	for i, g := range m.globs {
		if (!matched || !m.hit[i]) && m.matchOne(g, m.elements) {
			matched, m.hit[i] = true, true
		}
	}
	return matched
}

// matchOne compares element by element. After a mismatch, the last "**" takes one more element. Only the last one is
// tried again, so the work is at most the product of the lengths.
func (m *Matcher) matchOne(g glob, elements []string) bool {
	at, deep, from := 0, -1, 0 // deep: index in g after the last "**"; from: the first element that it leaves
	for i := 0; i < len(elements) || at < len(g); {
		if m.left--; m.Exhausted() {
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

func (m *Matcher) matchElement(e *element, name string) bool {
	if e.plain {
		return e.pattern == name
	}
	if !strings.HasPrefix(name, e.prefix) || !strings.HasSuffix(name, e.suffix) {
		return false
	}
	// path.Match tries what is between two stars at each position of the name.
	if m.left -= len(e.pattern) * len(name); m.Exhausted() {
		return false
	}
	matched, _ := path.Match(e.pattern, name)
	return matched
}
