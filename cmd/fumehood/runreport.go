package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const maxSkippedNotes = 10

// destination is the folder of --out, for returned files and results. Without --out it is zero.
type destination struct {
	dir    string
	out    *hostfiles.Output
	strict bool // a skipped file fails the command
}

// openDestination makes the folder of --out.
func (a *app) openDestination(dir string, overwrite bool) (to destination, err error) {
	if to.dir = dir; dir != "" {
		to.out, err = a.host().OpenOutput(dir, overwrite)
	}
	return to, err
}

func (d destination) close() {
	if d.out != nil {
		d.out.Close()
	}
}

// runEnd is the end of a run, in a fresh or in a living sandbox.
type runEnd struct {
	result *sandbox.Result
	answer func(skipped []sandbox.Skipped) any // the answer with --json
	hint   string
	checks bool  // the user requested checks
	failed bool  // a result was not saved
	err    error // of passing the output on
}

// finish saves the files, reports the end and returns the exit code as an error.
func (a *app) finish(end *runEnd, to destination) error {
	skipped := a.saveFiles(end.result, to)
	if a.json {
		end.err = a.printJSON(end.answer(skipped))
	}
	if errors.Is(end.err, errReaderGone) {
		return exitError(exitCanceled)
	}
	a.reportEnd(end)
	if end.err != nil {
		return end.err
	}
	code := exitCodeOf(end.result)
	if end.failed || to.strict && len(skipped) > 0 {
		code = cmp.Or(code, exitFailure)
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}

// saveFiles writes the files of a result to --out, and returns those that the sandbox or this host skipped.
func (a *app) saveFiles(r *sandbox.Result, to destination) []sandbox.Skipped {
	skipped := slices.Clone(r.Skipped)
	for _, f := range r.Files {
		if to.out == nil {
			break
		}
		if err := to.out.Write(f); err != nil {
			skipped = append(skipped, sandbox.Skipped{Path: f.Path, Size: int64(len(f.Data)),
				Code: sandbox.SkipUnwritten, Reason: err.Error()})
		} else {
			a.noteWritten(filepath.Join(to.dir, f.Path), len(f.Data))
		}
	}
	for _, f := range skipped[:min(len(skipped), maxSkippedNotes)] {
		a.warn("%s was left out: %s", terminal.VisibleName(f.Path), terminal.Visible(f.Reason))
	}
	if more := len(skipped) + r.SkippedMore - maxSkippedNotes; more > 0 {
		a.warn("and %d more were left out", more)
	}
	return skipped
}

func (a *app) noteWritten(path string, size int) {
	if a.chatty() {
		a.note(terminal.Faint, "wrote %s (%s)", terminal.VisibleName(path), sandbox.FormatBytes(int64(size)))
	}
}

// chatty reports whether to print notes that a program which reads stderr does not need.
func (a *app) chatty() bool { return a.verbose || terminal.Is(a.Stderr) }

// reportEnd prints on stderr the findings of the checks, the warnings of the compiler, unenforced limits, the hint, and
// on a terminal a summary.
func (a *app) reportEnd(end *runEnd) {
	r := end.result
	a.reportFindings(r.Findings, r.Status, end.checks)
	if c := r.Compiled; c != nil && !a.json && !a.quiet {
		fmt.Fprint(terminal.Sanitize(a.Stderr), answer.Text(c.Stdout), answer.Text(c.Stderr))
	}
	a.reportUnenforced(r.Effective.Warnings, r.Effective.Unenforced, r.Requested.Named)
	if end.hint != "" && !a.json && !a.quiet {
		colour := terminal.Red
		if r.Status == sandbox.StatusSucceeded {
			colour = terminal.Yellow
		}
		a.say(colour, "hint: %s", terminal.OneLine(end.hint))
	}
	if a.chatty() {
		a.note(terminal.Faint, "%s", summary(r))
	}
	if !a.verbose || r.Effective.Backend == "" { // a server reports no more about a run in a living sandbox
		return
	}
	if r.Compiled != nil {
		a.note(terminal.Faint, "compile %s", ms(r.Compiled.Duration))
	}
	t := r.Timings
	a.note(terminal.Faint, "create %s, upload %s, run %s, files %s", ms(t.Create), ms(t.Upload), ms(t.Run), ms(t.Files))
	a.reportIsolation(r)
}

// reportUnenforced prints the limits that a sandbox lacks. If the configuration waives a limit for all runs, it is
// reported only when this run named it. Who has waived one knows this host: with --verbose alone, the warnings of the
// others follow. The JSON answer always has all.
func (a *app) reportUnenforced(warnings, unenforced []string, named []sandbox.LimitName) {
	if len(unenforced) == 0 || a.verbose {
		for _, w := range warnings {
			a.warn("%s", terminal.Visible(w))
		}
	}
	silent := a.settings.Configured("allow-unenforced") && !a.verbose
	waived := slices.DeleteFunc(slices.Clone(unenforced), func(name string) bool {
		return silent && !slices.Contains(named, sandbox.LimitName(name))
	})
	if len(waived) > 0 {
		a.warn("not enforced on this host, as allowed: %s", terminal.Visible(strings.Join(waived, ", ")))
	}
}

// reportIsolation prints the isolation layers, the enforced limits, and each difference from the request.
func (a *app) reportIsolation(r *sandbox.Result) {
	p := &r.Effective
	layers := map[sandbox.WallState][]string{}
	for _, w := range p.Walls {
		layers[w.State] = append(layers[w.State], w.Name)
	}
	for _, state := range []sandbox.WallState{sandbox.WallEnforced, sandbox.WallPartial, sandbox.WallMissing} {
		if names := layers[state]; len(names) > 0 {
			a.note(terminal.Faint, "%s: %s", state, strings.Join(names, ", "))
		}
	}
	if p.Image != "" {
		a.note(terminal.Faint, "image: %s", terminal.Visible(p.Image))
	}
	var limits []string
	for _, name := range sandbox.LimitNames {
		limits = append(limits, string(name)+" "+sandbox.FormatLimit(name, p.Limits.Get(name)))
	}
	a.note(terminal.Faint, "limits: %s", strings.Join(limits, ", "))
	for _, d := range r.Differences() {
		a.note(terminal.Faint, "%s: requested %s, enforced %s", d.Name, d.Requested, d.Effective)
	}
}

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

// exitCodeOf returns the program's exit code, or the one for how it was ended.
func exitCodeOf(r *sandbox.Result) int {
	switch r.Status {
	case sandbox.StatusSucceeded:
		return 0
	case sandbox.StatusFailed, sandbox.StatusKilled:
		switch {
		case r.ExitCode > 0:
			return r.ExitCode
		case r.Signal > 0: // also SIGINT, as of an uncaught KeyboardInterrupt
			return 128 + r.Signal // as in a shell
		case r.Status == sandbox.StatusKilled:
			return exitKilled
		}
		return 1
	case sandbox.StatusTimeout:
		return exitTimeout
	case sandbox.StatusRejected:
		return exitRejected
	case sandbox.StatusCanceled:
		return exitCanceled
	case sandbox.StatusOutOfMemory, sandbox.StatusOutputLimit:
		return exitKilled
	}
	return exitFailure // lost
}

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
