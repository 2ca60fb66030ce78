package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/attack"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
)

var outcomeColours = map[attack.Outcome]terminal.Colour{
	attack.Contained: terminal.Green, attack.NotContained: terminal.Red,
	attack.NotApplicable: terminal.Faint, attack.Unclear: terminal.Yellow}

// maxFinding limits one finding in the text for people; the JSON is complete.
const maxFinding = 600 // bytes

// progress returns the writer of lines during the attacks: with --json, stdout is for the JSON.
func (a *app) progress() io.Writer {
	if a.json {
		return a.Stderr
	}
	return a.Stdout
}

func (a *app) announce(v *verification) {
	if a.quiet {
		return
	}
	fmt.Fprintf(a.progress(), "%s on %s (%s kernel); each runs in its own sandbox\n", v.attacks(v.Selected),
		v.Posture.Backend, v.Posture.Kernel)
	if len(v.Unenforced) > 0 {
		a.warn("this host cannot enforce %s: attacks on it are not applicable", inWords(v.Unenforced))
	}
}

// showProgress shows the current attack on a terminal until done is called.
func (a *app) showProgress(i, count int, at *attack.Attack) (done func()) {
	w := a.progress()
	if a.quiet || !terminal.Is(w) {
		return func() {}
	}
	line := fmt.Sprintf("%s %s  %.60s", position(i, count), at.ID, at.Title)
	fmt.Fprint(w, terminal.ClearLine, a.paint(w, terminal.Faint, line))
	return func() { fmt.Fprint(w, terminal.ClearLine) }
}

func position(i, count int) string {
	return fmt.Sprintf("[%*d/%d]", len(strconv.Itoa(count)), i+1, count)
}

// printAttack prints one line for an attack, and its findings.
func (a *app) printAttack(i, count int, at *attackResult) {
	bad := at.Outcome == attack.NotContained || at.Outcome == attack.Unclear
	if a.quiet && !bad {
		return
	}
	w := a.progress()
	outcome := a.paint(w, outcomeColours[at.Outcome], fmt.Sprintf("%-14s", at.Outcome))
	fmt.Fprintf(w, "%s %s  %s  %s\n", position(i, count), outcome, at.ID, at.Title)
	if at.Why != "" {
		fmt.Fprintf(w, "    why: %s\n", indented(at.Why))
	}
	for _, finding := range at.Findings {
		fmt.Fprintf(w, "    found: %s\n", indented(finding))
	}
	for _, note := range at.Meanwhile {
		fmt.Fprintf(w, "    meanwhile: %s\n", indented(note))
	}
	if bad {
		fmt.Fprintf(w, "    it must hold: %s\n", at.Expect)
	}
}

// indented limits text from a sandbox, and indents it as a paragraph.
func indented(text string) string {
	if len(text) > maxFinding {
		text = text[:maxFinding] + "..."
	}
	text = terminal.Visible(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")))
	return strings.ReplaceAll(text, "\n", "\n        ")
}

func (v *verification) summary() string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{v.Blocked, "blocked"}, {v.NotBlocked, "not blocked"}, {v.Unclear, "unclear"},
		{v.NotApplicable, "not applicable"}} {
		if part.n > 0 || part.what == "blocked" || part.what == "not blocked" {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(parts, ", ") + " in " + ms(time.Duration(v.TookMS)*time.Millisecond)
}

// attacks returns a number of attacks in words, and mentions a selection.
func (v *verification) attacks(n int) string {
	noun := "attacks"
	if n == 1 {
		noun = "attack"
	}
	if v.Selected == v.Corpus {
		return fmt.Sprintf("%d %s", n, noun)
	}
	return fmt.Sprintf("%d selected %s (of %d)", n, noun, v.Corpus)
}

func (v *verification) verdict() (terminal.Colour, string) {
	name, made := v.Posture.Backend, v.Blocked+v.NotBlocked+v.Unclear
	switch {
	case v.NotBlocked > 0:
		return terminal.Red, fmt.Sprintf("FAIL: %s did not block %d of %s; do not run hostile code with it", name,
			v.NotBlocked, v.attacks(made))
	case v.Interrupted:
		return terminal.Yellow, fmt.Sprintf("INCOMPLETE: interrupted after %d of %s", len(v.Attacks),
			v.attacks(v.Selected))
	case v.Unclear > 0:
		return terminal.Yellow, fmt.Sprintf("INCOMPLETE: the outcome of %d of %s is unclear", v.Unclear,
			v.attacks(made))
	case v.Blocked == 0:
		return terminal.Yellow, "INCOMPLETE: no attack applies here"
	case v.Selected == v.Corpus:
		return terminal.Green, fmt.Sprintf("PASS: %s blocked all %d applicable attacks", name, v.Blocked)
	}
	return terminal.Green, fmt.Sprintf("PASS: %s blocked the %s", name, v.attacks(v.Blocked))
}

func (a *app) printVerification(v *verification) error {
	if a.json {
		return a.printJSON(v)
	}
	c, sentence := v.verdict()
	_, err := fmt.Fprintf(a.Stdout, "%s\n%s\n", v.summary(), a.paint(a.Stdout, c, sentence))
	return err
}

func hostInWords() string {
	words := runtime.GOOS + "/" + runtime.GOARCH
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		words += ", Linux " + strings.TrimSpace(string(release))
	}
	if os.Geteuid() == 0 {
		return words + ", as root"
	}
	return words + ", as an ordinary user"
}

