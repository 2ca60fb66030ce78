package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestDriverThatDoesNotRead: the time limit holds also for code that the interpreter never takes.
func TestDriverThatDoesNotRead(t *testing.T) {
	_, s := contextRig(t)
	do(t, s, code("python", "import os; keep = os.dup(250); r, w = os.pipe(); os.dup2(r, 250)"))
	large := code("python", "1"+strings.Repeat(" ", 2<<20))
	large.Request.Timeout = 300 * time.Millisecond
	if r := do(t, s, large); r.Status != sandbox.StatusTimeout || !hasHint[sandbox.HintStateLost](r) {
		t.Errorf("%s, %v", r.Status, r.Hints)
	}
	if r := do(t, s, code("python", "6*7")); value(r) != "42" {
		t.Errorf("the next run: %s, %q", r.Status, r.Stderr.Head)
	}
}

// TestRememberedExecutions: runs that ended are remembered without what they were given and what they wrote.
func TestRememberedExecutions(t *testing.T) {
	const size, count = 4 << 20, 8
	rig := newRig(t, engine.Config{})
	s := rig.make(t, engine.Create{Spec: sandbox.Spec{Limits: sandbox.Limits{OutputBytes: 2 * size}}})
	before := heapSize()
	for i := range count {
		asks := command("head", "-c", fmt.Sprint(size), "/dev/zero")
		asks.Request.Files = []sandbox.File{{Path: "f", Data: make([]byte, size)}}
		asks.Background = i%2 == 0
		x, err := s.Start(within(t), asks)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := x.Wait(within(t)); err != nil || r.Status != sandbox.StatusSucceeded {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if held := heapSize() - before; held > count*size {
		t.Errorf("%d remembered runs hold %s", count, sandbox.FormatBytes(held))
	}
	runtime.KeepAlive(s)
}

// TestRememberedCommands: nor are they remembered with their words and variables, of which each may have much.
func TestRememberedCommands(t *testing.T) {
	const size, count = 100 << 10, 50
	s := newRig(t, engine.Config{}).make(t, engine.Create{})
	before := heapSize()
	for range count {
		asks := command("true", strings.Repeat("x", size))
		asks.Request.Env = []string{"A=" + strings.Repeat("x", size), "B=" + strings.Repeat("x", size)}
		do(t, s, asks)
	}
	if held := heapSize() - before; held > count*size/2 {
		t.Errorf("%d remembered runs hold %s", count, sandbox.FormatBytes(held))
	}
	if words := s.Runs()[0].Command; len(words) != 2 || words[0] != "true" || !strings.HasPrefix(words[1], "xxx") {
		t.Errorf("the command is %q", words)
	}
}

// TestRememberedAnswers: a run that has ended does not hold the answer that its caller made of its result.
func TestRememberedAnswers(t *testing.T) {
	const size, count = 1 << 20, 8
	s := newRig(t, engine.Config{}).make(t, engine.Create{})
	before := heapSize()
	for range count {
		x := command("true")
		var made []byte
		x.Deliver = func(*sandbox.Result) error {
			made = make([]byte, size)
			return nil
		}
		do(t, s, x)
		if made == nil {
			t.Fatal("nothing was delivered")
		}
	}
	if held := heapSize() - before; held > size {
		t.Errorf("%d remembered runs hold %d bytes", count, held)
	}
	runtime.KeepAlive(s)
}

// largeTool is a tool whose schema takes many times the bytes of its text.
func largeTool(t *testing.T, parts int) sandbox.Tool {
	properties := map[string]any{}
	for i := range parts {
		properties[fmt.Sprint("p", i)] = map[string]any{"type": "string"}
	}
	schema, err := json.Marshal(map[string]any{"properties": properties})
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Tool{Name: "search", Schema: schema}
}

// TestHeldTools: runs that wait hold no schemas of their tools, nor do those that have ended.
func TestHeldTools(t *testing.T) {
	const parts, count = 1000, 4
	_, s := contextRig(t)
	tool := largeTool(t, parts)
	tools := sandbox.Calls{Tools: []sandbox.Tool{tool}}
	_, err := s.CreateContext(within(t), engine.ContextRequest{Name: "c", Language: "python", Calls: tools})
	if err != nil {
		t.Fatal(err)
	}
	call := withTools("python", "search(p1='x')", tool)
	start := func(text string) *engine.Run {
		x := code("python", text)
		x.Context, x.Background = "c", true
		run, err := s.Start(within(t), x)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	before := heapSize()
	for range count {
		calling(t, s, call, answerSearch(t))
	}
	first := start("import time\ntime.sleep(1000)")
	for range count {
		start("1")
	}
	if held := heapSize() - before; held > count*parts*256 {
		t.Errorf("%d bytes are held", held)
	}
	first.Cancel()
}

// fallen is a backend with a box of an earlier server, whose guest cannot be reached while it is taken over, until it
// recovers.
type fallen struct {
	sandbox.Backend
	spec      sandbox.Spec
	recovered atomic.Bool
	away      atomic.Bool // the box, too
	box       sandbox.Box
	saved     sandbox.Record
}

func (f *fallen) Reattach(ctx context.Context, _ sandbox.ID) (box sandbox.Box, err error) {
	if f.away.Load() {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Msg: "the box is out of reach"}
	}
	f.box, err = f.Backend.Create(ctx, f.spec)
	return &fallenBox{f.box, f}, err
}

func (f *fallen) Save(r sandbox.Record) (int, error) {
	f.saved = r
	return 0, nil
}

func (f *fallen) Remove(sandbox.ID) error { return nil }

type fallenBox struct {
	sandbox.Box
	backend *fallen
}

func (b *fallenBox) Dial(ctx context.Context) (conn net.Conn, err error) {
	if !b.backend.recovered.Load() {
		return nil, errors.New("the guest is out of reach")
	}
	return b.Box.Dial(ctx)
}

// TestTakeoverFails: a sandbox that cannot be taken over now is not lost: it stays on record and is retried. One whose
// box has ended is ended, with the reason.
func TestTakeoverFails(t *testing.T) {
	for _, end := range []string{"recovers", "dies", "is removed", "is removed unseen", "is silent", "server stops"} {
		t.Run(end, func(t *testing.T) {
			rig := newRig(t, engine.Config{})
			record := rig.make(t, engine.Create{}).Info().Record
			record.ID, record.Name = sandbox.NewID(), "left"
			record.Spec.ID = record.ID
			if end == "is silent" { // for longer than its lease
				record.Spec.Lifetime.Lease = time.Millisecond
			}
			left := &fallen{Backend: rig.fake, spec: record.Spec}
			record.Backend = left.Name()
			left.away.Store(end == "is removed unseen")
			e, err := engine.New(engine.Config{Backends: []sandbox.Backend{left}, Languages: []sandbox.Language{shell},
				Living: engine.LivingConfig{StateDir: t.TempDir(), Store: left}})
			if err != nil {
				t.Fatal(err)
			}
			gone := e.Resume(within(t), []sandbox.Record{record})
			if end == "is silent" {
				if len(gone) != 1 || !strings.Contains(gone[0].Reason, "did not answer") {
					t.Errorf("gone: %+v", gone)
				}
				if err := e.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if len(gone) != 0 {
				t.Errorf("gone: %+v", gone)
			}
			_, err = e.Sandbox(within(t), "", "left")
			refused(t, "one that is out of reach", err, sandbox.Unavailable, "could not be taken over")
			_, _, err = e.Create(within(t), engine.Create{Name: "left"})
			refused(t, "another of its name", err, sandbox.Unavailable, "could not be taken over")
			if list, _, _ := e.Sandboxes("", nil, "", 0); len(list) != 1 ||
				e.Living(list[0]).State() != sandbox.StateCreating || e.Living(list[0]).Info().Name != "left" {
				t.Errorf("the listing: %+v", list)
			}
			switch end {
			case "recovers":
				left.recovered.Store(true)
				eventually(t, "the takeover",
					func() bool { _, err = e.Sandbox(within(t), "", "left"); return err == nil })
				s, _ := e.Sandbox(within(t), "", "left")
				if r := do(t, s, script("echo here")); string(r.Stdout.Head) != "here\n" {
					t.Errorf("%+v", r)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			case "is removed", "is removed unseen":
				left.away.Store(false)
				if err := e.Remove("", "left"); err != nil {
					t.Error(err)
				}
				if _, err := left.box.Wait(within(t)); err != nil {
					t.Errorf("the box: %v", err)
				}
				_, err = e.Sandbox(within(t), "", "left")
				refused(t, "one that was removed", err, sandbox.NotFound, "it was removed")
			case "dies":
				if err := rig.fake.Signal(record.ID, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the end",
					func() bool {
						_, err = e.Sandbox(within(t), "", "left")
						return sandbox.KindOf(err) == sandbox.NotFound
					})
				refused(t, "one that died", err, sandbox.NotFound, "it was killed from outside")
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if ended := !left.saved.Ended.IsZero(); ended != (end != "server stops") {
				t.Errorf("on record: %+v", left.saved)
			}
			if end == "server stops" {
				refused(t, "its removal", e.Remove("", "left"), sandbox.Unavailable, "the next server takes it over")
				_ = left.box.Close()
			}
		})
	}
}

// TestWritesBetween: output without end, and a report without end, end an interpreter also while nothing runs in it.
func TestWritesBetween(t *testing.T) {
	_, s := contextRig(t)
	for _, writes := range []string{"os.write(1, b'x' * 65536)",
		"os.write(251, b'' if begun else b'result 20000000\\n') or os.write(251, b'x' * 65536)",
		"os.write(251, b'ready 0\\n' * 8192)"} {
		do(t, s, code("python", "import os, threading\nbegun = ''\ndef write():\n global begun\n while True:\n  "+writes+"; begun = 'yes'\n"+
			"threading.Timer(0.2, write).start()"))
		eventually(t, "the end of the interpreter after "+writes,
			func() bool { return s.Info().Contexts[0].State == "ended" })
	}
}
