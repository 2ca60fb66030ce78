package packages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/lang/javascript"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// rig has a packager whose sandboxes are a function, which answers as a survey and an installer of a root would.
type rig struct {
	t       *testing.T
	p       *Packager
	root    sandbox.PackageSurvey  // of a sandbox that ran no code
	code    sandbox.PackageSurvey  // of the sandbox of the code
	receipt sandbox.PackageReceipt // of installers
	content string                 // of the one file that they install

	mu       sync.Mutex
	installs int
	surveys  int                   // of the root
	network  sandbox.NetworkPolicy // of the last
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, root: sandbox.PackageSurvey{Platform: "p", Installer: "i", Index: "https://index.test/", Hosts: []string{"files.test"}}, content: "1"}
	r.p = New(Config{Dir: t.TempDir()})
	return r
}

func (r *rig) need(packages sandbox.Packages) sandbox.PackageNeed {
	command := func(name string) func(string) []string { return func(string) []string { return []string{name} } }
	plain := func(s string) bool { return s != "" && !strings.ContainsAny(s, "/-") }
	return sandbox.PackageNeed{Packages: packages, Language: sandbox.Language{Name: "l", Installer: &sandbox.Installer{At: "/at", Survey: command("survey"),
		Install: command("install"), Valid: plain, ValidLock: plain}}}
}

func (r *rig) work(_ context.Context, w sandbox.Work) (*sandbox.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := any(r.receipt)
	switch {
	case w.Command("")[0] == "install":
		r.installs++
		r.network = w.Network
		w.Output(sandbox.Stderr, []byte("step\x1b[2J\n"))
		if err := w.Take(sandbox.FileInfo{Path: "file"}, strings.NewReader(r.content)); err != nil {
			return nil, err
		}
	case w.Survey:
		answer = r.code
	default:
		var q sandbox.PackageQuestion
		if err := json.Unmarshal(w.Stdin, &q); err != nil {
			return nil, err
		}
		r.surveys++
		survey := r.root
		survey.Requirements = q.Requirements
		answer = survey
	}
	text, err := json.Marshal(answer)
	return &sandbox.Result{Status: sandbox.StatusSucceeded, Stdout: sandbox.Captured{Head: text}}, err
}

func (r *rig) supply(need sandbox.PackageNeed) (*sandbox.Supply, string) {
	r.t.Helper()
	s, err := r.p.Supply(context.Background(), need, r.work)
	if err != nil {
		r.t.Fatal(err)
	}
	s.Release()
	return s, filesOf(r.t, s.Layers[0].Dir)["file"]
}

// TestSupplyOfOthers: nothing that one request brings along becomes what another gets.
func TestSupplyOfOthers(t *testing.T) {
	r := newRig(t)
	r.receipt.Lock, r.content = "lock", "hostile"
	hostile := r.need(sandbox.Packages{Requirements: []string{"a"}})
	hostile.Root.Image = "hostile" // its programs say what they like
	r.supply(hostile)
	r.content = "good"
	if _, got := r.supply(r.need(sandbox.Packages{Requirements: []string{"a"}})); got != "good" {
		t.Error("a root's packages were given to another root")
	}
	r.content = "hostile"
	r.supply(r.need(sandbox.Packages{Requirements: []string{"evil"}, AllowBuild: true})) // which wrote the receipt
	r.content = "good"
	if _, got := r.supply(r.need(sandbox.Packages{Lock: "lock", AllowBuild: true})); got != "good" {
		t.Error("a package decided what a lock brings")
	}
	r.content = "other"
	if _, got := r.supply(r.need(sandbox.Packages{Lock: "lock"})); got != "good" || r.installs != 4 {
		t.Errorf("the lock of what was installed without code of packages: %q after %d", got, r.installs)
	}
}

// TestLongCode: a survey gets code at its length, and none that it does not read; of longer code it is not asked.
func TestLongCode(t *testing.T) {
	r := newRig(t)
	longest := 0
	work := func(ctx context.Context, w sandbox.Work) (*sandbox.Result, error) {
		longest = max(longest, len(w.Stdin))
		return r.work(ctx, w)
	}
	need := r.need(sandbox.Packages{Auto: true})
	need.Code = []byte(strings.Repeat("<", maxSurveyed))
	if _, err := r.p.Supply(t.Context(), need, work); err != nil || longest < len(need.Code) || longest > len(need.Code)+1000 {
		t.Errorf("%d bytes for %d of code: %v", longest, len(need.Code), err)
	}
	longest = 0
	need.Code = append(need.Code, '<')
	if _, err := r.p.Supply(t.Context(), need, work); sandbox.KindOf(err) != sandbox.TooLarge || sandbox.FixOf(err) == "" || longest > 0 {
		t.Errorf("longer code: %v", err)
	}
	need.Packages = sandbox.Packages{Requirements: []string{"a"}}
	if _, err := r.p.Supply(t.Context(), need, work); err != nil || longest > 1000 {
		t.Errorf("%d bytes for a package: %v", longest, err)
	}
}

