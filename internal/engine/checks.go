package engine

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/fumehood-dev/fumehood/internal/diagnose"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Checks look at source text before it runs. They give advice; no isolation depends on them.
type Checks struct {
	// Find returns the findings in a text of a language; nil finds nothing.
	Find func(language string, code []byte) []sandbox.Finding
	// Mode is that of requests that name none, and the least of any; "" is sandbox.ChecksWarn, and no least.
	Mode sandbox.CheckMode
}

// Bounds of one run.
const (
	// bytes of its code and files; what lies beyond is not checked, and refused where checks are enforced
	maxChecked      = 4 << 20
	freeChecked     = 4 << 10  // bytes that are checked at once: they take less than a millisecond
	briefChecked    = 64 << 10 // bytes that do not wait for longer texts and for tools: they take some milliseconds
	maxAllFindings  = 100
	maxShownRefusal = 10 // findings on stderr
)

// checked is the result of the checks of a run.
type checked struct {
	mode     sandbox.CheckMode
	findings []sandbox.Finding
	bytes    int
}

func rank(mode sandbox.CheckMode) int { return slices.Index(sandbox.CheckModes, mode) }

// reported returns the findings for the answer. If neither the request nor the operator asked for checks, those that
// refuse no code are left out, as ordinary programs have them.
func (j *job) reported(c *Checks) []sandbox.Finding {
	if j.Request.Checks != "" || c.Mode != "" {
		return j.checked.findings
	}
	return slices.DeleteFunc(slices.Clone(j.checked.findings), func(f sandbox.Finding) bool { return !f.Refuses })
}

// modeOf returns the mode of a request: never weaker than the operator's.
func (c *Checks) modeOf(asked sandbox.CheckMode) (sandbox.CheckMode, error) {
	mode := asked
	switch {
	case asked == "" && c.Mode == "":
		return sandbox.ChecksWarn, nil
	case asked == "":
		return c.Mode, nil
	case rank(asked) < 0:
		err := sandbox.Invalidf("checks", "%.40q is not one of off, warn, enforce", asked)
		if near := nearest.Name(string(asked), []string{"off", "warn", "enforce"}); near != "" {
			err.Fix = "did you mean " + near + "?"
		}
		return "", err
	}
	if rank(mode) < rank(c.Mode) {
		mode = c.Mode
	}
	return mode, nil
}

// checkTurns are those of checks of long texts and of tools, and those of shorter texts.
type checkTurns struct{ long, brief *admission }

// inTurn calls check, which checks so many bytes. If they are many, it waits until it is the owner's turn: at a time,
// half of the CPUs check texts, as each step of other runs would wait behind them. Texts up to briefChecked have other
// turns. An error may be that of ctx.
func (e *Engine) inTurn(ctx context.Context, owner string, bytes int, check func() error) error {
	if bytes > freeChecked {
		turns := e.checking.long
		if bytes <= briefChecked {
			turns = e.checking.brief
		}
		if err := turns.acquire(ctx, owner, func() {}); err != nil {
			return err
		}
		started := time.Now()
		defer func() { turns.release(owner, time.Since(started)) }() // also when something panics
	}
	return check()
}

// planInTurn calls plan, in turn if it checks tools, which may take a good part of a second.
func (e *Engine) planInTurn(ctx context.Context, owner string, tools []sandbox.Tool, plan func() error) error {
	bytes := 0
	if len(tools) > 0 {
		bytes = maxChecked
	}
	return e.inTurn(ctx, owner, bytes, plan)
}

// inspect checks what a job brings. An error may be that of ctx.
func (e *Engine) inspect(ctx context.Context, owner string, j *job) error {
	var err error
	if j.checked.mode, err = e.config.Checks.modeOf(j.Request.Checks); err != nil ||
		j.checked.mode == sandbox.ChecksOff || e.config.Checks.Find == nil {
		return err
	}
	return e.inTurn(ctx, owner, j.checkable(), func() error {
		e.lookAtAll(j)
		return nil
	})
}

// checkable returns how many bytes lookAtAll may look at.
func (j *job) checkable() int {
	n := len(j.Request.Code)
	for _, f := range j.Request.Files {
		n += len(f.Data)
	}
	for _, word := range j.Request.Command {
		n += len(word)
	}
	return n
}

