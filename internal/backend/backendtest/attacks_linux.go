package backendtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

var attackSeed = flag.Uint64("attack-seed", 0, "seed of the attacks' order; 0 takes a random one, which is logged")

// attackWorkers is how many attacks run at the same time in the second round.
const attackWorkers = 32

// settleTime is how long what an attack used may take to be gone.
const settleTime = 5 * time.Second

// crowdedSettleTime is the same where dozens of attacks share the processors: what is killed still needs some of their time to end.
const crowdedSettleTime = 30 * time.Second

// Attacks runs the attack corpus against a backend with walls: each probe first without walls, where it must work; then one at a time,
// with a leak check and a run that must be right after each; then all of them at once, with such runs in between.
func Attacks(t *testing.T, open Open) {
	corpus, err := readCorpus()
	if err != nil {
		t.Fatal(err)
	}
	seed := *attackSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-attack-seed=%d", seed)
	order := rand.New(rand.NewPCG(seed, 0))
	shuffle := func() { order.Shuffle(len(corpus), func(i, j int) { corpus[i], corpus[j] = corpus[j], corpus[i] }) }
	c := plant(t)

	t.Run("without walls", func(t *testing.T) {
		for _, a := range corpus {
			if a.control.kind != "none" {
				t.Run(a.id, func(t *testing.T) { runControl(t, a, c) })
			}
		}
	})
	shuffle()
	t.Run("one at a time", func(t *testing.T) {
		n := newArena(t, &arena{canaries: c, alone: true}, open)
		for _, a := range corpus {
			t.Run(a.id, func(t *testing.T) {
				n.attack(t, a)
			})
			n.settled(t, a.id)
		}
	})
	shuffle()
	t.Run("at once", func(t *testing.T) {
		n := newArena(t, &arena{canaries: c}, open)
		n.allAtOnce(t, corpus)
		n.settled(t, "all of them")
	})
}

// arena is a backend and an engine under attack, with all that must stay as it is.
type arena struct {
	spy      *spy
	engine   *engine.Engine
	log      *lockedBuffer
	canaries *canaries
	host     hostState
	clock    time.Duration
	weaker   []string // what this host cannot do and the attacks go without
	alone    bool     // one attack at a time: figures of the whole process mean something
	warm     int      // as in the engine's configuration; boxes are not kept, but interpreters are

	languages []sandbox.Language // of the attacks; none are attackLanguages

	hits       atomic.Int64 // before
	benigns    atomic.Int64 // ordinary runs
	goroutines int
	fds        int
	mounts     int
	children   int
	ports      atomic.Int32
}

// Figures of the arena's engine.
const (
	attackSlots   = 96 // attacks with their neighbours and benign runs
	firstTestPort = 20_000
	manyTestPorts = 20_000
)

