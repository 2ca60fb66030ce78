package engine_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestConservation drives many callers, some of which give up at random moments, through a small engine. Each gets one
// answer; no more boxes than allowed exist at once; those that are refused or leave the queue never start; in the end
// all is given back.
func TestConservation(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	const slots, queue, callers = 3, 6, 120
	rig := newRig(t, engine.Config{Slots: slots, Queue: queue, QueueTimeout: time.Second})
	var mu sync.Mutex
	answers := map[string]int{}
	var started int // results of runs that began
	var all sync.WaitGroup
	for range callers {
		pause, wait := time.Duration(r.IntN(2000))*time.Millisecond, time.Duration(r.IntN(600))*time.Millisecond
		if r.IntN(3) == 0 {
			wait = time.Minute
		}
		run := sh([]string{"exit 0", "exit 3", "sleep 0.05", "sleep 0.02; kill -9 $$"}[r.IntN(4)])
		all.Go(func() {
			time.Sleep(pause)
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			defer cancel()
			result, err := rig.Run(ctx, run)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && result != nil, err == nil && result == nil:
				t.Errorf("result %v and error %v", result, err)
			case err != nil:
				kind := sandbox.KindOf(err)
				if answers[kind.String()]++; kind != sandbox.Busy {
					t.Error(err)
				}
			case !result.Status.Terminal():
				t.Errorf("status %s", result.Status)
			default:
				answers[string(result.Status)]++
				if result.Timings.Run > 0 {
					started++
				}
			}
		})
	}
	all.Wait()
	t.Logf("answers %v", answers)
	total := 0
	for kind, n := range answers {
		total += n
		if !slices.Contains([]string{"busy", "canceled", "succeeded", "failed", "killed"}, kind) {
			t.Errorf("%d answers of %s", n, kind)
		}
	}
	creates, most := rig.count()
	if total != callers || creates < started || creates > callers-answers["busy"] {
		t.Errorf("%d callers: %d answers, %d boxes, %d runs", callers, total, creates, started)
	}
	if most > 2*slots { // in use, and closing
		t.Errorf("%d boxes at once with %d slots", most, slots)
	}
	var counted uint64
	for _, n := range rig.Stats().Ended {
		counted += n
	}
	for _, n := range rig.Stats().Refused {
		counted += n
	}
	if counted != callers {
		t.Errorf("%d of %d answers are counted: %+v", counted, callers, rig.Stats())
	}
}

// TestCanceledInQueue: one that leaves the queue never starts.
func TestCanceledInQueue(t *testing.T) {
	rig := newRig(t, engine.Config{Slots: 1})
	up := make(chan struct{})
	first := sh("echo up; sleep 1000")
	first.Request.Output = func(sandbox.Stream, []byte) { close(up) }
	ctx, stop := context.WithCancel(within(t))
	ended := make(chan *sandbox.Result, 1)
	go func() {
		result, err := rig.Run(ctx, first)
		if err != nil {
			t.Error(err)
		}
		ended <- result
	}()
	<-up
	rig.leaveQueue(t)
	if creates, _ := rig.count(); creates != 1 {
		t.Errorf("%d boxes were made", creates)
	}
	stop()
	if r := <-ended; r != nil && r.Status != sandbox.StatusCanceled {
		t.Errorf("status %s", r.Status)
	}
}

// leaveQueue asks for a run while no slot is free, and leaves once it is in the queue.
func (r *rig) leaveQueue(t *testing.T) {
	t.Helper()
	waiting, leave := context.WithCancel(within(t))
	defer leave()
	left := make(chan struct{})
	go func() {
		defer close(left)
		result, err := r.Run(waiting, sh("true"))
		if err != nil || result.Status != sandbox.StatusCanceled || result.Hints[0] != sandbox.HintNotStarted {
			t.Errorf("%+v, %v", result, err)
		}
	}()
	eventually(t, "a run in the queue", func() bool { return r.Stats().Queued == 1 })
	leave()
	<-left
}

// TestOneEndUnderRaces makes deadline, cancellation, exit, runaway output and loss meet. One of them is the end, and it
// is told once, whichever it was.
func TestOneEndUnderRaces(t *testing.T) {
	rig := newRig(t, engine.Config{Slots: 4})
	rig.spawned = func(id sandbox.ID, n int) {
		if n%3 == 0 {
			time.AfterFunc(40*time.Millisecond, func() { _ = rig.fake.Signal(id, syscall.SIGKILL) })
		}
	}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			run := sh([]string{"sleep 0.04; exit 1", "sleep 1000", "exec yes"}[i%3])
			run.Request.Timeout = time.Duration(30+i%20) * time.Millisecond
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(30+i%25)*time.Millisecond)
			defer cancel()
			if i%2 == 0 {
				ctx = within(t)
			}
			result, err := rig.Run(ctx, run)
			if err != nil {
				if sandbox.KindOf(err) != sandbox.Unavailable { // the guest died before the start
					t.Errorf("%v", err)
				}
				return
			}
			if !result.Status.Terminal() || result.Status == sandbox.StatusSucceeded || len(result.Hints) == 0 {
				t.Errorf("status %q, hints %+v", result.Status, result.Hints)
			}
		})
	}
	all.Wait()
}

