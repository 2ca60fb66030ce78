package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/check"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// pretended is a Packager that installs nothing and says that it did.
type pretended struct {
	sandbox.Packager
	before func(context.Context, sandbox.PackageNeed, sandbox.Worker) error // may be nil
	show   func() error                                                     // nil: supplies have no layer

	mu    sync.Mutex
	asked [][]string // the requirements of each call
}

func (p *pretended) Supply(ctx context.Context, need sandbox.PackageNeed, work sandbox.Worker) (
	*sandbox.Supply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, need.Requirements)
	if p.before != nil {
		if err := p.before(ctx, need, work); err != nil {
			return nil, err
		}
	}
	supply := &sandbox.Supply{Asked: need.Requirements, Missing: []string{"glvnone"}, Release: func() {}}
	if p.show != nil {
		supply.Layers = []sandbox.Layer{{At: need.Language.Installer.At}}
	}
	for _, r := range need.Requirements {
		need.Progress("installing " + r)
		name, version, _ := strings.Cut(r, "==")
		supply.Packages = append(supply.Packages, sandbox.Package{Name: name, Version: version, Requires: []string{}})
	}
	return supply, nil
}

func (p *pretended) Linked(string) bool { return true }

func (p *pretended) Show(_ sandbox.Layer, _, _ string, record func() error) error {
	return errors.Join(p.show(), record())
}

// installable is a language with packages.
func installable(name string) sandbox.Language {
	l := shell
	l.Name, l.Aliases, l.Extensions = name, nil, nil
	l.Installer = &sandbox.Installer{Name: "shell", At: "/opt/packages", Install: func(string) []string { return nil },
		Valid: func(requirement string) bool { return requirement != "no/package" }}
	return l
}

func adding(language, text string, packages ...string) engine.RunRequest {
	asks := code(language, text)
	asks.Request.Packages = sandbox.PackagesOf(packages, false, "")
	return asks
}

// TestMissingCommand: the folders of packages in PATH are no reason why a program is missing. A PATH without the usual
// folders is.
func TestMissingCommand(t *testing.T) {
	s := newRig(t, engine.Config{Languages: lang.All(), Packages: &pretended{},
		DefaultEnv: []string{"PATH=/usr/bin:/bin"}}).make(t, engine.Create{})
	for env, want := range map[string]string{"": "", "PATH=/bin:/usr/bin:/opt": "", "PATH=/nowhere": "/nowhere"} {
		x := command("rubyx")
		if env != "" {
			x.Request.Env = []string{env}
		}
		r := do(t, s, x)
		if h, has := sandbox.HintOf[sandbox.HintNoCommand](r.Hints); !has || h.Path != want {
			t.Errorf("with %q: %+v", env, r.Hints)
		}
	}
}

// TestSharedInstaller: languages that share an installer share a folder, so what one of them adds does not replace what
// another has.
func TestSharedInstaller(t *testing.T) {
	p := &pretended{}
	r := newRig(t, engine.Config{Languages: []sandbox.Language{installable("one"), installable("other")}, Packages: p})
	s := r.make(t, engine.Create{})
	for _, asks := range []engine.RunRequest{
		adding("one", "true", "a"), adding("other", "true", "b"), adding("one", "true", "a")} {
		do(t, s, asks)
	}
	if want := [][]string{{"a"}, {"a", "b"}}; !slices.EqualFunc(p.asked, want, slices.Equal) {
		t.Errorf("%q; want %q", p.asked, want)
	}
	// The error names the place in this request, whatever the sandbox has already.
	_, err := s.Start(within(t), adding("one", "true", "a", "no/package"))
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Kind != sandbox.Invalid || e.Op != "packages[1]" {
		t.Errorf("%v", err)
	}
}

// TestUpgrade: a package that is replaced where code may have imported it asks for a restart of the context.
func TestUpgrade(t *testing.T) {
	s := newRig(t, engine.Config{Languages: lang.All(), Packages: &pretended{}}).make(t, engine.Create{})
	for _, c := range []struct {
		x    engine.RunRequest
		want bool
	}{
		{adding("python", "1", "a==1"), false}, {adding("python", "1", "a==2"), true}, {adding("python", "1", "b==1"),
			false},
	} {
		r := do(t, s, c.x)
		if h, has := sandbox.HintOf[sandbox.HintRestart](r.Hints); has != c.want ||
			has && (!slices.Equal(h.Names, []string{"a"}) || h.Context != sandbox.DefaultContext) {
			t.Errorf("%+v", r.Hints)
		}
	}
}

