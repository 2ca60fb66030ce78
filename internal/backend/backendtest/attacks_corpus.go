package backendtest

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// The corpus: one file for each attack, in txtar format with a header of "key: value" lines.
//
//go:embed attacks
var attackFiles embed.FS

// attack is one entry of the corpus.
type attack struct {
	id       string
	category string
	class    string // CRASH, READ, WRITE or ESCAPE: what the attack would prove
	title    string
	expect   string // what must hold, in words
	oracle   string // what decides it
	lang     string // python or bash

	timeout  time.Duration
	limits   sandbox.Limits
	statuses []sandbox.Status // the ends that are right
	shared   []sandbox.Status // the ends that are right too where the guest has the code's own id
	excused  []string         // and the breaches that are none then: they hit the sandbox itself only
	second   string           // "alongside" or "after": a second sandbox runs the section of that name
	watch    bool             // the guest is watched from the host: it never stops and is never traced
	drive    string           // the driver that runs it, where running the code is not all
	control  control

	code       []byte
	secondCode []byte
	want       []*regexp.Regexp // each matches a line of stdout
}

// control is how the attack is shown to work where the walls do not stand.
type control struct {
	kind  string   // plain, userns, root, or none
	names []string // the breaches that it must report
	why   string   // of none
}

// readCorpus returns all attacks, by id.
func readCorpus() ([]*attack, error) {
	files, err := attackFiles.ReadDir("attacks")
	if err != nil {
		return nil, err
	}
	var all []*attack
	for _, f := range files {
		if path.Ext(f.Name()) != ".txtar" {
			continue
		}
		text, err := attackFiles.ReadFile("attacks/" + f.Name())
		if err != nil {
			return nil, err
		}
		a, err := parseAttack(text)
		if err == nil && a.id+".txtar" != f.Name() {
			err = fmt.Errorf("it calls itself %s", a.id)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		all = append(all, a)
	}
	return all, nil
}

// readIndex returns the ids of all attacks that Glovebox answers for, run here or not.
func readIndex() ([]string, error) {
	text, err := attackFiles.ReadFile("attacks/index.txt")
	var ids []string
	for line := range strings.Lines(string(text)) {
		if id, _, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(line, "#") {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// parseTxtar splits a txtar file into its head and its sections: each begins with a line "-- name --".
func parseTxtar(text []byte) (head []byte, sections map[string][]byte) {
	sections = map[string][]byte{}
	name := ""
	for line := range bytes.Lines(text) {
		if mark, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("-- ")); ok {
			if n, ok := bytes.CutSuffix(mark, []byte(" --")); ok {
				name = string(n)
				continue
			}
		}
		if name == "" {
			head = append(head, line...)
		} else {
			sections[name] = append(sections[name], line...)
		}
	}
	return head, sections
}

func parseAttack(text []byte) (*attack, error) {
	head, sections := parseTxtar(text)
	a := &attack{timeout: 10 * time.Second, statuses: []sandbox.Status{sandbox.StatusSucceeded},
		code: sections["attack"], secondCode: sections["second"]}
	for line := range strings.Lines(string(head)) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok {
			return nil, fmt.Errorf("header line %q", line)
		}
		if err := a.set(key, value); err != nil {
			return nil, err
		}
	}
	for line := range strings.Lines(string(sections["want"])) {
		re, err := regexp.Compile("(?m)" + strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, err
		}
		a.want = append(a.want, re)
	}
	return a, a.check()
}

func (a *attack) set(key, value string) (err error) {
	switch key {
	case "id":
		a.id = value
	case "category":
		a.category = value
	case "class":
		a.class = value
	case "title":
		a.title = value
	case "expect":
		a.expect = value
	case "oracle":
		a.oracle = value
	case "lang":
		a.lang = value
	case "second":
		a.second = value
	case "watch":
		a.watch = value == "guest"
	case "drive":
		a.drive = value
	case "timeout":
		a.timeout, err = time.ParseDuration(value)
	case "limits":
		err = a.setLimits(value)
	case "status":
		a.statuses = parseStatuses(value)
	case "shared":
		ends, breaches, _ := strings.Cut(value, ";")
		a.shared, a.excused = parseStatuses(ends), strings.Fields(breaches)
	case "control":
		a.control.kind, a.control.why, _ = strings.Cut(value, " ")
		a.control.names = strings.Fields(a.control.why)
	default:
		err = fmt.Errorf("unknown key %q", key)
	}
	return err
}

func (a *attack) setLimits(text string) (err error) {
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		var n int64
		if name == "cpus" {
			n, err = sandbox.ParseCPUs(value)
		} else {
			n, err = sandbox.ParseBytes(value)
		}
		if err != nil {
			return err
		}
		if !slices.Contains(sandbox.LimitNames, sandbox.LimitName(name)) {
			return fmt.Errorf("unknown limit %q", name)
		}
		a.limits.Set(sandbox.LimitName(name), n)
	}
	return nil
}

func parseStatuses(text string) []sandbox.Status {
	var all []sandbox.Status
	for _, word := range strings.Fields(text) {
		all = append(all, sandbox.Status(word))
	}
	return all
}

// check says whether all is there that an attack needs.
func (a *attack) check() error {
	switch {
	case a.id == "" || a.category == "" || a.title == "" || a.expect == "" || a.oracle == "":
		return fmt.Errorf("id, category, title, expect or oracle is missing")
	case !slices.Contains([]string{"CRASH", "READ", "WRITE", "ESCAPE"}, a.class):
		return fmt.Errorf("class %q", a.class)
	case attackLanguages[a.lang] == nil:
		return fmt.Errorf("language %q", a.lang)
	case len(a.code) == 0 || a.second != "" && len(a.secondCode) == 0:
		return fmt.Errorf("no code")
	case !slices.Contains([]string{"", "alongside", "after"}, a.second):
		return fmt.Errorf("second %q", a.second)
	case len(a.want) == 0 && a.drive == "":
		return fmt.Errorf("nothing is wanted of it")
	}
	switch a.control.kind {
	case "none":
		if len(a.control.names) < 3 {
			return fmt.Errorf("a control of none needs a reason")
		}
	case "plain", "userns", "root":
		if len(a.control.names) == 0 {
			return fmt.Errorf("the control must report something")
		}
	default:
		return fmt.Errorf("control %q", a.control.kind)
	}
	return nil
}

// attackLanguages are how the probes are run. They are no more than this, so that the suite needs no other package.
var attackLanguages = map[string]*sandbox.Language{
	"python": {Name: "python", FileName: "main.py", Programs: []string{"/usr/bin/python3"}, Mend: "install python3",
		Argv: func(program, path string) []string { return []string{program, "-B", path} }},
	"bash": {Name: "bash", FileName: "main.sh", Programs: []string{"/bin/bash"}, Mend: "install bash",
		Argv: func(program, path string) []string { return []string{program, path} }},
}

// source is a probe with what all probes share before it.
func (a *attack) source(code []byte) []byte {
	name := map[string]string{"python": "attacks/prelude.py", "bash": "attacks/prelude.sh"}[a.lang]
	prelude, err := attackFiles.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return append(append(prelude, '\n'), code...)
}
