// Package attack has the corpus of attacks on a sandbox, and the oracle that decides whether one was contained.
//
// Each entry of the corpus is a probe that runs in a sandbox and prints its breaches. The oracle decides mostly from
// the host's view: it checks the planted canaries, the sandbox's processes and files on the host, the host itself, and
// what is left after the sandbox. It does not know how a backend isolates. Probes run only in sandboxes; tests also run
// some without isolation, to show that they work.
package attack

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// The corpus: one txtar file per attack, with a header of "key: value" lines.
//
//go:embed corpus
var corpus embed.FS

// Attack is one entry of the corpus.
type Attack struct {
	ID       string  `json:"id"`
	Category string  `json:"category"`
	Class    string  `json:"class"` // of the harm: CRASH, READ, WRITE or ESCAPE
	Title    string  `json:"title"`
	Expect   string  `json:"expect"` // the property that must hold
	Oracle   string  `json:"oracle"` // how it is checked
	Lang     string  `json:"-"`      // python or bash
	Control  Control `json:"-"`

	timeout  time.Duration // a deadline under attack, or the limit on a hang
	limits   sandbox.Limits
	stage    stage
	statuses []sandbox.Status // expected ends
	shared   exception        // if the guest has the code's id: the breaches affect only the sandbox itself
	// when the section "second" runs: "alongside" or "after" in another sandbox, or "anew"
	second string
	watch  bool                  // watch the guest from the host: it must never stop or be traced
	except map[string]*exception // further expectations by kind of isolation: see exceptionKinds

	programs
	want []*regexp.Regexp // each matches a line of stdout
}

// stage is how and where an attack is made.
type stage struct {
	drive   string // the driver, if running the code is not enough
	network string // of its sandbox, by name; "" is none
}

// programs are the code of an attack.
type programs struct {
	code       []byte
	secondCode []byte
	drivers    map[string][]byte // the attack as code for contexts in other languages
}

// exceptionKinds are the kinds of isolation with further expectations. In a user-space kernel of its own, a sandbox
// changes only that kernel, which ends with it. A container is made by its engine, and what the kernel counts by user
// it counts over all containers. Podman has fewer options than Docker. The contexts of a sandbox have one user and
// share its limits.
var exceptionKinds = []string{"user-space", "container", "podman", "context"}

// exception holds further expectations for one kind of isolation.
type exception struct {
	statuses []sandbox.Status // ends
	excused  []string         // accepted breaches, each by the words it begins with
	want     []*regexp.Regexp // in place of the others, where there are any
	why      string
}

// probeTime is the deadline of probes that do not attack one. It ends hangs, before the whole step's time-out.
const probeTime = 100 * time.Second

// Control shows that the attack works without isolation. Only tests run controls.
type Control struct {
	Kind  string   // plain, userns, root, or none
	Names []string // the breaches that it must report
	why   string   // of none
}