// TestSurvey: a survey runs in the living sandbox, with the files that come along, and is no run of its client: it is
// neither checked nor listed.
func TestSurvey(t *testing.T) {
	p := &pretended{before: func(ctx context.Context, _ sandbox.PackageNeed, work sandbox.Worker) error {
		w := sandbox.Work{Survey: true, Stdin: []byte("question"),
			Limits:  sandbox.Limits{Timeout: time.Hour, OutputBytes: 1 << 20},
			Command: func(program string) []string { return []string{program, "-c", "cat - there; exit 3 # xmrig"} }}
		r, err := work(ctx, w)
		if err == nil && (r.Status != sandbox.StatusFailed || r.ExitCode != 3 ||
			string(r.Stdout.Head) != "question, answer") {
			t.Errorf("%+v", r)
		}
		return err
	}}
	r := newRig(t, engine.Config{Languages: []sandbox.Language{installable("one")}, Packages: p, Slots: 1,
		Max:    sandbox.Limits{Timeout: time.Minute},
		Checks: engine.Checks{Find: check.Policy{}.Find, Mode: sandbox.ChecksEnforce}})
	s := r.make(t, engine.Create{})
	asks := adding("one", "true", sandbox.PackagesAuto)
	asks.Request.Files = []sandbox.File{{Path: "there", Data: []byte(", answer")}}
	do(t, s, asks)
	if list := s.Runs(); len(list) != 1 || list[0].Language != "one" {
		t.Errorf("%+v", list)
	}
}

// TestPackagesTold: a run in a living sandbox tells of its packages as one of its own does: steps while they are
// installed, what there is then, and what the index lacks. A follower may come in at any event.
func TestPackagesTold(t *testing.T) {
	r := newRig(t, engine.Config{Languages: lang.All(), Packages: &pretended{}})
	s := r.make(t, engine.Create{})
	asks := adding("python", "print(1)", "a", "b")
	var told []string
	asks.Background, asks.Request.Progress = true, func(line string) { told = append(told, line) }
	x, err := s.Start(within(t), asks)
	if err != nil {
		t.Fatal(err)
	}
	result, err := x.Wait(within(t))
	if err != nil || result.Status != sandbox.StatusSucceeded ||
		!slices.Equal(told, []string{"installing a", "installing b", ""}) {
		t.Errorf("%+v, %v, %q", result, err, told)
	}
	want := []string{`1 progress "installing a"`, `2 progress "installing b"`, `3 progress ""`, "4 stdout",
		"5 done [{a  [] } {b  [] }]"}
	for after := range want {
		if got := followed(t, x, uint64(after)); !slices.Equal(got, want[after:]) {
			t.Errorf("after %d: %q; want %q", after, got, want[after:])
		}
	}
	if x.LastEvent() != uint64(len(want)) {
		t.Errorf("the last event is %d of %d", x.LastEvent(), len(want))
	}
	for _, name := range []string{"c", "a"} { // of which the second is there already
		if result := do(t, s, adding("python", "1", name)); len(result.Packages) != 3 ||
			result.Packages[0].Name != "a" {
			t.Errorf("%s: %+v", name, result.Packages)
		}
	}
	if result := do(t, s, adding("python", "import glvnone", sandbox.PackagesAuto)); !hasHint[sandbox.HintNoPackage](result) {
		t.Errorf("%+v", result.Hints)
	}
	if result := do(t, s, adding("bash", "glvnone", sandbox.PackagesAuto)); !hasHint[sandbox.HintNoCommands](result) ||
		hasHint[sandbox.HintNoCommand](result) {
		t.Errorf("%+v", result.Hints)
	}
}

