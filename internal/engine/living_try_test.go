package engine_test

import (
	"testing"
	"time"
	"path/filepath"
	"os"

	"github.com/glovebox-dev/glovebox/internal/backend"
	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/internal/lang"
	"github.com/glovebox-dev/glovebox/sandbox"
)

func TestTry(t *testing.T) {
	for _, name := range []string{"native", "gvisor"} {
		t.Run(name, func(t *testing.T) {
	set, err := backend.Open(backend.Options{Libexec: os.Getenv("GLOVEBOX_LIBEXEC"), RunDir: filepath.Join(t.TempDir(), "run")})
	if err != nil { t.Fatal(err) }
	defer set.Close()
	e, err := engine.New(engine.Config{Backends: set.Backends, Default: name, Languages: lang.All()})
	if err != nil { t.Fatal(err) }
	defer e.Close()
	s, made, err := e.Create(within(t), engine.Living{Name: "a"})
	if err != nil { t.Fatal(err) }
	t.Log(made)
	run := func(x engine.Exec) *sandbox.Result {
		began := time.Now()
		r, err := s.Run(within(t), x)
		if err != nil { t.Errorf("run: %v", err); return nil }
		t.Logf("%v %s %d out=%q err=%q shown=%+v exc=%+v hints=%+v", time.Since(began), r.Status, r.ExitCode, r.Stdout.Head, r.Stderr.Head, r.Shown, r.Exception, r.Hints)
		return r
	}
	run(engine.Exec{Request: sandbox.Request{Command: []string{"sh", "-c", "echo hi; pwd; id"}}})
	py := func(code string) *sandbox.Result { return run(engine.Exec{Request: sandbox.Request{Language: "python", Code: []byte(code), Timeout: 2*time.Second}}) }
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
		if _, err := s.Run(within(t), engine.Exec{Request: sandbox.Request{Language: "python", Code: []byte("x=1;print(x)")}}); err != nil { t.Fatal(err) }
	}
	t.Log("per run", time.Since(began)/time.Duration(n))
	t.Logf("%+v", s.Info().Contexts)
		})
	}
}
