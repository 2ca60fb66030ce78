package engine_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// stopped sets x to 1 in the default context of Python and stops its interpreter. The returned function continues it.
func stopped(t *testing.T, s *engine.Sandbox) (proceed func(s *engine.Sandbox)) {
	t.Helper()
	do(t, s, code("python", `import os, subprocess
x = 1
steps = "while [ ! -e ended ]; do sleep 0.01; done; kill -STOP %d; > stopped" \
  "; while [ ! -e go ]; do sleep 0.01; done; kill -CONT %d"
subprocess.Popen(["sh", "-c", steps % (os.getpid(), os.getpid())], start_new_session=True)`))
	touch(t, s, "ended")
	eventually(t, "the stop of the interpreter", func() bool { return exists(t, s, "stopped") })
	return func(s *engine.Sandbox) { touch(t, s, "go") }
}

func touch(t *testing.T, s *engine.Sandbox, name string) {
	t.Helper()
	if err := s.WriteFile(within(t), name, 0, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, s *engine.Sandbox, name string) bool {
	_, err := s.Stat(within(t), name)
	return err == nil
}

// keepsX fails the test unless x is 1.
func keepsX(t *testing.T, s *engine.Sandbox) {
	t.Helper()
	show := code("python", "x")
	show.Request.Timeout = 10 * time.Second
	if r := do(t, s, show); value(r) != "1" {
		t.Errorf("x is %q: %s, %+v", value(r), r.Status, r.Hints)
	}
}

// large sends a large document to a context.
func large(ctx context.Context, s *engine.Sandbox) error {
	c, err := s.DefaultContext("python")
	if err != nil {
		return err
	}
	_, err = c.Import(ctx, []byte(`{"variables": {"x": "`+strings.Repeat("v", 1<<20)+`"}}`))
	return err
}

// TestSentInParts: a context keeps its variables if its server ends while it sends a large document or code to it.
func TestSentInParts(t *testing.T) {
	for _, c := range []struct {
		name string
		file string // while it is sent
		send func(context.Context, *engine.Sandbox) error
	}{
		{"document", "question", large},
		{"code", "request", func(ctx context.Context, s *engine.Sandbox) error {
			_, err := s.Run(ctx, code("python", "import time; time.sleep(100)"+" #"+strings.Repeat("v", 1<<20)))
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, open := keeping(t)
			stateDir := t.TempDir()
			first, s := openOne(t, open, stateDir)
			proceed := stopped(t, s)
			cut := make(chan error)
			go func() { cut <- c.send(within(t), s) }()
			eventually(t, "the request", func() bool {
				found, err := filepath.Glob(stateDir + "/*/*." + c.file)
				return err == nil && len(found) == 1
			})
			time.Sleep(50 * time.Millisecond) // some pieces arrive; without one, the test only tests less
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			if <-cut == nil {
				t.Fatal("the request arrived")
			}
			second := open(stateDir)
			defer second.Close()
			s = k.resumed(t, second, s.ID())
			proceed(s)
			keepsX(t, s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestQuestionOfLeaver: a context keeps its variables if the client leaves while a large document is sent to it.
func TestQuestionOfLeaver(t *testing.T) {
	_, s := contextRig(t)
	proceed := stopped(t, s)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { left <- large(ctx, s) }()
	time.Sleep(50 * time.Millisecond) // some pieces arrive; without one, the test only tests less
	leave()
	proceed(s)
	if err := <-left; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if r := do(t, s, code("python", "x = 1 if len(str(x)) == 1 << 20 else x")); r.Status != sandbox.StatusSucceeded {
		t.Errorf("%s: %+v", r.Status, r.Exception)
	}
	keepsX(t, s)
}

// TestSplitReport: a context keeps its variables if its server ends while it reports a value that is larger than what
// the guest keeps.
func TestSplitReport(t *testing.T) {
	k, open := keeping(t)
	stateDir := t.TempDir()
	first, s := openOne(t, open, stateDir)
	x := code("python", `import os, time
x, fd, left = 1, display.__globals__["outgoing"], 2_000_000
def write(until):
    global left
    while left > until: left -= os.write(fd, bytes(min(left, 60_000)))
os.write(fd, b"result %d\n" % left)
write(1_000_000)
while not os.path.exists("go"): time.sleep(0.01)
write(0)`)
	x.Detach()
	run, err := s.Start(within(t), x)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a report without its beginning", func() bool {
		found, err := filepath.Glob(stateDir + "/*/*.split")
		return err == nil && len(found) == 1
	})
	for range 2 {
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		first = open(stateDir)
		s = k.resumed(t, first, s.ID())
	}
	defer first.Close()
	touch(t, s, "go")
	if run, err = s.FindRun(run.ID()); err != nil {
		t.Fatal(err)
	}
	if r, err := run.Wait(within(t)); err != nil || r.Status != sandbox.StatusSucceeded {
		t.Fatalf("%+v, %v", r, err)
	}
	keepsX(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestCommandsOutliveQuestion: a client that leaves before the answer to a question ends no command of earlier code.
func TestCommandsOutliveQuestion(t *testing.T) {
	_, s := contextRig(t)
	do(t, s, code("python", `import subprocess, time
p = subprocess.Popen(["sleep", "1000"])
class Slow:
    def __dir__(self):
        open("asked", "w").close()
        time.sleep(1000)
slow = Slow()`))
	c, err := s.DefaultContext("python")
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, _, err := c.Complete(ctx, "slow.", 5)
		left <- err
	}()
	eventually(t, "the question", func() bool { return exists(t, s, "asked") })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if r := do(t, s, code("python", "p.poll(), p.kill()")); value(r) != "(None, None)" {
		t.Errorf("the command: %s, %+v", value(r), r.Exception)
	}
}