// TestPackagesOfCommand: a command gets the packages of the language that it names, else of the first that has some.
func TestPackagesOfCommand(t *testing.T) {
	p := &pretended{}
	r := newRig(t, engine.Config{Languages: lang.All(), Packages: p})
	command := func(language string, packages ...string) sandbox.Request {
		return sandbox.Request{Command: []string{"true"}, Language: language, Progress: func(string) {},
			Packages: sandbox.PackagesOf(packages, false, "")}
	}
	s := r.make(t, engine.Create{})
	for i, request := range []sandbox.Request{command("", "a", "auto"), command("javascript", "b@1")} {
		for living, run := range []func() (*sandbox.Result, error){
			func() (*sandbox.Result, error) { return r.Run(within(t), engine.OneShot{Request: request}) },
			func() (*sandbox.Result, error) { return s.Run(within(t), engine.RunRequest{Request: request}) },
		} {
			result, err := run()
			if err != nil || result.Status != sandbox.StatusSucceeded || len(result.Packages) != 1 {
				t.Errorf("%d, %d: %+v, %v", i, living, result, err)
			}
		}
	}
	if got := fmt.Sprint(p.asked); got != "[[a] [a] [b@1] [b@1]]" {
		t.Error(got)
	}
	if result, err := s.Run(within(t), engine.RunRequest{Request: command("", "auto")}); err != nil ||
		result.Status != sandbox.StatusSucceeded {
		t.Errorf("auto means nothing for a command: %+v, %v", result, err)
	}
	_, err := r.Run(within(t), engine.OneShot{Request: command("python")})
	refused(t, "a language without packages", err, sandbox.Invalid, "a command has no language")
	_, err = r.Run(within(t), engine.OneShot{Request: command("bash", "a")})
	refused(t, "a language that has none", err, sandbox.Unsupported, "no packages to install for Bash")
}

