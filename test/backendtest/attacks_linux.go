package backendtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/attack"
)

var attackSeed = flag.Uint64("attack-seed", 0, "seed of the attacks' order; 0 takes a random one, which is logged")

// AttackWorkers is how many attacks run at the same time on a capable machine.
const AttackWorkers = 32

// shortWorkers is how many attacks -short runs at once: two busy processors can handle them.
const shortWorkers = 4

// sample has an attack of most kinds. All are fast on any backend.
var sample = []string{"F01", "F07", "P01", "D01", "V01", "N01", "R03", "T01", "E01", "S01", "A02", "X01"}

// AttackControls runs each probe without isolation, where it must work: a probe that finds nothing there proves nothing
// in a sandbox. It does not depend on the backend, so it runs once.
func AttackControls(t *testing.T) {
	corpus, err := attack.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	c := plant(t)
	for _, a := range corpus {
		if a.Control.Kind != "none" {
			t.Run(a.ID, func(t *testing.T) { runControl(t, a, c) })
		}
	}
}

// Attacks runs the attack corpus against a real backend: one attack at a time, then workers at once. With -short it
// runs once, a few at a time.
func Attacks(t *testing.T, open Open, workers int) {
	if testing.Short() {
		attacksAtOnce(t, open, shuffled(t), min(workers, shortWorkers))
		return
	}
	t.Run("one at a time", func(t *testing.T) { AttacksAlone(t, open) })
	t.Run("at once", func(t *testing.T) { attacksAtOnce(t, open, shuffled(t), workers) })
}

// AttackSample runs a dozen attacks, two at a time: for -short on a slow backend.
func AttackSample(t *testing.T, open Open) {
	corpus := slices.DeleteFunc(shuffled(t), func(a *attack.Attack) bool { return !slices.Contains(sample, a.ID) })
	if len(corpus) != len(sample) {
		t.Fatalf("of %v the corpus has %d", sample, len(corpus))
	}
	attacksAtOnce(t, open, corpus, 2)
}

// AttacksAlone runs the corpus one attack at a time, with a leak check and an ordinary run after each.
func AttacksAlone(t *testing.T, open Open) {
	corpus := shuffled(t)
	n := newArena(t, open, attack.Options{Canaries: plant(t), Alone: true})
	for _, a := range corpus {
		t.Run(a.ID, func(t *testing.T) { n.try(t, a) })
		n.settled(t, a.ID)
	}
}

// attacksAtOnce runs many attacks at the same time, with ordinary runs in between.
func attacksAtOnce(t *testing.T, open Open, corpus []*attack.Attack, workers int) {
	n := newArena(t, open, attack.Options{Canaries: plant(t)})
	n.allAtOnce(t, corpus, workers)
	n.settled(t, "all of them")
}

// shuffled returns the corpus in the order of the seed.
func shuffled(t *testing.T) []*attack.Attack {
	t.Helper()
	corpus, err := attack.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	seed := *attackSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-attack-seed=%d", seed)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(corpus), func(i, j int) { corpus[i], corpus[j] = corpus[j], corpus[i] })
	return corpus
}

// plant makes the canaries, and removes them at the end of the test.
func plant(t *testing.T) *attack.Canaries {
	t.Helper()
	c, err := attack.Plant()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("take the canaries away: %v", err)
		}
	})
	return c
}

// arena is a backend under attack, and the resources that this process may hold: those from before, and those of an
// engine's client.
type arena struct {
	*attack.Arena
	folder     string // of the test, below which the backend mounts what it mounts
	goroutines int
	fds        int
	mounts     int
	children   int
}