// newArena completes an arena of which is said what is attacked, and how.
func newArena(t *testing.T, n *arena, open Open) *arena {
	t.Helper()
	n.spy, n.log = &spy{Backend: open(t), seen: map[string][]*sighting{}, labelled: n.warm > 0}, &lockedBuffer{}
	n.host, n.clock = readHost(), clockDistance()
	n.hits.Store(n.canaries.hits.Load())
	n.ports.Store(rand.Int32N(manyTestPorts / 2))
	languages := n.languages
	for _, l := range attackLanguages {
		if len(n.languages) == 0 {
			languages = append(languages, *l)
		}
	}
	var err error
	n.engine, err = engine.New(engine.Config{Backends: []sandbox.Backend{n.spy}, Languages: languages, Slots: attackSlots, Warm: n.warm,
		Log: n.log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.engine.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	n.accept(t)
	n.benign(t) // whatever is made once is made now
	for end := time.Now().Add(crowdedSettleTime); n.warm > 0 && n.engine.Stats().Forked == 0; n.benign(t) {
		if time.Now().After(end) {
			t.Fatal("no interpreter waits to be forked")
		}
	}
	time.Sleep(100 * time.Millisecond)
	n.goroutines, n.fds, n.mounts, n.children = runtime.NumGoroutine(), openFiles(), mountCount(), childCount()
	return n
}

// accept finds out whether the default sandbox can be had here, as an ordinary user without control groups cannot limit memory. Attacks
// that are about a limit that is missing are not run then, and say so.
func (n *arena) accept(t *testing.T) {
	t.Helper()
	asked := spec()
	asked.Labels = map[string]string{labelTrial: "none"}
	box, err := n.spy.Create(within(t), asked)
	if sandbox.KindOf(err) == sandbox.Unsupported && err != nil {
		t.Logf("WEAKER: the attacks go without a memory limit: %v", err)
		n.weaker = []string{string(sandbox.LimitMemory)}
		return
	}
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if err := box.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// port returns a port that no other trial uses.
func (n *arena) port() int { return firstTestPort + int(n.ports.Add(1))%manyTestPorts }

// benign makes an ordinary run, which must be right whatever goes on beside it.
func (n *arena) benign(t *testing.T) {
	t.Helper()
	n.benigns.Add(1)
	r, err := n.engine.Run(within(t), engine.Run{Spec: sandbox.Spec{AcceptWeaker: n.weaker, Labels: map[string]string{labelTrial: "none"}},
		Request: sandbox.Request{Language: "python", Code: []byte("print(1+1)"), Timeout: time.Minute}})
	if err != nil {
		t.Errorf("an ordinary run: %v", err)
		return
	}
	if r.Status != sandbox.StatusSucceeded || string(r.Stdout.Head) != "2\n" {
		t.Errorf("an ordinary run: %s, %q, %q, %s", r.Status, r.Stdout.Head, r.Stderr.Head, r.Hint)
	}
}

// attack runs one attack and all checks after it.
func (n *arena) attack(t *testing.T, a *attack) {
	tr := newTrial(t, n, a)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s %s: %s\nit must hold: %s\nwhat decides: %s", a.id, a.class, a.title, a.expect, a.oracle)
		}
	})
	tr.run()
	tr.gone()
	if what := n.canaries.intact(); what != "" {
		t.Errorf("a planted place was changed: %s", what)
	}
	hits := n.canaries.hits.Load()
	if before := n.hits.Swap(hits); hits != before {
		n.canaries.mu.Lock()
		t.Errorf("a planted listener was reached %d times: %s", hits-before, n.canaries.last)
		n.canaries.mu.Unlock()
	}
	if what := n.host.changed(); what != "" {
		t.Errorf("the host was changed: %s", what)
	}
	if moved := clockDistance() - n.clock; moved.Abs() > clockSlack {
		t.Errorf("the host's clock was set: %v", moved)
	}
	if what := n.spy.complaints(); what != "" {
		t.Error(what)
	}
	n.benign(t)
}

// settled checks that what this process holds is what it held at the beginning.
func (n *arena) settled(t *testing.T, after string) {
	t.Helper()
	var what string
	for end := time.Now().Add(settleTime); ; time.Sleep(20 * time.Millisecond) {
		if what = n.over(); what == "" {
			return
		}
		if time.Now().After(end) {
			break
		}
	}
	var stacks strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
	t.Errorf("%v after the end of %s there are %s\n%s", settleTime, after, what, stacks.String())
}

func (n *arena) over() string {
	switch {
	case runtime.NumGoroutine() > n.goroutines:
		return fmt.Sprintf("%d goroutines, before there were %d", runtime.NumGoroutine(), n.goroutines)
	case openFiles() > n.fds:
		return fmt.Sprintf("%d open files, before there were %d: %s", openFiles(), n.fds, openFileNames())
	case mountCount() > n.mounts:
		return fmt.Sprintf("%d mounts, before there were %d", mountCount(), n.mounts)
	case childCount() > n.children:
		return fmt.Sprintf("%d children, before there were %d", childCount(), n.children)
	}
	return ""
}

// allAtOnce runs all attacks with many workers, while ordinary runs go on beside them.
func (n *arena) allAtOnce(t *testing.T, corpus []*attack) {
	queue := make(chan *attack, len(corpus))
	for _, a := range corpus {
		queue <- a
	}
	close(queue)
	var workers, others sync.WaitGroup
	over := make(chan struct{})
	var benign atomic.Int64
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					n.benign(t)
					benign.Add(1)
				}
			}
		})
	}
	for range attackWorkers {
		workers.Go(func() {
			for a := range queue {
				t.Run(a.id, func(t *testing.T) { n.attack(t, a) })
			}
		})
	}
	workers.Wait()
	close(over)
	others.Wait()
	t.Logf("%d ordinary runs beside them", benign.Load())
}

func openFiles() int {
	fds, _ := os.ReadDir("/proc/self/fd")
	return len(fds)
}

func openFileNames() string {
	fds, _ := os.ReadDir("/proc/self/fd")
	var names []string
	for _, fd := range fds {
		if link, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			names = append(names, link)
		}
	}
	return strings.Join(names, " ")
}

func mountCount() int {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	return strings.Count(string(text), "\n")
}

// childCount is how many processes this one has, dead ones included.
func childCount() int {
	tasks, _ := os.ReadDir("/proc/self/task")
	count := 0
	for _, task := range tasks {
		text, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		count += len(strings.Fields(string(text)))
	}
	return count
}