// TestLivingSurvey: a sandbox that ran code says what it needs, and not from where.
func TestLivingSurvey(t *testing.T) {
	r := newRig(t)
	r.code = sandbox.PackageSurvey{Platform: "hostile", Installer: "i", Index: "http://169.254.169.254/", Hosts: []string{"*"}, Found: []sandbox.Import{{Name: "a"}}}
	need := r.need(sandbox.Packages{Auto: true})
	need.Open = true
	r.receipt.Missing = []string{"a", "\x1b[2J", "b"}
	s, _ := r.supply(need)
	if got := r.network.Allow; !slices.Equal(got, []string{"index.test:443", "files.test"}) || !slices.Equal(s.Missing, []string{"a"}) {
		t.Errorf("%q, %q", got, s.Missing)
	}
	for _, host := range []string{"10.0.0.1", "127.1", "[::1]:80", "localhost", "*.test", "*", "10.0.0.0/8", "a.test/x", ""} {
		r.root.Hosts = []string{host}
		if _, err := r.p.Supply(t.Context(), r.need(sandbox.Packages{Requirements: []string{"x"}}), r.work); err == nil {
			t.Errorf("a root's installer may reach %q", host)
		}
	}
}

// TestNames: "a.b" and "a-b" are one package only where the index says so.
func TestNames(t *testing.T) {
	for _, folds := range []bool{false, true} {
		r := newRig(t)
		need := r.need(sandbox.Packages{Auto: true})
		need.Language.Installer.Folds = folds
		o, _, _ := (&job{need: &need}).order(&sandbox.PackageSurvey{Requirements: []string{"a.b"}, Found: []sandbox.Import{{Name: "A_b"}}})
		c := newCache(t)
		if _, err := draftOf(t, c, nil).publish(Layer{Language: "l", Packages: []sandbox.Package{{Name: "a.b"}}}); err != nil {
			t.Fatal(err)
		}
		why, err := c.Why("A_b", []sandbox.Language{need.Language})
		if (len(o.Found) == 0) != folds || (len(why) == 1) != folds || err != nil {
			t.Errorf("names are folded: %v; installed are %q and %q, why knows %d (%v)", folds, o.Requirements, o.Found, len(why), err)
		}
	}
}

// TestLockStays: a lock has no time to live.
func TestLockStays(t *testing.T) {
	r := newRig(t)
	r.p.config.TTL = time.Nanosecond
	for _, packages := range []sandbox.Packages{{Lock: "lock"}, {Requirements: []string{"a"}}} {
		r.supply(r.need(packages))
		r.supply(r.need(packages))
	}
	if r.installs != 3 {
		t.Errorf("%d installs", r.installs)
	}
}

// TestSupplyAtOnce: equal needs install once, and a layer is kept though the cache is too small for it.
func TestSupplyAtOnce(t *testing.T) {
	r := newRig(t)
	r.p.config.MaxBytes = 1
	var all sync.WaitGroup
	start := make(chan struct{})
	for range 50 {
		all.Go(func() {
			<-start
			if s, err := r.p.Supply(t.Context(), r.need(sandbox.Packages{Requirements: []string{"a"}}), r.work); err != nil {
				t.Error(err)
			} else {
				s.Release()
			}
		})
	}
	close(start)
	all.Wait()
	if r.installs != 1 {
		t.Errorf("%d installs", r.installs)
	}
	if left := filesOf(t, r.p.cache.path(requestsDir)); len(left) != 2 {
		t.Errorf("left: %q", left)
	}
}

// TestSupplyKeeps: a layer that was just installed is there for all who waited for it, though others prune the cache
// meanwhile.
func TestSupplyKeeps(t *testing.T) {
	r := newRig(t)
	need := r.need(sandbox.Packages{Requirements: []string{"a"}})
	pruned := false
	need.Progress = func(string) {
		if pruned {
			return
		}
		pruned = true
		for ended := false; !ended; time.Sleep(time.Millisecond) { // all is installed, and we are yet to hold it
			r.p.flights.mu.Lock()
			ended = len(r.p.flights.all) == 0
			r.p.flights.mu.Unlock()
		}
		if _, err := r.p.cache.Prune(0); err != nil {
			t.Error(err)
		}
	}
	if _, got := r.supply(need); got != "1" || !pruned {
		t.Errorf("%q, pruned: %v", got, pruned)
	}
	if removed, err := r.p.cache.Prune(0); len(removed) != 1 || err != nil {
		t.Errorf("it is still held: %v", err)
	}
}

