package engine_test

import (
	"os"
	"path/filepath"
	"testing"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/backend"
	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/internal/lang"
	"github.com/glovebox-dev/glovebox/sandbox"
)

func TestTry(t *testing.T) {
	for _, name := range []string{"native", "gvisor"} {
		t.Run(name, func(t *testing.T) {
			set, err := backend.Open(backend.Options{Libexec: os.Getenv("GLOVEBOX_LIBEXEC"), RunDir: filepath.Join(t.TempDir(), "run")})
			if err != nil {
				t.Fatal(err)
			}
			defer set.Close()
			e, err := engine.New(engine.Config{Backends: set.Backends, Default: name, Languages: lang.All()})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			s, made, err := e.Create(within(t), engine.Living{Name: "a"})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(made)
			run := func(x engine.Exec) *sandbox.Result {
				began := time.Now()
				r, err := s.Run(within(t), x)
				if err != nil {
					t.Errorf("run: %v", err)
					return nil
				}
				t.Logf("%v %s %d out=%q err=%q shown=%+v exc=%+v hints=%+v", time.Since(began), r.Status, r.ExitCode, r.Stdout.Head, r.Stderr.Head, r.Shown, r.Exception, r.Hints)
				return r
			}
			run(engine.Exec{Request: sandbox.Request{Command: []string{"sh", "-c", "echo hi; pwd; id"}}})
			py := func(code string) *sandbox.Result {
				return run(engine.Exec{Request: sandbox.Request{Language: "python", Code: []byte(code), Timeout: 2 * time.Second}})
			}
			py("x=1; print('one')")
			py("x+=1\nx")
			py("1/0")
			py("import time; time.sleep(100)")
			py("x")
			py("import os; os._exit(3)")
			py("x")
			run(engine.Exec{Request: sandbox.Request{Language: "javascript", Code: []byte("const a = 5; a*2")}})
			run(engine.Exec{Request: sandbox.Request{Language: "javascript", Code: []byte("console.log(a); await 7")}})
			run(engine.Exec{Request: sandbox.Request{Language: "bash", Code: []byte("cd /tmp; A=3")}})
			run(engine.Exec{Request: sandbox.Request{Language: "bash", Code: []byte("pwd; echo $A")}})
			n := 300
			began := time.Now()
			for range n {
				if _, err := s.Run(within(t), engine.Exec{Request: sandbox.Request{Language: "python", Code: []byte("x=1;print(x)")}}); err != nil {
					t.Fatal(err)
				}
			}
			t.Log("per run", time.Since(began)/time.Duration(n))
			t.Logf("%+v", s.Info().Contexts)
		})
	}
}

type memStore struct{ mu sync.Mutex; m map[sandbox.ID]sandbox.Record }
func (s *memStore) Save(r sandbox.Record) error { s.mu.Lock(); defer s.mu.Unlock(); s.m[r.ID] = r; return nil }
func (s *memStore) Remove(id sandbox.ID) error { s.mu.Lock(); defer s.mu.Unlock(); delete(s.m, id); return nil }

func TestTryResume(t *testing.T) {
	for _, name := range []string{"native", "gvisor"} {
		t.Run(name, func(t *testing.T) {
	run := t.TempDir()
	state := t.TempDir()
	store := &memStore{m: map[sandbox.ID]sandbox.Record{}}
	open := func() (*backend.Set, *engine.Engine) {
		set, err := backend.Open(backend.Options{Libexec: os.Getenv("GLOVEBOX_LIBEXEC"), RunDir: filepath.Join(run, "run")})
		if err != nil { t.Fatal(err) }
		e, err := engine.New(engine.Config{Backends: set.Backends, Default: name, Languages: lang.All(), Store: store, StateDir: state, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		if err != nil { t.Fatal(err) }
		return set, e
	}
	set, e := open()
	s, _, err := e.Create(within(t), engine.Living{Name: "a"})
	if err != nil { t.Fatal(err) }
	py := func(s *engine.Sandbox, code string) {
		r, err := s.Run(within(t), engine.Exec{Request: sandbox.Request{Language: "python", Code: []byte(code), Timeout: 5*time.Second}})
		if err != nil { t.Errorf("run: %v", err); return }
		t.Logf("%s %d out=%q err=%q shown=%+v hints=%+v", r.Status, r.ExitCode, r.Stdout.Head, r.Stderr.Head, r.Shown, r.Hints)
	}
	py(s, "x=41")
	bg, err := s.Start(within(t), engine.Exec{Detached: true, Request: sandbox.Request{Command: []string{"sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.2; done; exit 5"}}})
	if err != nil { t.Fatal(err) }
	bp, err := s.Start(within(t), engine.Exec{Detached: true, Request: sandbox.Request{Language: "python", Code: []byte("import time\nfor i in range(10):\n  print(i); display(i); time.sleep(0.2)\nx+=1; 'end'")}})
	if err != nil { t.Fatal(err) }
	seen := []uint64{}
	stop := errors.New("stop")
	err = bg.Follow(within(t), 0, func(ev engine.Event) error { seen = append(seen, ev.ID); t.Logf("bg %d %s %q", ev.ID, ev.Kind, ev.Data); if len(seen) == 3 { return stop }; return nil })
	t.Log(err)
	if err := e.Close(); err != nil { t.Error(err) }
	if err := set.Close(); err != nil { t.Error(err) }
	set, e = open()
	var records []sandbox.Record
	for _, r := range store.m { records = append(records, r) }
	t.Logf("gone %+v", e.Resume(within(t), records))
	s, err = e.Sandbox(within(t), "", "a")
	if err != nil { t.Fatal(err) }
	bg2, err := s.Execution(bg.ID())
	if err != nil { t.Fatal(err) }
	err = bg2.Follow(within(t), 3, func(ev engine.Event) error { t.Logf("bg %d %s %q %+v", ev.ID, ev.Kind, ev.Data, ev.Ended); return nil })
	t.Log(err)
	bp2, err := s.Execution(bp.ID())
	if err != nil { t.Fatal(err) }
	err = bp2.Follow(within(t), 0, func(ev engine.Event) error { t.Logf("bp %d %s %q %+v %+v", ev.ID, ev.Kind, ev.Data, ev.Shown, ev.Ended); return nil })
	t.Log(err)
	py(s, "x")
	t.Log(s.Close())
	if err := e.Close(); err != nil { t.Error(err) }
	if err := set.Close(); err != nil { t.Error(err) }
		})
	}
}
