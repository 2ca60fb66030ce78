package backendtest

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var updatePosture = flag.Bool("update-posture", false, "write the golden records of postures anew; each difference is to be reviewed")

// goldenDir is where a backend's package has its golden records, a file for each kind of host where the record differs: for the host ids
// of sandboxes ("unique.txt"), or for these and the version of control groups ("unique-v2.txt").
const goldenDir = "testdata/posture"

// golden is a reviewed record: the facts in order, with what was written above them and the ways in which each is to be seen. In the file
// a line is a fact, one that begins with # a word about the fact below it, and one that begins with [..] a fact that is not seen
// always: the names of the ways, or of the kind of box, in which it is. A fact that begins with ? is of some hosts only.
type golden struct {
	facts map[string]*fact
}

// fact is one line of a record.
type fact struct {
	why      []string
	in       []string // ways or kinds of box; nil is always
	optional bool
}

// holds says whether the fact is to be seen in a record.
func (f *fact) holds(r record) bool {
	return f.in == nil || slices.Contains(f.in, r.way) || slices.Contains(f.in, r.variant)
}

// record is what was seen of one box.
type record struct {
	way     string
	variant string // the kind of box, where the backend has several; which one is made may be chance
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

// diff returns what a record lacks and what it has beside the golden one, in lines that begin with - and +.
func (g *golden) diff(r record) []string {
	var lines []string
	for _, line := range g.sorted() {
		if g.facts[line].holds(r) && !slices.Contains(r.lines, line) {
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

// take makes the golden record what was recorded, and keeps what was said of the facts that are still so.
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

// names says which of all records these are: all (nil), those of one kind of box, or those of some ways.
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

// onThisHost leaves out the facts of other hosts. What is seen in one record here must be seen in all that it is said of.
func (g *golden) onThisHost(records []record) {
	for line, f := range g.facts {
		here := func(r record) bool { return slices.Contains(r.lines, line) }
		if f.optional && !slices.ContainsFunc(records, here) {
			delete(g.facts, line)
		}
		f.optional = false
	}
}

// goldenFile is the record of this kind of host: one that is for exactly it, or that of all hosts with the same ids.
func goldenFile(kind string) string {
	file := filepath.Join(goldenDir, kind+".txt")
	if _, err := os.Stat(file); err == nil {
		return file
	}
	return filepath.Join(goldenDir, kind[:strings.LastIndex(kind, "-")]+".txt")
}

// mayDiffer are the ways whose reviewed records may be other than that of a cold box of the same kind.
var mayDiffer = []string{wayFork}

func (r *postures) compare() {
	file := goldenFile(r.kind)
	g, err := readGolden(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Fatal(err)
	}
	if *updatePosture {
		g.take(r.records)
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
			r.Errorf("the posture %s %s is not that of %s (this kind of host: %s; with -update-posture it is written anew, for review):\n%s", record.way,
				record.variant, file, r.kind, strings.Join(lines, "\n"))
		}
	}
}

// mustBeAlike fails where a fact of the golden record is not the same in all boxes of one kind, but for the ways that may differ.
func (r *postures) mustBeAlike(line string, f *fact) {
	r.Helper()
	holds, not := map[string]bool{}, map[string]bool{}
	for _, record := range r.records {
		switch {
		case slices.Contains(mayDiffer, record.way):
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
