package backendtest

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var updatePosture = flag.Bool("update-posture", false, "rewrite the golden posture records; review each difference")

// goldenDir is the folder of a backend package's golden records, a file per kind of host with a different record: by
// the sandboxes' host ids ("unique.txt"), or these and the cgroup version ("unique-v2.txt").
const goldenDir = "testdata/posture"

// golden is a reviewed record: facts in order, each with its comments and the ways in which it holds. In the file each
// line is a fact, a comment on the fact below it (#), or a fact that does not always hold ([..], with the names of ways
// or kinds of box). A fact that begins with ? holds on some hosts only.
type golden struct {
	facts map[string]*fact
}

// fact is one line of a record.
type fact struct {
	why      []string
	in       []string // ways or kinds of box; nil is always
	optional bool
}

// holds reports whether a record must contain the fact.
func (f *fact) holds(r record) bool {
	way := strings.TrimPrefix(r.way, onImage)
	return f.in == nil || slices.Contains(f.in, way) || slices.Contains(f.in, r.variant)
}

// ofHostRoot matches what a sandbox shows and hides of the host's own root below /etc and /usr.
var ofHostRoot = regexp.MustCompile(`^inside: (file|mount) /(etc|usr)/`)

// mayLack reports whether a record need not contain a fact that holds: an image has other optional files than the host.
func (f *fact) mayLack(r record, line string) bool {
	return strings.HasPrefix(r.way, onImage) && f.optional && ofHostRoot.MatchString(line)
}

// record is the facts of one box.
type record struct {
	way     string
	variant string // the kind of box, if the backend has several; it may be random
	lines   []string
}

func readGolden(file string) (*golden, error) {
	g := &golden{facts: map[string]*fact{}}
	text, err := os.ReadFile(file)
	if err != nil {
		return g, err
	}
	var why []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			why = append(why, line)
			continue
		}
		f := &fact{why: why}
		why = nil
		if rest, ok := strings.CutPrefix(line, "? "); ok {
			f.optional, line = true, rest
		}
		if rest, ok := strings.CutPrefix(line, "["); ok {
			ways, fact, _ := strings.Cut(rest, "] ")
			f.in, line = strings.Fields(ways), fact
		}
		g.facts[line] = f
	}
	return g, nil
}

func (g *golden) write(file string) error {
	var b strings.Builder
	for _, line := range g.sorted() {
		f := g.facts[line]
		for _, w := range f.why {
			b.WriteString(w + "\n")
		}
		if f.optional {
			b.WriteString("? ")
		}
		if f.in != nil {
			b.WriteString("[" + strings.Join(f.in, " ") + "] ")
		}
		b.WriteString(line + "\n")
	}
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(b.String()), 0o644))
}

func (g *golden) sorted() []string {
	lines := make([]string, 0, len(g.facts))
	for line := range g.facts {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// diff returns missing and additional facts compared with the golden record, in lines that begin with - and +.
func (g *golden) diff(r record) []string {
	var lines []string
	for _, line := range g.sorted() {
		f := g.facts[line]
		if f.holds(r) && !f.mayLack(r, line) && !slices.Contains(r.lines, line) {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range r.lines {
		if f := g.facts[line]; f == nil || !f.holds(r) {
			lines = append(lines, "+ "+line)
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	return lines
}

// take replaces the golden record's facts, and keeps the comments on facts that still hold.
func (g *golden) take(records []record) {
	seen := map[string][]record{}
	for _, r := range records {
		for _, line := range r.lines {
			seen[line] = append(seen[line], r)
		}
	}
	for line, f := range g.facts {
		if seen[line] == nil && !f.optional {
			delete(g.facts, line)
		}
	}
	for line, in := range seen {
		if g.facts[line] == nil {
			g.facts[line] = &fact{}
		}
		g.facts[line].in = names(in, records)
	}
}

// names describes a selection of all records: all (nil), those of one kind of box, or those of some ways.
func names(some, all []record) []string {
	if len(some) == len(all) {
		return nil
	}
	variant := func(r record) bool { return r.variant != "" && r.variant == some[0].variant }
	if others := func(r record) bool { return !variant(r) }; !slices.ContainsFunc(some, others) {
		count := 0
		for _, r := range all {
			if variant(r) {
				count++
			}
		}
		if count == len(some) {
			return []string{some[0].variant}
		}
	}
	var ways []string
	for _, r := range some {
		ways = append(ways, r.way)
	}
	slices.Sort(ways)
	return ways
}

// onThisHost drops facts of other hosts. A fact that one record has here must be in all records to which it applies.
func (g *golden) onThisHost(records []record) {
	for line, f := range g.facts {
		here := func(r record) bool { return slices.Contains(r.lines, line) }
		if f.optional && !slices.ContainsFunc(records, here) {
			delete(g.facts, line)
		}
	}
}

// goldenFile is the record of this kind of host: an exact match, or else that of all hosts with the same ids.
func goldenFile(kind string) string {
	file := filepath.Join(goldenDir, kind+".txt")
	if _, err := os.Stat(file); err == nil {
		return file
	}
	return filepath.Join(goldenDir, kind[:strings.LastIndex(kind, "-")]+".txt")
}

// mayDiffer are the ways whose reviewed records may differ from a cold box of the same kind.
var mayDiffer = []string{wayFork, wayParked}

func (r *postures) compare() {
	file := goldenFile(r.kind)
	g, err := readGolden(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Fatal(err)
	}
	if *updatePosture {
		g.take(slices.DeleteFunc(slices.Clone(r.records), func(r record) bool {
			return strings.HasPrefix(r.way, onImage)
		}))
		if err := g.write(file); err != nil {
			r.Fatal(err)
		}
	}
	g.onThisHost(r.records)
	for _, line := range g.sorted() {
		r.mustBeAlike(line, g.facts[line])
	}
	for _, record := range r.records {
		if lines := g.diff(record); len(lines) > 0 {
			r.Errorf("the posture %s %s differs from %s (kind of host: %s; -update-posture rewrites it):\n%s",
				record.way,
				record.variant, file, r.kind, strings.Join(lines, "\n"))
		}
	}
}

// mustBeAlike fails if a golden fact differs between boxes of one kind, except in the ways that may differ.
func (r *postures) mustBeAlike(line string, f *fact) {
	r.Helper()
	holds, not := map[string]bool{}, map[string]bool{}
	for _, record := range r.records {
		switch {
		case slices.Contains(mayDiffer, strings.TrimPrefix(record.way, onImage)):
		case f.holds(record):
			holds[record.variant] = true
		default:
			not[record.variant] = true
		}
	}
	for variant := range holds {
		if not[variant] {
			r.Errorf("this must be so in every way or in none, and is only %v: %s", f.in, line)
		}
	}
}