func (v *verification) markdown() []byte {
	var b bytes.Buffer
	_, sentence := v.verdict()
	fmt.Fprintf(&b, "# Fumehood: attacks on %s\n\n**%s.** %s.\n\n", v.Posture.Backend, sentence, v.summary())
	fmt.Fprintf(&b, "- backend: %s (%s kernel)\n- host: %s\n- version: %s\n- begun: %s\n", v.Posture.Backend,
		v.Posture.Kernel, v.Host, v.Version, v.Began.Format(time.RFC3339))
	if v.Selected != v.Corpus {
		fmt.Fprintf(&b, "- selected: %d of the %d attacks\n", v.Selected, v.Corpus)
	}
	if len(v.Unenforced) > 0 {
		fmt.Fprintf(&b, "- not enforced on this host: %s\n", strings.Join(v.Unenforced, ", "))
	}
	for _, group := range []struct {
		outcome attack.Outcome
		title   string
	}{{attack.NotContained, "Not blocked"}, {attack.Unclear, "Unclear"}, {attack.NotApplicable, "Not applicable"}} {
		v.section(&b, group.outcome, group.title)
	}
	v.meanwhile(&b)
	b.WriteString("\n## Attacks\n\n| attack | class | outcome | what it tries |\n|---|---|---|---|\n")
	for _, at := range v.Attacks {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", at.ID, at.Class, at.Outcome, strings.ReplaceAll(at.Title, "|", `\|`))
	}
	return b.Bytes()
}

// meanwhile lists the observations without influence on a verdict, if any.
func (v *verification) meanwhile(b *bytes.Buffer) {
	title := "\n## Meanwhile\n\n"
	for _, at := range v.Attacks {
		for _, note := range at.Meanwhile {
			fmt.Fprintf(b, "%s    %s: %s\n", title, at.ID, strings.ReplaceAll(indented(note), "\n", "\n    "))
			title = ""
		}
	}
}

// section lists the attacks with one outcome, if any.
func (v *verification) section(b *bytes.Buffer, outcome attack.Outcome, title string) {
	for _, at := range v.Attacks {
		if at.Outcome != outcome {
			continue
		}
		if title != "" {
			fmt.Fprintf(b, "\n## %s\n", title)
			title = ""
		}
		fmt.Fprintf(b, "\n### %s: %s\n\n", at.ID, at.Title)
		if outcome != attack.NotApplicable {
			fmt.Fprintf(b, "It must hold: %s\n\n", at.Expect)
		}
		// In an indented code block, which no line from a sandbox can end.
		for _, text := range append(at.Findings, at.Why) {
			if text != "" {
				fmt.Fprintf(b, "    %s\n", strings.ReplaceAll(indented(text), "\n", "\n    "))
			}
		}
	}
}