// TestFlights: work ends once nobody waits for it, and not before. Progress is told to all that wait, and to nobody
// else.
func TestFlights(t *testing.T) {
	var f flights
	begun, told := make(chan func(string)), make(chan string)
	end := make(chan struct{})
	released := 0
	work := func(ctx context.Context, tell func(string)) (kept, error) {
		begun <- tell
		select {
		case <-ctx.Done():
			return kept{}, ctx.Err()
		case <-end:
			return kept{answer{Digest: "d"}, func() { released++ }}, nil
		}
	}
	type outcome struct {
		kept
		err error
	}
	ask := func(tell func(string)) (cancel func(), out chan outcome) {
		ctx, cancel := context.WithCancel(t.Context())
		out = make(chan outcome, 1)
		go func() {
			a, err := f.do(ctx, "key", tell, work)
			out <- outcome{a, err}
		}()
		return cancel, out
	}
	cancelFirst, first := ask(func(string) { t.Error("the first was told after its end") })
	tell := <-begun
	cancelSecond, second := ask(func(line string) { told <- line })
	for waiting := 0; waiting < 2; {
		f.mu.Lock()
		waiting = len(f.all["key"].waiting)
		f.mu.Unlock()
	}
	cancelFirst()
	if o := <-first; !errors.Is(o.err, context.Canceled) {
		t.Errorf("%+v", o)
	}
	for range 2 * maxPending { // nobody listens yet
		tell("line")
	}
	if line := <-told; line != "line" {
		t.Errorf("%q", line)
	}
	go func() {
		for range told {
		}
	}()
	close(end)
	o := <-second
	if o.Digest != "d" || o.err != nil || released != 0 {
		t.Errorf("%+v, %d", o, released)
	}
	if o.release(); released != 1 {
		t.Errorf("released %d times", released)
	}
	cancelSecond()
	close(told)

	end = nil
	cancel, out := ask(nil)
	<-begun
	cancel()
	if o = <-out; !errors.Is(o.err, context.Canceled) || len(f.all) != 0 {
		t.Errorf("%+v, %d go on", o, len(f.all))
	}
}

// TestRequestKey: all that a survey sees makes another key, and nothing else does.
func TestRequestKey(t *testing.T) {
	r, id := newRig(t), ""
	key := func(change func(*sandbox.PackageNeed, *Index)) string {
		id = "d"
		need, index := r.need(sandbox.Packages{Auto: true, Requirements: []string{"ab", "c"}}), Index{URL: "u"}
		need.Name, need.Code, need.Root.Image = "n", []byte("code"), "i"
		need.Files = []sandbox.File{{Path: "a", Data: []byte("x\x00y")}, {Path: "b", Data: make([]byte, 2<<20)}}
		change(&need, &index)
		return requestKey(&need, id, index)
	}
	same := key(func(n *sandbox.PackageNeed, _ *Index) {
		slices.Reverse(n.Files)
		n.Root.Image = "another name"
	})
	keys := map[string]string{"nothing": key(func(*sandbox.PackageNeed, *Index) {})}
	for name, change := range map[string]func(*sandbox.PackageNeed, *Index){
		"language":     func(n *sandbox.PackageNeed, _ *Index) { n.Language.Name = "m" },
		"index":        func(_ *sandbox.PackageNeed, i *Index) { i.URL = "v" },
		"build":        func(n *sandbox.PackageNeed, _ *Index) { n.AllowBuild = true },
		"auto":         func(n *sandbox.PackageNeed, _ *Index) { n.Auto = false },
		"image":        func(n *sandbox.PackageNeed, _ *Index) { id = "e" },
		"name of it":   func(n *sandbox.PackageNeed, _ *Index) { id = "" },
		"another":      func(n *sandbox.PackageNeed, _ *Index) { id, n.Root.Image = "", "j" },
		"dir":          func(n *sandbox.PackageNeed, _ *Index) { n.Root = sandbox.Root{Dir: "/i"} },
		"requirements": func(n *sandbox.PackageNeed, _ *Index) { n.Requirements = []string{"a", "bc"} },
		"fewer":        func(n *sandbox.PackageNeed, _ *Index) { n.Requirements = []string{"ab"} },
		"lock":         func(n *sandbox.PackageNeed, _ *Index) { n.Lock = "l" },
		"name":         func(n *sandbox.PackageNeed, _ *Index) { n.Name = "m" },
		"code":         func(n *sandbox.PackageNeed, _ *Index) { n.Code = []byte("cod") },
		"data":         func(n *sandbox.PackageNeed, _ *Index) { n.Files[0].Data = []byte("x\x00z") },
		"path":         func(n *sandbox.PackageNeed, _ *Index) { n.Files[0].Path = "c" },
		"large":        func(n *sandbox.PackageNeed, _ *Index) { n.Files[1].Data[2<<20-1] = 1 },
		"files":        func(n *sandbox.PackageNeed, _ *Index) { n.Files = n.Files[:1] },
	} {
		keys[name] = key(change)
	}
	distinct := map[string]bool{}
	for k := range maps.Values(keys) {
		distinct[k] = true
	}
	if len(distinct) != len(keys) || same != keys["nothing"] {
		t.Errorf("%d keys of %d; the order of files or the image's name matters: %v", len(distinct), len(keys), same != keys["nothing"])
	}
	if open := key(func(n *sandbox.PackageNeed, _ *Index) { n.Open = true }); open != "" {
		t.Error("a run whose files are unknown has a key")
	}
}