// newArena opens an arena that is closed at the end of the test.
func newArena(t *testing.T, open Open, o attack.Options) *arena {
	t.Helper()
	folder := filepath.Dir(t.TempDir()) // of all temporary folders of this test
	o.Backend, o.Folders = open(t), []string{folder}
	if o.Alone {
		o.WithoutWalls = callsWithoutWalls
	}
	opened, err := attack.Open(within(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	if weaker := opened.Unenforced(); len(weaker) > 0 {
		t.Logf("WEAKER: the attacks waive %v", weaker)
	}
	idle, files := 0, openFiles()
	switch o.Backend.Name() {
	case "docker", "podman":
		idle = idleConnections
	case "native":
		files += volumeTemplate
	}
	goroutines := runtime.NumGoroutine() + 2*idle + weighing
	return &arena{opened, folder, goroutines, files + idle, mountCount(folder), childCount()}
}

// weighing is the goroutine that an engine has from its first living sandbox to its end.
const weighing = 1

// volumeTemplate is how many descriptors native keeps for the next sandbox with a volume at the path of the attacks:
// its mount namespace, and a watch of the mounts in it.
const volumeTemplate = 2

// idleConnections is how many idle connections an engine's client keeps, each with two goroutines (moby/client,
// MaxIdleConns).
const idleConnections = 6

// try makes one attack, which must be contained.
func (n *arena) try(t *testing.T, a *attack.Attack) {
	v := n.Try(t.Context(), a)
	for _, note := range v.Notes {
		t.Log(note)
	}
	switch v.Outcome {
	case attack.NotApplicable:
		t.Skipf("NOT RUN: %s", v.Why)
	case attack.NotContained, attack.Unclear:
		for _, finding := range v.Findings {
			t.Error(finding)
		}
		if v.Why != "" {
			t.Error(v.Why)
		}
		t.Logf("%s %s: %s\nit must hold: %s\nwhat decides: %s", a.ID, a.Class, a.Title, a.Expect, a.Oracle)
	}
}

// settled checks that this process holds no more resources than at the beginning.
func (n *arena) settled(t *testing.T, after string) {
	t.Helper()
	var what string
	for end := time.Now().Add(stepTimeout); ; time.Sleep(20 * time.Millisecond) {
		if what = n.over(); what == "" {
			return
		}
		if time.Now().After(end) {
			break
		}
	}
	var stacks strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
	t.Errorf("%v after the end of %s there are %s\n%s", stepTimeout, after, what, stacks.String())
}

func (n *arena) over() string {
	switch {
	case runtime.NumGoroutine() > n.goroutines:
		return fmt.Sprintf("%d goroutines, there may be %d", runtime.NumGoroutine(), n.goroutines)
	case openFiles() > n.fds:
		return fmt.Sprintf("%d open files, there may be %d: %s", openFiles(), n.fds, openFileNames())
	case mountCount(n.folder) > n.mounts:
		return fmt.Sprintf("%d mounts, before there were %d", mountCount(n.folder), n.mounts)
	case childCount() > n.children:
		return fmt.Sprintf("%d children, before there were %d", childCount(), n.children)
	}
	return ""
}

// allAtOnce runs all attacks with many workers, and ordinary runs beside them.
func (n *arena) allAtOnce(t *testing.T, corpus []*attack.Attack, workers int) {
	queue := make(chan *attack.Attack, len(corpus))
	for _, a := range corpus {
		queue <- a
	}
	close(queue)
	var busy, others sync.WaitGroup
	over := make(chan struct{})
	var benign atomic.Int64
	for range min(2, workers/2) {
		others.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					if err := n.Benign(t.Context()); err != nil {
						t.Error(err)
					}
					benign.Add(1)
				}
			}
		})
	}
	for range workers {
		busy.Go(func() {
			for a := range queue {
				t.Run(a.ID, func(t *testing.T) { n.try(t, a) })
			}
		})
	}
	busy.Wait()
	close(over)
	others.Wait()
	t.Logf("%d ordinary runs beside %d attacks at a time", benign.Load(), workers)
}

// keptFiles is how many descriptors a prepared root holds: it comes and goes with the host's mounts, which others
// change.
const keptFiles = 2

// openFiles counts this process's open files, except those of one prepared root.
func openFiles() int {
	kept, others := 0, 0
	for _, name := range openFileNames() {
		if strings.HasPrefix(name, "mnt:[") || strings.HasSuffix(name, "/mounts") ||
			strings.HasSuffix(name, "/mountinfo") {
			kept++
		} else {
			others++
		}
	}
	return others + max(0, kept-keptFiles)
}

func openFileNames() (names []string) {
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if link, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			names = append(names, link)
		}
	}
	return names
}

// mountCount counts the mounts below a folder.
func mountCount(folder string) int {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	return strings.Count(string(text), " "+folder+"/")
}

// childCount counts this process's children, dead ones included.
func childCount() int {
	tasks, _ := os.ReadDir("/proc/self/task")
	count := 0
	for _, task := range tasks {
		text, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		count += len(strings.Fields(string(text)))
	}
	return count
}
