package answer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of what a model sees of a run, in bytes: models pay for each byte that they read.
const (
	MaxModelStdout = 40 << 10
	MaxModelStderr = 12 << 10
	MaxModelValues = 8 << 10 // of all values that are not pictures
	MaxModelTrace  = 4 << 10
	MaxModelNote   = 4 << 10 // of Fumehood's own words
)

// Account is what a model should see of a run. Its texts are rendered and bounded.
type Account struct {
	Stdout, Stderr string // as a terminal shows them at the end
	Background     string // what code of earlier runs wrote
	Values         []string
	Exception      *sandbox.Exception
	Status         sandbox.Status
	ExitCode       *int
	Hint           *string
	Notes          []string
	Pictures       int // which a text cannot show
}

// NewAccount returns the account of a result, with its hints in the words of a face.
func NewAccount(f wording.Face, r *sandbox.Result) *Account {
	a := &Account{Stdout: ModelText(Text(r.Stdout), MaxModelStdout), Stderr: ModelText(Text(r.Stderr), MaxModelStderr),
		Background: ModelText(Text(r.Background), MaxModelStderr), Status: r.Status}
	if r.ExitCode >= 0 && r.Signal == 0 {
		a.ExitCode = &r.ExitCode
	}
	if x := WithoutTrace(r.Exception, Text(r.Stderr)); x != nil {
		a.Exception = &sandbox.Exception{Name: Cut(x.Name, MaxModelNote), Value: Cut(x.Value, MaxModelTrace),
			Traceback: ModelText(x.Traceback, MaxModelTrace)}
	}
	if text := f.Hint(r.Hints); text != "" {
		a.Hint = &text
	}
	a.values(r.Results)
	return a
}

// values adds the best text of each value within MaxModelValues.
func (a *Account) values(all []sandbox.Value) {
	room, left := MaxModelValues, 0
	for _, v := range all {
		text, picture := ModelValue(v)
		switch {
		case picture:
			a.Pictures++
		case text == "":
		case len(text) > room && len(a.Values) > 0:
			left++
		default:
			text = Cut(text, MaxModelValues/4)
			room -= len(text)
			a.Values = append(a.Values, text)
		}
	}
	if left > 0 {
		a.Notes = append(a.Notes,
			fmt.Sprintf("%d further values are not shown here; print less at a time.", left))
	}
}

// textForms are the forms of a value that a model reads best, in this order.
var textForms = []string{"text/plain", "text/markdown", "application/json", "text/latex", "image/svg+xml", "text/html"}

// ModelValue returns the form of a value that a model reads best, or whether it is a picture, whose text says only that
// it is one.
func ModelValue(v sandbox.Value) (text string, picture bool) {
	rank := len(textForms)
	for _, f := range v.Forms {
		if f.Type == "image/png" || f.Type == "image/jpeg" {
			return "", true
		}
		for i, name := range textForms[:rank] {
			if name == f.Type {
				text, rank = strings.ToValidUTF8(string(f.Data), "\uFFFD"), i
			}
		}
	}
	return text, false
}

// String returns the account in one text.
func (a *Account) String() string {
	var parts []string
	add := func(label, text string) {
		if text = strings.TrimRight(text, "\n"); text != "" {
			parts = append(parts, label+text)
		}
	}
	add("", a.Stdout)
	for _, v := range a.Values {
		add("=> ", v)
	}
	add("stderr:\n", a.Stderr)
	if x := a.Exception; x != nil {
		add("", x.Traceback)
	}
	add("output of earlier runs:\n", a.Background)
	if a.Status != sandbox.StatusSucceeded {
		line := "status: " + string(a.Status)
		if a.ExitCode != nil {
			line += fmt.Sprintf(", exit code %d", *a.ExitCode)
		}
		add("", line)
	}
	if a.Hint != nil {
		add("hint: ", *a.Hint)
	}
	for _, note := range a.Notes {
		add("note: ", note)
	}
	switch {
	case len(parts) == 0 && a.Pictures > 0:
		return "It succeeded, and showed this."
	case len(parts) == 0:
		return "It succeeded, without output."
	}
	return strings.Join(parts, "\n")
}

// ModelText returns text as a model should see it: its screen, cut to a limit.
func ModelText(text string, limit int) string { return Cut(Screen(text), limit) }

// Cut keeps the start and the end of a long text, between characters.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head, tail := limit*3/4, len(text)-limit/4
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + fmt.Sprintf("\n[... %d bytes left out ...]\n", tail-head) + text[tail:]
}