// lookAtAll checks the code of a job, its files by their extensions, and the code in a command line.
func (e *Engine) lookAtAll(j *job) {
	if j.Language != nil && len(j.Request.Code) > 0 {
		e.look(j, "", j.Language, j.Request.Code)
	}
	for _, f := range j.Request.Files {
		if l, ok := e.LanguageOf(path.Base(f.Path)); ok {
			e.look(j, f.Path, &l, f.Data)
		}
	}
	if code, l, ok := e.codeOf(j.Request.Command); ok {
		e.look(j, "", &l, []byte(code))
	}
}

// codeOf finds code in a command such as "bash -c CODE".
func (e *Engine) codeOf(command []string) (code string, l sandbox.Language, ok bool) {
	if len(command) < 3 {
		return "", l, false
	}
	program := path.Base(command[0])
	for _, l := range e.config.Languages {
		if !slices.Contains(l.Programs, program) && !slices.Contains(l.Aliases, program) {
			continue
		}
		for i, word := range command[1 : len(command)-1] {
			if word == "-c" || word == "-e" || word == "-lc" {
				return command[i+2], l, true
			}
		}
	}
	return "", l, false
}

// look checks one text.
func (e *Engine) look(j *job, file string, l *sandbox.Language, text []byte) {
	c := &j.checked
	found := []sandbox.Finding{{Rule: "unchecked", Line: 1, Column: 1, Message: "there is too much text to check",
		Advice: "Send less, or turn the checks off.", Refuses: true}}
	if c.bytes += len(text); c.bytes <= maxChecked {
		found = e.config.Checks.Find(l.Name, text)
	}
	for _, f := range found {
		f.File = file
		if len(c.findings) < maxAllFindings {
			c.findings = append(c.findings, f)
		} else if f.Refuses && !j.refused() { // no number of others hides one that refuses
			c.findings[maxAllFindings-1] = f
		}
	}
}

// lookAtEntry checks a file that was in the sandbox already, and that the host sees only through the guest.
func (x *Run) lookAtEntry(ctx context.Context) error {
	entry := x.Request.Entry
	if entry == "" || x.checked.mode == sandbox.ChecksOff || x.resumed != nil ||
		x.sandbox.engine.config.Checks.Find == nil ||
		slices.ContainsFunc(x.Request.Files, func(f sandbox.File) bool { return f.Path == entry }) {
		return nil
	}
	var text bytes.Buffer
	err := x.sandbox.call(ctx, func(c *client.Client) error {
		text.Reset()
		_, err := c.ReadFile(ctx, guest.ReadFile{Path: x.CodePath, Length: maxChecked + 1}, &text)
		return err
	})
	if err != nil { // the interpreter reports the reason, in its own words
		return nil
	}
	e := x.sandbox.engine
	return e.inTurn(ctx, x.sandbox.owner, text.Len(), func() error {
		e.look(&x.job, entry, x.Language, text.Bytes())
		return nil
	})
}

// forbidden reports whether the checks refuse the run.
func (j *job) forbidden() bool {
	return j.checked.mode == sandbox.ChecksEnforce && j.refused()
}

// refused reports whether a finding refuses.
func (j *job) refused() bool {
	return slices.ContainsFunc(j.checked.findings, func(f sandbox.Finding) bool { return f.Refuses })
}

// refusal returns the findings that refuse, for stderr.
func (j *job) refusal() string {
	var out bytes.Buffer
	for _, f := range j.checked.findings {
		if !f.Refuses {
			continue
		}
		if out.Len() > 0 && bytes.Count(out.Bytes(), []byte("\n")) == maxShownRefusal {
			break
		}
		where := ""
		if f.File != "" {
			where = diagnose.PlainName(f.File) + ", "
		}
		fmt.Fprintf(&out, "Security validation failed: %sline %d: %s\n", where, f.Line, f.Message)
	}
	return out.String()
}

// rejected is the result of a run that the checks refuse; no sandbox was made for it.
func (j *job) rejected() *sandbox.Result {
	text := []byte(j.refusal())
	if j.Request.Output != nil {
		j.Request.Output(sandbox.Stderr, text)
	}
	return &sandbox.Result{ID: j.id, Status: sandbox.StatusRejected, ExitCode: -1, Stderr: sandbox.Captured{Head: text},
		Requested: j.Spec,
		Effective: sandbox.Policy{Requested: j.asked, Limits: j.Spec.Limits, Network: j.Spec.Network, User: j.Spec.User,
			Commands: j.Spec.Commands},
		Findings: j.checked.findings, Hints: []sandbox.Hint{diagnose.Refusal(j.checked.findings)}}
}