// TestGuestLost: a guest that dies makes the run lost, never a result.
func TestGuestLost(t *testing.T) {
	rig := newRig(t, engine.Config{})
	var id sandbox.ID
	rig.spawned = func(spawned sandbox.ID, _ int) { id = spawned }
	run := sh("echo up; sleep 1000")
	run.Request.Output = func(sandbox.Stream, []byte) {
		if err := rig.fake.Signal(id, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	result := rig.run(t, run)
	if result.Status != sandbox.StatusLost || result.ExitCode != -1 || string(result.Stdout.Head) != "up\n" {
		t.Errorf("status %s, code %d, stdout %q", result.Status, result.ExitCode, result.Stdout.Head)
	}
	if h, ok := result.Hints[0].(sandbox.HintLost); !ok || h.Signal != 9 {
		t.Errorf("hint %+v", h)
	}
}

// TestGuestWedged: the host's own deadline strikes where the guest does not answer.
func TestGuestWedged(t *testing.T) {
	rig := newRig(t, engine.Config{})
	var id sandbox.ID
	rig.spawned = func(spawned sandbox.ID, _ int) { id = spawned }
	run := sh("echo up; sleep 1000")
	run.Request.Timeout = 200 * time.Millisecond
	run.Request.Return.Globs = []string{"**"}
	run.Request.Output = func(sandbox.Stream, []byte) {
		if err := rig.fake.Signal(id, syscall.SIGSTOP); err != nil {
			t.Error(err)
		}
	}
	if result := rig.run(t, run); result.Status != sandbox.StatusTimeout {
		t.Errorf("status %s", result.Status)
	}
}

// TestOutOfMemory: the host's counter decides, and only where the program did not succeed.
func TestOutOfMemory(t *testing.T) {
	rig := newRig(t, engine.Config{})
	rig.usage = func(u *sandbox.Usage) { u.OOMKills = 1 }
	result := rig.run(t, sh("kill -9 $$"))
	if result.Status != sandbox.StatusOutOfMemory || result.Hints[0].(sandbox.HintMemoryKilled).Value != 512<<20 {
		t.Errorf("status %s, hints %+v", result.Status, result.Hints)
	}
	if result = rig.run(t, sh("true")); result.Status != sandbox.StatusSucceeded ||
		result.Hints[0].(sandbox.HintChildren).Count != 1 {
		t.Errorf("status %s, hints %+v", result.Status, result.Hints)
	}
}

// TestDrain: runs in progress end in peace, new ones are refused, and Drain waits for the last box.
func TestDrain(t *testing.T) {
	rig := newRig(t, engine.Config{Slots: 1})
	up, gate := make(chan struct{}), make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	run := sh("echo done")
	var once sync.Once
	run.Request.Output = func(sandbox.Stream, []byte) { // until it returns the run is in progress
		once.Do(func() { close(up) })
		<-gate
	}
	results := make(chan *sandbox.Result, 2)
	for range 2 { // one runs, one waits
		go func() {
			result, err := rig.Run(within(t), run)
			if err != nil {
				t.Errorf("a run that was admitted: %v", err)
			}
			results <- result
		}()
	}
	<-up
	eventually(t, "the second in the queue", func() bool { return rig.Stats().Queued == 1 })
	brief, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := rig.Drain(brief); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain with runs in progress: %v", err)
	}
	if _, err := rig.Run(within(t), sh("true")); sandbox.KindOf(err) != sandbox.Unavailable || err == nil {
		t.Errorf("a new run while draining: %v", err)
	}
	open()
	if err := rig.Drain(within(t)); err != nil {
		t.Errorf("Drain: %v", err)
	}
	if ids := rig.fake.IDs(); len(ids) != 0 {
		t.Errorf("after Drain there are boxes: %v", ids)
	}
	for range 2 {
		if r := <-results; r == nil || r.Status != sandbox.StatusSucceeded || string(r.Stdout.Head) != "done\n" {
			t.Errorf("%+v", r)
		}
	}
}

// TestClose: what runs is canceled, and its box is gone when Close returns.
func TestClose(t *testing.T) {
	rig := newRig(t, engine.Config{})
	up := make(chan struct{})
	run := sh("echo up; sleep 1000")
	run.Request.Output = func(sandbox.Stream, []byte) { close(up) }
	ended := make(chan *sandbox.Result, 1)
	go func() {
		result, err := rig.Run(within(t), run)
		if err != nil {
			t.Error(err)
		}
		ended <- result
	}()
	<-up
	if err := rig.Close(); err != nil {
		t.Fatal(err)
	}
	if ids := rig.fake.IDs(); len(ids) != 0 {
		t.Errorf("after Close there are boxes: %v", ids)
	}
	if r := <-ended; r != nil && r.Status != sandbox.StatusCanceled {
		t.Errorf("status %s", r.Status)
	}
}

// TestSlowTeardown: boxes that are slow to close do not hold up answers, nor pile up without bound.
func TestSlowTeardown(t *testing.T) {
	rig := newRig(t, engine.Config{Slots: 1})
	gate := make(chan struct{})
	rig.set(func(f *faults) { f.close = func() { <-gate } })
	rig.run(t, sh("true")) // its box closes beside
	rig.run(t, sh("true")) // its box keeps the slot
	eventually(t, "two closing boxes", func() bool { return rig.Stats().Closing == 2 })
	rig.leaveQueue(t) // a third run waits for the slot
	if creates, _ := rig.count(); creates != 2 {
		t.Errorf("%d boxes", creates)
	}
	close(gate)
	rig.run(t, sh("true"))
}

// TestContainedPanics: a defect costs one run, and neither its slot nor its box.
func TestContainedPanics(t *testing.T) {
	lang := shell
	lang.ParseError = func([]byte) *sandbox.Exception { panic("hostile stderr") }
	rig := newRig(t, engine.Config{Slots: 1, Languages: []sandbox.Language{lang}})
	rig.set(func(f *faults) { f.create = func() error { panic("in create") } })
	if _, err := rig.Run(within(t), sh("true")); sandbox.KindOf(err) != sandbox.Internal || err == nil {
		t.Errorf("a panic in Create: %v", err)
	}
	rig.set(func(f *faults) { f.create = nil })
	run := sh("echo x; sleep 1000")
	run.Request.Output = func(sandbox.Stream, []byte) { panic("in output") }
	if _, err := rig.Run(within(t), run); sandbox.KindOf(err) != sandbox.Internal || err == nil {
		t.Errorf("a panic in Output: %v", err)
	}
	eventually(t, "the end of the box", func() bool { return rig.Stats().Closing == 0 })
	rig.set(func(f *faults) { f.close = func() { panic("in close") } })
	rig.run(t, sh("true"))
	eventually(t, "the end of the close", func() bool { return rig.Stats().Closing == 0 })
	rig.set(func(f *faults) { f.close = nil })
	result := rig.run(t, engine.OneShot{Request: sandbox.Request{Language: "sh", Code: []byte("exit 4")}})
	if result.Status != sandbox.StatusFailed || result.Exception != nil {
		t.Errorf("%s, %+v", result.Status, result.Exception)
	}
	if n := rig.Stats().Panics; n != 4 {
		t.Errorf("%d panics are counted", n)
	}
}

// TestCreateFails: the error comes through, the slot comes back.
func TestCreateFails(t *testing.T) {
	rig := newRig(t, engine.Config{Slots: 1, Queue: -1})
	want := &sandbox.Error{Kind: sandbox.Unsupported, Op: "native: mount /proc", Fix: "fix it"}
	rig.set(func(f *faults) { f.create = func() error { return want } })
	for range 5 {
		if _, err := rig.Run(within(t), sh("true")); !errors.Is(err, want) ||
			sandbox.KindOf(err) != sandbox.Unsupported {
			t.Fatal(err)
		}
	}
	rig.set(func(f *faults) { f.create = nil })
	rig.run(t, sh("true"))
}

// TestMemoryFlat: much output under a small cap costs the server little.
func TestMemoryFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("make check: how much the heap grows depends on when it is swept")
	}
	rig := newRig(t, engine.Config{})
	run := sh("head -c 60000000 /dev/zero")
	run.Spec.Limits.OutputBytes = 1 << 20
	var most uint64
	var seen int
	run.Request.Output = func(_ sandbox.Stream, data []byte) { seen += len(data) }
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		var m runtime.MemStats
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				runtime.GC() // what is held counts, not what is yet to be swept
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse)
			}
		}
	}()
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	result := rig.run(t, run)
	close(stop)
	<-stopped
	if result.Status != sandbox.StatusSucceeded || result.Stdout.Dropped != 60000000-1<<20 || seen != 1<<20 {
		t.Errorf("status %s, dropped %d, streamed %d", result.Status, result.Stdout.Dropped, seen)
	}
	if grown := int64(most) - int64(before.HeapInuse); grown > 16<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// TestRunawayIsEnded: past the bound a run is over, however it goes on.