// TestPackagesAtCreation: a sandbox has its packages when its creation returns, or there is no sandbox.
func TestPackagesAtCreation(t *testing.T) {
	p := &pretended{}
	r := newRig(t, engine.Config{Languages: lang.All(), Packages: p})
	wanted := map[string]sandbox.Packages{"python": {Requirements: []string{"a"}},
		"javascript": {Requirements: []string{"b"}}}
	s := r.make(t, engine.Create{Name: "work", Packages: wanted})
	if got := fmt.Sprint(p.asked); got != "[[b] [a]]" || len(s.Info().Packages) != 2 || len(s.Runs()) > 0 {
		t.Errorf("%s, %v, %v", got, s.Info().Packages, s.Runs())
	}
	p.before = func(context.Context, sandbox.PackageNeed, sandbox.Worker) error { return errors.New("no index") }
	_, _, err := r.Engine.Create(within(t), engine.Create{Name: "other", Packages: wanted})
	if err == nil || !strings.Contains(err.Error(), "no index") {
		t.Error(err)
	}
	_, err = r.Sandbox(within(t), "", "other")
	refused(t, "a sandbox without its packages", err, sandbox.NotFound, "other")
	p.before = func(ctx context.Context, _ sandbox.PackageNeed, _ sandbox.Worker) error {
		go func() { _ = r.Remove("", "third") }()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	_, _, err = r.Engine.Create(within(t), engine.Create{Name: "third", Packages: wanted})
	refused(t, "a sandbox that ends meanwhile", err, sandbox.NotFound, "third")
}

// TestLayersTakeSlots: files become visible in one sandbox of an owner at a time, while the owner has a slot.
func TestLayersTakeSlots(t *testing.T) {
	p := &pretended{}
	r := newRig(t, engine.Config{Languages: []sandbox.Language{installable("one")}, Packages: p, Slots: 4})
	showing, rest := make(chan struct{}), make(chan struct{})
	p.show = func() error {
		showing <- struct{}{}
		<-rest
		return nil
	}
	var all sync.WaitGroup
	for _, owner := range []string{"alice", "alice", "bob"} {
		all.Go(func() {
			_, _, err := r.Engine.Create(within(t), engine.Create{Owner: owner,
				Packages: map[string]sandbox.Packages{"one": {Requirements: []string{"a"}}}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 { // one of each owner
		<-showing
	}
	if got := r.Stats().Running; got != 2 {
		t.Errorf("%d slots are taken", got)
	}
	select {
	case <-showing:
		t.Error("two of one owner at a time")
	case <-time.After(50 * time.Millisecond):
	}
	rest <- struct{}{}
	rest <- struct{}{}
	<-showing
	close(rest)
	all.Wait()
	if got := r.Stats().Running; got != 0 {
		t.Errorf("%d slots are taken", got)
	}
}

// TestAutoMeansNothing: where no code is, or its language has no packages, auto alone is no mistake, and names are one.
func TestAutoMeansNothing(t *testing.T) {
	bare := shell
	bare.Name, bare.Aliases, bare.Extensions = "bare", nil, nil
	r := newRig(t, engine.Config{Languages: append(lang.All(), bare), Packages: &pretended{}})
	s := r.make(t, engine.Create{})
	command := engine.RunRequest{Request: sandbox.Request{
		Command: []string{"true"}, Packages: sandbox.Packages{Auto: true}}}
	for _, asks := range []engine.RunRequest{command, adding("bare", "true", sandbox.PackagesAuto)} {
		for where, result := range map[string]*sandbox.Result{
			"fresh": r.run(t, engine.OneShot{Request: asks.Request}), "living": do(t, s, asks)} {
			if result.Status != sandbox.StatusSucceeded || result.Hints != nil {
				t.Errorf("%s: %+v", where, result)
			}
		}
	}
	for _, language := range []string{"bare", "bash"} {
		asks := adding(language, "true", sandbox.PackagesAuto, "a")
		_, err := r.Run(within(t), engine.OneShot{Request: asks.Request})
		refused(t, language, err, sandbox.Unsupported, "there are no packages to install for")
		_, err = s.Start(within(t), asks)
		refused(t, language, err, sandbox.Unsupported, "there are no packages to install for")
	}
}

// followed lists the events of a run after one.
func followed(t *testing.T, x *engine.Run, after uint64) (all []string) {
	t.Helper()
	err := x.Follow(within(t), after, func(e engine.Event) error {
		text := fmt.Sprint(e.ID, " ", e.Kind)
		switch {
		case e.Step != nil:
			text += fmt.Sprintf(" %q", *e.Step)
		case e.Ended != nil:
			text += fmt.Sprint(" ", e.Ended.Packages)
		}
		all = append(all, text)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return all
}

// TestPackagesFail: what cannot be installed is the end of the run, also of one that goes on without its client, and
// nothing of it runs.
func TestPackagesFail(t *testing.T) {
	failed := &sandbox.Error{Kind: sandbox.Invalid, Op: "packages", Msg: "there is none"}
	r := newRig(t, engine.Config{Languages: lang.All(),
		Packages: &pretended{before: func(
			context.Context, sandbox.PackageNeed, sandbox.Worker) error {
			return failed
		}}})
	s := r.make(t, engine.Create{})
	asks := adding("python", "open('ran', 'w')", "a")
	_, err := s.Run(within(t), asks)
	refused(t, "a run", err, sandbox.Invalid, "there is none")
	asks.Background = true
	x, err := s.Start(within(t), asks)
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.Wait(within(t))
	refused(t, "a background one", err, sandbox.Invalid, "there is none")
	err = x.Follow(within(t), 0, func(e engine.Event) error {
		if e.Ended == nil || !strings.Contains(e.Ended.Failure, "there is none") {
			t.Errorf("%+v", e)
		}
		return nil
	})
	if _, gone := s.Stat(within(t), "ran"); err != nil || sandbox.KindOf(gone) != sandbox.NotFound {
		t.Errorf("%v, %v", err, gone)
	}
}

// TestEndWhilePackagesCome: a run that waits for its packages ends as one that never began: when it is interrupted,
// and when its context is deleted. Under the next server it waits again.
func TestEndWhilePackagesCome(t *testing.T) {
	k, _ := keeping(t)
	asked, stateDir := make(chan struct{}, 1), t.TempDir()
	open := func() *engine.Engine {
		e, err := engine.New(engine.Config{
			Backends: []sandbox.Backend{k}, Languages: lang.All(),
			Living:   engine.LivingConfig{StateDir: stateDir, Store: k},
			Packages: never{asked: func() { asked <- struct{}{} }}})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	first := open()
	s, _, err := first.Create(within(t), engine.Create{})
	if err != nil {
		t.Fatal(err)
	}
	inContext := adding("python", "1", "a")
	inProcess := adding("python", "", "a")
	inProcess.Request.Code, inProcess.Request.Entry, inProcess.Background = nil, "a.py", true
	unstarted := func(x *engine.Run, how string) {
		t.Helper()
		if r, err := x.Wait(within(t)); err != nil || r.Status != sandbox.StatusCanceled {
			t.Errorf("%s: %+v, %v", how, r, err)
		}
	}
	for how, end := range map[string]func(*engine.Context) error{
		"interrupt": func(c *engine.Context) error { return c.Interrupt(within(t)) },
		"delete":    func(c *engine.Context) error { return c.Delete(within(t)) },
	} {
		x, err := s.Start(within(t), inContext)
		if err != nil {
			t.Fatal(err)
		}
		<-asked
		c, err := s.Context(sandbox.DefaultContext)
		if err == nil {
			err = end(c)
		}
		if err != nil {
			t.Error(err)
		}
		unstarted(x, how)
	}
	x, err := s.Start(within(t), inProcess)
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	second := open()
	defer second.Close()
	if gone := second.Resume(within(t), []sandbox.Record{k.records[s.ID()]}); len(gone) != 0 {
		t.Fatalf("gone: %+v", gone)
	}
	if s, err = second.Sandbox(within(t), "", string(s.ID())); err == nil {
		x, err = s.FindRun(x.ID())
	}
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	x.Cancel()
	unstarted(x, "the next server")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestSurveyAsCode: where interpreters wait, the survey of a run is a program for one of them, unless it would be in
// the way of a file of the run or fails there.
func TestSurveyAsCode(t *testing.T) {
	main := []sandbox.File{{Path: "main.py", Data: []byte("print('of the run')")}}
	for _, c := range []struct {
		warm  int
		code  string
		files []sandbox.File
		want  string
	}{
		{1, "print(open('x').read())", []sandbox.File{{Path: "x", Data: []byte("file")}}, "file\n"},
		{1, "exit(1)", nil, "command question"},
		{1, "print('code')", main, "command question"},
		{0, "print('code')", nil, "command question"},
	} {
		p := &pretended{before: func(ctx context.Context, _ sandbox.PackageNeed, work sandbox.Worker) error {
			r, err := work(ctx, sandbox.Work{Survey: true, Stdin: []byte("question"), Code: []byte(c.code),
				Command: func(string) []string { return []string{"bash", "-c", "echo -n 'command '; cat"} }})
			if err == nil && string(r.Stdout.Head) != c.want {
				t.Errorf("%q: %q, want %q", c.code, r.Stdout.Head, c.want)
			}
			return err
		}}
		r := newRig(t, engine.Config{Languages: lang.All(), Packages: p, Warm: c.warm})
		r.run(t, engine.OneShot{Request: sandbox.Request{
			Language: "python", Code: []byte("1"), FileName: "app.py", Files: c.files,
			Packages: sandbox.Packages{Auto: true},
			Progress: func(string) {}}})
	}
}

// TestRequirementFiles: what one run reads of files that list requirements is bounded together.
func TestRequirementFiles(t *testing.T) {
	s := newRig(t, engine.Config{Languages: lang.All(), Packages: &pretended{}}).make(t, engine.Create{})
	for _, name := range []string{"a.txt", "b.txt"} {
		if err := s.WriteFile(within(t), "/workspace/"+name, 0,
			strings.NewReader(strings.Repeat("#\n", 300<<10)+"a\n")); err != nil {
			t.Fatal(err)
		}
	}
	if r := do(t, s, code("python", "%pip install -r a.txt")); len(r.Packages) != 1 {
		t.Errorf("one file: %+v", r)
	}
	_, err := s.Run(within(t), code("python", "%pip install -r a.txt -r b.txt"))
	refused(t, "two files of 600 KiB", err, sandbox.TooLarge, "over 1MiB together")
}
