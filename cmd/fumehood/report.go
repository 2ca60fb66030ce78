package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// shownLeftOut limits the lines about skipped files.
const shownLeftOut = 10

// handOut writes the files of a result to --out, and returns those that the sandbox or this host skipped.
func (a *app) handOut(r *sandbox.Result, out *filesOut, dir string) []sandbox.Skipped {
	left := slices.Clone(r.Skipped)
	for _, f := range r.Files {
		if out == nil {
			break
		}
		size := int64(len(f.Data))
		if err := out.write(f); err != nil {
			left = append(left, sandbox.Skipped{Path: f.Path, Size: size, Code: sandbox.SkipUnwritten, Reason: err.Error()})
		} else if a.verbose || isTerminal(a.Stderr) {
			a.note(faint, "wrote %s (%s)", visibleName(filepath.Join(dir, f.Path)), sandbox.FormatBytes(size))
		}
	}
	for i, f := range left {
		if i == shownLeftOut {
			break
		}
		a.warn("%s was left out: %s", visibleName(f.Path), visible(f.Reason))
	}
	if more := len(left) + r.SkippedMore - shownLeftOut; more > 0 {
		a.warn("and %d more were left out", more)
	}
	return left
}

// report prints on stderr which limits were not enforced, the hints, and on a terminal a summary.
func (a *app) report(r *sandbox.Result) {
	if c := r.Compiled; c != nil && !a.json && !a.quiet {
		fmt.Fprint(forTerminal(a.Stderr), answer.Text(c.Stdout), answer.Text(c.Stderr)) // warnings
	}
	a.reportUnenforced(r.Effective.Warnings, r.Effective.Unenforced, r.Requested.Named)
	hints := slices.DeleteFunc(slices.Clone(r.Hints), func(h sandbox.Hint) bool { return h.Code == sandbox.HintSkipped }) // handOut printed them
	if hint := answer.CommandLine.Hint(hints); hint != "" && !a.json && !a.quiet {
		a.say(statusColour(r.Status), "hint: %s", oneLine(hint))
	}
	if a.verbose || isTerminal(a.Stderr) {
		a.note(faint, "%s", summary(r))
	}
	if a.verbose {
		t := r.Timings
		if r.Compiled != nil {
			a.note(faint, "compile %s", ms(r.Compiled.Duration))
		}
		a.note(faint, "create %s, upload %s, run %s, files %s", ms(t.Create), ms(t.Upload), ms(t.Run), ms(t.Files))
		a.reportIsolation(r)
	}
}

// reportUnenforced prints what a sandbox goes without. What the configuration waives for all is reported only where this one named the
// limit; the JSON answer has it always.
func (a *app) reportUnenforced(warnings, unenforced []string, named []sandbox.LimitName) {
	for _, w := range warnings {
		a.warn("%s", visible(w))
	}
	standing := slices.Contains(a.configured, "allow-unenforced") && !a.verbose
	waived := slices.DeleteFunc(slices.Clone(unenforced), func(name string) bool {
		return standing && !slices.Contains(named, sandbox.LimitName(name))
	})
	if len(waived) > 0 {
		a.warn("not enforced on this host, as allowed: %s", visible(strings.Join(waived, ", ")))
	}
}

// reportIsolation prints the isolation layers, the enforced limits, and where less was enforced than requested.
func (a *app) reportIsolation(r *sandbox.Result) {
	p := &r.Effective
	byState := map[sandbox.WallState][]string{}
	for _, w := range p.Walls {
		byState[w.State] = append(byState[w.State], w.Name)
	}
	for _, s := range []struct {
		state sandbox.WallState
		words string
	}{{sandbox.WallEnforced, "enforced"}, {sandbox.WallPartial, "partial"}, {sandbox.WallMissing, "missing"}} {
		if names := byState[s.state]; len(names) > 0 {
			a.note(faint, "%s: %s", s.words, strings.Join(names, ", "))
		}
	}
	if p.Image != "" {
		a.note(faint, "image: %s", visible(p.Image))
	}
	var limits []string
	for _, name := range sandbox.LimitNames {
		limits = append(limits, string(name)+" "+sandbox.FormatLimit(name, p.Limits.Get(name)))
	}
	a.note(faint, "limits: %s", strings.Join(limits, ", "))
	for _, d := range r.Differences() {
		a.note(faint, "%s: requested %s, enforced %s", d.Name, d.Asked, d.Enforced)
	}
}

// summary is one line: status, resource usage and backend.
func summary(r *sandbox.Result) string {
	parts := []string{string(r.Status)}
	switch {
	case r.Signal > 0:
		parts[0] += fmt.Sprintf(" (signal %d)", r.Signal)
	case r.ExitCode > 0:
		parts[0] += fmt.Sprintf(" (exit code %d)", r.ExitCode)
	}
	parts = append(parts, ms(r.Usage.Wall))
	if r.Usage.CPU >= 0 {
		parts = append(parts, ms(r.Usage.CPU)+" of CPU")
	}
	if r.Usage.MemoryPeak > 0 {
		parts = append(parts, sandbox.FormatBytes(r.Usage.MemoryPeak)+" at most")
	}
	if p := r.Effective; p.Backend != "" {
		parts = append(parts, fmt.Sprintf("%s (%s kernel)", p.Backend, p.Kernel))
	}
	return strings.Join(parts, ", ")
}

func statusColour(s sandbox.Status) colour {
	if s == sandbox.StatusSucceeded {
		return yellow // there is a hint to read
	}
	return red
}

// ms renders a duration for people.
func ms(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