func TestRunawayIsEnded(t *testing.T) {
	rig := newRig(t, engine.Config{})
	run := sh("trap '' PIPE TERM; echo begin; while :; do head -c 10000000 /dev/zero >&2; done")
	run.Request.Return.Globs = []string{"**"}
	run.Request.Timeout = stepTimeout
	result := rig.run(t, run)
	if result.Status != sandbox.StatusOutputLimit || string(result.Stdout.Head) != "begin\n" {
		t.Errorf("status %s, stdout %q", result.Status, result.Stdout.Head)
	}
	if total := result.Stderr.Dropped + int64(len(result.Stderr.Head)+len(result.Stderr.Tail)); total < 64<<20 ||
		total > 65<<20 {
		t.Errorf("ended after %d bytes", total)
	}
}

// TestWarm: a warm box serves one run and is as good as a fresh one.
func TestWarm(t *testing.T) {
	rig := newRig(t, engine.Config{Warm: 2})
	seen := map[sandbox.ID]bool{}
	for i := range 6 {
		eventually(t, "a warm box", func() bool { return i == 0 || rig.Stats().Warm == 2 })
		run := sh("ls -A /workspace /tmp | grep -c mark; touch /workspace/mark /tmp/mark; echo $WHO")
		run.Request.Env = []string{"WHO=me"}
		run.Request.Timeout = time.Duration(i+1) * time.Minute
		result := rig.run(t, run)
		if string(result.Stdout.Head) != "0\nme\n" || seen[result.Requested.ID] {
			t.Errorf("run %d: %q in box %s", i, result.Stdout.Head, result.Requested.ID)
		}
		if result.Effective.Limits.Timeout != run.Request.Timeout {
			t.Errorf("time limit %v", result.Effective.Limits.Timeout)
		}
		seen[result.Requested.ID] = true
	}
}

