package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/attack"
)

var outcomeColours = map[attack.Outcome]colour{attack.Contained: green, attack.NotContained: red, attack.NotApplicable: faint, attack.Unclear: yellow}

// shownFinding limits one finding in the text for people; the JSON has all of it.
const shownFinding = 600 // bytes

// progress is where lines go during the attacks: with --json, stdout is for the JSON.
func (a *app) progress() io.Writer {
	if a.json {
		return a.Stderr
	}
	return a.Stdout
}

// announce prints the first line.
func (a *app) announce(v *verification) {
	if a.quiet {
		return
	}
	fmt.Fprintf(a.progress(), "%s on %s (%s kernel); each runs in a sandbox of its own\n", v.attacks(v.Selected), v.Posture.Backend, v.Posture.Kernel)
	if len(v.Unenforced) > 0 {
		a.warn("this host cannot enforce %s: attacks on it are not applicable", inWords(v.Unenforced))
	}
}

// showProgress shows the current attack on a terminal until its result is called.
func (a *app) showProgress(i, count int, at *attack.Attack) (done func()) {
	w := a.progress()
	if a.quiet || !isTerminal(w) {
		return func() {}
	}
	fmt.Fprintf(w, "%s%s", clearLine, a.paint(w, faint, fmt.Sprintf("[%*d/%d] %s  %.60s", width(count), i+1, count, at.ID, at.Title)))
	return func() { fmt.Fprint(w, clearLine) }
}

func width(n int) int { return len(fmt.Sprint(n)) }

// printVerdict prints one line for an attack, and its findings.
func (a *app) printVerdict(i, count int, at *attackShown) {
	bad := at.Outcome == attack.NotContained || at.Outcome == attack.Unclear
	if a.quiet && !bad {
		return
	}
	w := a.progress()
	fmt.Fprintf(w, "[%*d/%d] %s  %s  %s\n", width(count), i+1, count, a.paint(w, outcomeColours[at.Outcome], fmt.Sprintf("%-14s", at.Outcome)), at.ID, at.Title)
	if at.Why != "" {
		fmt.Fprintf(w, "    why: %s\n", indented(at.Why))
	}
	for _, finding := range at.Findings {
		fmt.Fprintf(w, "    found: %s\n", indented(finding))
	}
	for _, note := range at.meanwhile {
		fmt.Fprintf(w, "    meanwhile: %s\n", indented(note))
	}
	if bad {
		fmt.Fprintf(w, "    it must hold: %s\n", at.Expect)
	}
}

// indented makes text from a sandbox fit for people: limited, and indented as a paragraph.
func indented(text string) string {
	if len(text) > shownFinding {
		text = text[:shownFinding] + "..."
	}
	return strings.ReplaceAll(visible(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))), "\n", "\n        ")
}

// summary is one line of figures.
func (v *verification) summary() string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{v.Blocked, "blocked"}, {v.NotBlocked, "not blocked"}, {v.Unclear, "unclear"}, {v.NotApplicable, "not applicable"}} {
		if part.n > 0 || part.what == "blocked" || part.what == "not blocked" {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(parts, ", ") + " in " + ms(time.Duration(v.TookMS)*time.Millisecond)
}

// attacks words a number of attacks, and mentions a selection.
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

// verdict sums up in one sentence.
func (v *verification) verdict() (colour, string) {
	name, made := v.Posture.Backend, v.Blocked+v.NotBlocked+v.Unclear
	switch {
	case v.NotBlocked > 0:
		return red, fmt.Sprintf("FAIL: %s did not block %d of %s; do not run hostile code with it", name, v.NotBlocked, v.attacks(made))
	case v.Interrupted:
		return yellow, fmt.Sprintf("INCOMPLETE: interrupted after %d of %s", len(v.Attacks), v.attacks(v.Selected))
	case v.Unclear > 0:
		return yellow, fmt.Sprintf("INCOMPLETE: the outcome of %d of %s is unclear", v.Unclear, v.attacks(made))
	case v.Blocked == 0:
		return yellow, "INCOMPLETE: no attack applies here"
	case v.Selected == v.Corpus:
		return green, fmt.Sprintf("PASS: %s blocked all %d applicable attacks", name, v.Blocked)
	}
	return green, fmt.Sprintf("PASS: %s blocked the %s", name, v.attacks(v.Blocked))
}

func (a *app) printVerification(v *verification) error {
	if a.json {
		return a.printJSON(v)
	}
	c, sentence := v.verdict()
	_, err := fmt.Fprintf(a.Stdout, "%s\n%s\n", v.summary(), a.paint(a.Stdout, c, sentence))
	return err
}

// hostInWords names the system, its kernel and the user.
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

// markdown is the report.
func (v *verification) markdown() []byte {
	var b bytes.Buffer
	_, sentence := v.verdict()
	fmt.Fprintf(&b, "# Fumehood: attacks on %s\n\n**%s.** %s.\n\n", v.Posture.Backend, sentence, v.summary())
	fmt.Fprintf(&b, "- backend: %s (%s kernel)\n- host: %s\n- version: %s\n- begun: %s\n", v.Posture.Backend, v.Posture.Kernel, v.Host, v.Version, v.Began.Format(time.RFC3339))
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

// meanwhile lists the observations that decided nothing, if any.
func (v *verification) meanwhile(b *bytes.Buffer) {
	title := "\n## Meanwhile\n\n"
	for _, at := range v.Attacks {
		for _, note := range at.meanwhile {
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
