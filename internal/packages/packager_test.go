package packages

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	r := &rig{t: t, root: sandbox.PackageSurvey{Platform: "p", Installer: "i", Index: "https://index.test/",
		Hosts: []string{"files.test"}}, content: "1"}
	r.p = New(Config{Dir: t.TempDir()})
	return r
}

func (r *rig) need(packages sandbox.Packages) sandbox.PackageNeed {
	command := func(name string) func(string) []string { return func(string) []string { return []string{name} } }
	plain := func(s string) bool { return s != "" && !strings.ContainsAny(s, "/-") }
	return sandbox.PackageNeed{Packages: packages, Language: sandbox.Language{Name: "l",
		Installer: &sandbox.Installer{At: "/at", Survey: command("survey"),
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

// TestSupplyOfOthers: no data of one request reaches the packages of another.
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

// TestLongCode: a survey gets the whole code up to the limit. Longer code is refused without a survey.
func TestLongCode(t *testing.T) {
	r := newRig(t)
	longest := 0
	work := func(ctx context.Context, w sandbox.Work) (*sandbox.Result, error) {
		longest = max(longest, len(w.Stdin))
		return r.work(ctx, w)
	}
	need := r.need(sandbox.Packages{Auto: true})
	need.Code = []byte(strings.Repeat("<", maxSurveyed))
	if _, err := r.p.Supply(t.Context(), need, work); err != nil || longest < len(need.Code) ||
		longest > len(need.Code)+1000 {
		t.Errorf("%d bytes for %d of code: %v", longest, len(need.Code), err)
	}
	longest = 0
	need.Code = append(need.Code, '<')
	if _, err := r.p.Supply(t.Context(), need, work); sandbox.KindOf(err) != sandbox.TooLarge ||
		sandbox.FixOf(err) == "" || longest > 0 {
		t.Errorf("longer code: %v", err)
	}
	need.Packages = sandbox.Packages{Requirements: []string{"a"}}
	if _, err := r.p.Supply(t.Context(), need, work); err != nil || longest > 1000 {
		t.Errorf("%d bytes for a package: %v", longest, err)
	}
}

// TestLivingSurvey: a sandbox that ran code determines which packages it needs, but not from which index.
func TestLivingSurvey(t *testing.T) {
	r := newRig(t)
	r.code = sandbox.PackageSurvey{Platform: "hostile", Installer: "i", Index: "http://169.254.169.254/",
		Hosts: []string{"*"}, Found: []sandbox.Import{{Name: "a"}}}
	need := r.need(sandbox.Packages{Auto: true})
	need.Open = true
	r.receipt.Missing = []string{"a", "\x1b[2J", "b"}
	s, _ := r.supply(need)
	if got := r.network.Allow; !slices.Equal(got, []string{"index.test:443", "files.test"}) ||
		!slices.Equal(s.Missing, []string{"a"}) {
		t.Errorf("%q, %q", got, s.Missing)
	}
	for _, host := range []string{"10.0.0.1", "127.1", "[::1]:80", "localhost", "*.test", "*", "10.0.0.0/8", "a.test/x",
		""} {
		r.root.Hosts = []string{host}
		if _, err := r.p.Supply(t.Context(), r.need(sandbox.Packages{Requirements: []string{"x"}}),
			r.work); err == nil {
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
		o, _, _ := (&job{need: &need}).order(&sandbox.PackageSurvey{Requirements: []string{"a.b"},
			Found: []sandbox.Import{{Name: "A_b"}}})
		c := newCache(t)
		if _, err := draftOf(t, c, nil).publish(Layer{Language: "l",
			Packages: []sandbox.Package{{Name: "a.b"}}}); err != nil {
			t.Fatal(err)
		}
		why, err := c.Why("A_b", []sandbox.Language{need.Language})
		if (len(o.Found) == 0) != folds || (len(why) == 1) != folds || err != nil {
			t.Errorf("names are folded: %v; installed are %q and %q, why knows %d (%v)", folds, o.Requirements, o.Found,
				len(why), err)
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