func TestStreamsToSlowReader(t *testing.T) {
	rig := newRig(t, engine.Config{})
	var got bytes.Buffer
	run := sh("for i in {1..50}; do echo line $i; done")
	run.Request.Output = func(_ sandbox.Stream, data []byte) {
		time.Sleep(time.Millisecond)
		got.Write(data)
	}
	result := rig.run(t, run)
	if got.String() != string(result.Stdout.Head) {
		t.Errorf("streamed %q, kept %q", got.String(), result.Stdout.Head)
	}
}

// TestWarmNotOfRefused: what a backend refuses takes no shelf from what it does not, however often it is asked for.
func TestWarmNotOfRefused(t *testing.T) {
	rig := newRig(t, engine.Config{Warm: 1})
	refuse := func(refusal error) {
		rig.mu.Lock()
		defer rig.mu.Unlock()
		rig.create = func() error { return refusal }
	}
	refuse(&sandbox.Error{Kind: sandbox.Unsupported, Msg: "not here"})
	for i := range 20 {
		run := sh("true")
		run.Spec.Limits.Pids = int64(100 + i)
		if _, err := rig.Run(within(t), run); sandbox.KindOf(err) != sandbox.Unsupported {
			t.Fatalf("it says %v", err)
		}
	}
	refuse(nil)
	for end := time.Now().Add(45 * time.Second); rig.Stats().Warm == 0; rig.run(t, sh("true")) {
		if time.Now().After(end) { // before the life of an unused shelf, 60 s, is over
			t.Fatal("what is made is not kept warm")
		}
	}
}

// TestWarmWithOneSlot: the run that asks for a box is no reason not to make the next one, also where it holds the only
// slot.
func TestWarmWithOneSlot(t *testing.T) {
	for _, slots := range []int{1, 2, 3} {
		rig := newRig(t, engine.Config{Warm: 1, Slots: slots})
		release := make(chan struct{})
		run := sh("echo started; sleep 1000")
		ctx, cancel := context.WithCancel(within(t))
		run.Request.Output = func(sandbox.Stream, []byte) {
			select {
			case <-release:
			default:
				close(release)
			}
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = rig.Run(ctx, run)
		}()
		<-release
		eventually(t, "a warm box", func() bool { return rig.Stats().Warm == 1 })
		cancel()
		<-done
	}
}