// TestStatedImports: where the host can tell what code imports, other code that imports the same has its key; files
// have a say of their own.
func TestStatedImports(t *testing.T) {
	r := newRig(t)
	key := func(code, name string, files ...sandbox.File) string {
		need := r.need(sandbox.Packages{Auto: true})
		need.Code, need.Name, need.Files = []byte(code), name, files
		need.Language.Installer.Imports = func(code []byte) (found []sandbox.Import) {
			for _, word := range strings.Fields(string(code)) {
				found = append(found, sandbox.Import{Name: word, Line: len(code), Optional: word == "may"})
			}
			return found
		}
		return requestKey(&need, "d", Index{})
	}
	if key("b a", "n") != key("a\n\nb b", "n") {
		t.Error("the order or the place of imports matters")
	}
	file := sandbox.File{Path: "a"}
	distinct := map[string]bool{}
	for _, k := range []string{key("a b", "n"), key("a", "n"), key("a", "m"), key("ab", "n"), key("a may", "n"), key("a", "n", file), key(" a", "n", file), key("", "n"), key(" ", "n")} {
		distinct[k] = true
	}
	if len(distinct) != 9 {
		t.Errorf("%d keys of 9", len(distinct))
	}
}

// FuzzAnswers: whatever the sandboxes of a need answer is refused, or comes out as plain text within limits.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"platform": "p", "installer": "i", "index": "https://index.test/", "hosts": ["a.test"], "requirements": ["a", "-r x"], "found": [{"name": "b"}]}`),
		[]byte(`{"packages": [{"name": "a", "version": "1"}], "lock": "a\u001b", "missing": ["b", "c"], "error": "", "unknown": "x", "unbuilt": "y", "down": true}`))
	f.Fuzz(func(t *testing.T, survey, receipt []byte) {
		need := (&rig{}).need(sandbox.Packages{Auto: true})
		j := &job{need: &need, work: func(context.Context, sandbox.Work) (*sandbox.Result, error) {
			return &sandbox.Result{Status: sandbox.StatusSucceeded, Stdout: sandbox.Captured{Head: survey}}, nil
		}}
		s, err := j.survey(t.Context())
		if err != nil {
			return
		}
		o, dropped, optional := j.order(s)
		texts := append(slices.Concat(dropped, optional), summary(o))
		if policy, _, err := j.network(s, o.Index); err == nil && (len(policy.Allow) > 17 || strings.ContainsAny(strings.Join(policy.Allow, ""), "*/[")) {
			t.Errorf("an installer may reach %q", policy.Allow)
		}
		var got sandbox.PackageReceipt
		result := &sandbox.Result{Stdout: sandbox.Captured{Head: receipt}}
		if parse(result, &got) != nil {
			return
		}
		if err := j.refusal(&got, result); err != nil {
			texts = append(texts, err.Error())
		} else if j.check(&got, &o) == nil {
			texts = slices.Concat(texts, got.Missing, []string{got.Lock})
		}
		for _, text := range texts {
			if plainText(text) != text || len(text) > 2*maxWords && text != got.Lock {
				t.Errorf("%d bytes: %.200q", len(text), text)
			}
		}
	})
}