// Corpus returns all attacks, by id.
func Corpus() ([]*Attack, error) {
	files, err := corpus.ReadDir("corpus")
	if err != nil {
		return nil, err
	}
	var all []*Attack
	for _, f := range files {
		if path.Ext(f.Name()) != ".txtar" {
			continue
		}
		text, err := corpus.ReadFile("corpus/" + f.Name())
		if err != nil {
			return nil, err
		}
		a, err := parseAttack(text)
		if err == nil && a.ID+".txtar" != f.Name() {
			err = fmt.Errorf("its id is %s", a.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		all = append(all, a)
	}
	return all, nil
}

// parseTxtar splits a txtar file into its head and its sections, which begin with a line "-- name --".
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

func parseAttack(text []byte) (*Attack, error) {
	head, sections := parseTxtar(text)
	a := &Attack{except: map[string]*exception{}, timeout: probeTime,
		statuses: []sandbox.Status{sandbox.StatusSucceeded},
		programs: programs{code: sections["attack"], secondCode: sections["second"], drivers: map[string][]byte{}}}
	for _, kind := range exceptionKinds {
		a.except[kind] = &exception{}
	}
	for line := range strings.Lines(string(head)) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok {
			return nil, fmt.Errorf("header line %q", line)
		}
		if err := a.set(key, value); err != nil {
			return nil, err
		}
	}
	for _, l := range []string{"javascript", "bash"} {
		if code := sections[l]; code != nil {
			a.drivers[l] = code
		}
	}
	var err error
	a.want, err = parseWant(sections["want"])
	for kind, x := range a.except {
		var failed error
		x.want, failed = parseWant(sections["want "+kind])
		err = errors.Join(err, failed)
	}
	return a, errors.Join(err, a.check())
}

func parseWant(section []byte) (all []*regexp.Regexp, err error) {
	for line := range strings.Lines(string(section)) {
		re, err := regexp.Compile("(?m)" + strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, err
		}
		all = append(all, re)
	}
	return all, nil
}

func (a *Attack) set(key, value string) (err error) {
	texts := map[string]*string{"id": &a.ID, "category": &a.Category, "class": &a.Class, "title": &a.Title,
		"expect": &a.Expect, "oracle": &a.Oracle, "lang": &a.Lang, "second": &a.second, "drive": &a.stage.drive,
		"network": &a.stage.network}
	if text := texts[key]; text != nil {
		*text = value
		return nil
	}
	switch key {
	case "watch":
		a.watch = value == "guest"
	case "timeout":
		a.timeout, err = time.ParseDuration(value)
	case "limits":
		err = a.setLimits(value)
	case "status":
		a.statuses = parseStatuses(value)
	case "shared":
		ends, breaches, _ := strings.Cut(value, ";")
		a.shared = exception{statuses: parseStatuses(ends), excused: strings.Fields(breaches)}
	case "control":
		a.Control.Kind, a.Control.why, _ = strings.Cut(value, " ")
		a.Control.Names = strings.Fields(a.Control.why)
	default:
		err = a.setException(key, value)
	}
	return err
}

// setException reads "end end; breach, breach", or the reason.
func (a *Attack) setException(key, value string) error {
	kind, isWhy := strings.CutSuffix(key, "-why")
	x := a.except[kind]
	switch {
	case x == nil:
		return fmt.Errorf("unknown key %q", key)
	case isWhy:
		x.why = value
		return nil
	}
	ends, breaches, _ := strings.Cut(value, ";")
	x.statuses = parseStatuses(ends)
	for word := range strings.SplitSeq(breaches, ",") {
		if word = strings.TrimSpace(word); word != "" {
			x.excused = append(x.excused, word)
		}
	}
	return nil
}

// isExplained reports whether exactly the exceptions have reasons.
func (a *Attack) isExplained() bool {
	for _, x := range a.except {
		if (x.why == "") != (len(x.statuses)+len(x.excused)+len(x.want) == 0) {
			return false
		}
	}
	return true
}

func (a *Attack) setLimits(text string) (err error) {
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

// check checks that an attack is complete.
func (a *Attack) check() error {
	switch {
	case a.ID == "" || a.Category == "" || a.Title == "" || a.Expect == "" || a.Oracle == "":
		return fmt.Errorf("id, category, title, expect or oracle is missing")
	case !slices.Contains([]string{"CRASH", "READ", "WRITE", "ESCAPE"}, a.Class):
		return fmt.Errorf("class %q", a.Class)
	case language(a.Lang) == nil:
		return fmt.Errorf("language %q", a.Lang)
	case len(a.code) == 0 || a.second != "" && len(a.secondCode) == 0:
		return fmt.Errorf("no code")
	case !slices.Contains([]string{"", "alongside", "after", "anew"}, a.second):
		return fmt.Errorf("second %q", a.second)
	case a.timeout != probeTime && !slices.Contains(a.statuses, sandbox.StatusTimeout):
		return fmt.Errorf("with a deadline, timeout must be an expected end, as a slow host may reach it")
	case !slices.Contains([]string{"", "full", "planted"}, a.stage.network):
		return fmt.Errorf("network %q", a.stage.network)
	case len(a.want) == 0 && a.stage.drive == "":
		return fmt.Errorf("it expects nothing")
	case !a.isExplained():
		return fmt.Errorf("an exception needs a reason, and a reason an exception")
	}
	switch a.Control.Kind {
	case "none":
		if len(a.Control.Names) < 3 {
			return fmt.Errorf("a control of none needs a reason")
		}
	case "plain", "userns", "root":
		if len(a.Control.Names) == 0 {
			return fmt.Errorf("the control must report something")
		}
	default:
		return fmt.Errorf("control %q", a.Control.Kind)
	}
	return nil
}

// Languages are the languages of the probes, with the places of Python in images. They are minimal, so that the corpus
// needs no other package.
var Languages = []sandbox.Language{
	{Name: "python", FileName: "main.py", Programs: []string{"/usr/bin/python3", "/usr/local/bin/python3"},
		Missing: sandbox.Missing{Fix: "install python3"},
		Argv:    func(program, path string) []string { return []string{program, "-B", path} }},
	{Name: "bash", FileName: "main.sh", Programs: []string{"/bin/bash"}, Missing: sandbox.Missing{Fix: "install bash"},
		Argv: func(program, path string) []string { return []string{program, path} }},
}

// language returns the language of this name, or nil.
func language(name string) *sandbox.Language {
	for i := range Languages {
		if Languages[i].Name == name {
			return &Languages[i]
		}
	}
	return nil
}

// Source returns the probe, after the shared prelude.
func (a *Attack) Source() []byte { return a.source(a.code) }

func (a *Attack) source(code []byte) []byte {
	name := map[string]string{"python": "corpus/prelude.py", "bash": "corpus/prelude.sh"}[a.Lang]
	prelude, err := corpus.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return append(append(prelude, '\n'), code...)
}