// TestFlightPanics: what panics while it reads what is hostile is an error of those who wait.
func TestFlightPanics(t *testing.T) {
	var f flights
	_, err := f.do(t.Context(), "key", func(string) {}, func(context.Context, func(string)) (kept, error) { panic("hostile") })
	if sandbox.KindOf(err) != sandbox.Internal || err == nil || len(f.all) > 0 {
		t.Errorf("%v, %v", err, f.all)
	}
}

// TestPasswordOfIndex: the password of an index goes to the installer's gate alone. What looks at the code never gets
// the address.
func TestPasswordOfIndex(t *testing.T) {
	const password = "canary-password"
	r := newRig(t)
	r.p.config.Indexes = map[string]Index{"": {URL: "https://reader:" + password + "@index.test/simple"}}
	var steps []string
	s, err := r.p.Supply(t.Context(), r.need(sandbox.Packages{Requirements: []string{"a"}}), func(ctx context.Context, w sandbox.Work) (*sandbox.Result, error) {
		steps = append(steps, fmt.Sprintf("%s %+v", w.Stdin, w.Network))
		return r.work(ctx, w)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Release()
	if len(steps) != 2 || strings.Contains(steps[0], "index.test") || !strings.Contains(steps[1], `"https://reader@index.test/simple"`) || strings.Contains(strings.Join(steps, ""), password) {
		t.Errorf("%q", steps)
	}
	want := []sandbox.Secret{{Name: secretName, Hosts: []string{"index.test:443"}, Value: password}}
	if !reflect.DeepEqual(r.network.Secrets, want) || !slices.Equal(r.network.Allow, want[0].Hosts) {
		t.Errorf("%+v", r.network)
	}
	for name, text := range filesOf(t, r.p.cache.dir) {
		if strings.Contains(text, password) {
			t.Errorf("%s has the password", name)
		}
	}
	if text := fmt.Sprintf("%+v", s); strings.Contains(text, password) {
		t.Errorf("%s", text)
	}
}

// TestOtherSpelling: a version in the way of another language's installer is told in that of the own one.
func TestOtherSpelling(t *testing.T) {
	for requirement, fix := range map[string]string{"lodash==4.17.21": "ask for lodash@4.17.21", "@s/a==1": "ask for @s/a@1", "../a==1": "", "a=1": ""} {
		need := &sandbox.PackageNeed{Packages: sandbox.Packages{Requirements: []string{requirement}}, Language: javascript.Language}
		if err := check(need); sandbox.KindOf(err) != sandbox.Invalid || sandbox.FixOf(err) != fix {
			t.Errorf("%s: %v", requirement, err)
		}
	}
}

// TestRefusals: each reason of an installer has a fix.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	need := r.need(sandbox.Packages{})
	need.Language.Installer.Popular = []string{"requests"}
	j := &job{need: &need}
	for _, c := range []struct {
		receipt sandbox.PackageReceipt
		hint    sandbox.HintCode
		kind    sandbox.Kind
		fix     string
	}{
		{sandbox.PackageReceipt{Down: true}, "", sandbox.Unavailable, "the index does not answer; try again"},
		{sandbox.PackageReceipt{Denied: true}, "", sandbox.Invalid, "the index requires a name and a password: "},
		{sandbox.PackageReceipt{Unbuilt: "a"}, "", sandbox.Invalid, "a has no built archive for this interpreter; to build one: --allow-build"},
		{sandbox.PackageReceipt{Unfit: "a"}, "", sandbox.Invalid, "a has no archive for this interpreter and system; "},
		{sandbox.PackageReceipt{Full: true}, "", sandbox.TooLarge, "the packages need more disk space than an installer has; "},
		{sandbox.PackageReceipt{Unknown: "requestss"}, "", sandbox.Invalid, "did you mean requests?"},
		{sandbox.PackageReceipt{Unknown: "zzz"}, "", sandbox.Invalid, "the index has no package of this name"},
		{sandbox.PackageReceipt{Down: true}, sandbox.HintRefused, sandbox.Unavailable, "if this host serves the index or its files, allow it: --package-host "},
	} {
		c.receipt.Error = "words"
		result := &sandbox.Result{}
		if c.hint != "" {
			result.Hints = []sandbox.Hint{{Code: c.hint}}
		}
		var e *sandbox.Error
		if err := j.refusal(&c.receipt, result); !errors.As(err, &e) || e.Kind != c.kind || !strings.HasPrefix(e.Fix, c.fix) {
			t.Errorf("%+v: %v", c.receipt, err)
		}
	}
}
