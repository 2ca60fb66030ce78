package engine_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestQuestionInParts: a context keeps its variables if its server ends while it sends a large document to it.
func TestQuestionInParts(t *testing.T) {
	k, open := keeping(t)
	stateDir := t.TempDir()
	first, s := openOne(t, open, stateDir)
	do(t, s, code("python", `import os, subprocess
x = 1
steps = "while [ ! -e ended ]; do sleep 0.01; done; kill -STOP %d; > stopped" \
  "; while [ ! -e go ]; do sleep 0.01; done; kill -CONT %d"
subprocess.Popen(["sh", "-c", steps % (os.getpid(), os.getpid())])`))
	touch := func(name string) {
		if err := s.WriteFile(within(t), name, 0, strings.NewReader("")); err != nil {
			t.Fatal(err)
		}
	}
	touch("ended")
	eventually(t, "the stop of the interpreter", func() bool {
		_, err := s.Stat(within(t), "stopped")
		return err == nil
	})
	c, err := s.DefaultContext("python")
	if err != nil {
		t.Fatal(err)
	}
	cut := make(chan error)
	go func() {
		_, err := c.Import(within(t), []byte(`{"variables": {"x": "`+strings.Repeat("v", 1<<20)+`"}}`))
		cut <- err
	}()
	eventually(t, "the document", func() bool {
		found, err := filepath.Glob(stateDir + "/*/*.question")
		return err == nil && len(found) == 1
	})
	time.Sleep(50 * time.Millisecond) // some pieces arrive; without one, the test only tests less
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if <-cut == nil {
		t.Fatal("the document arrived")
	}
	second := open(stateDir)
	defer second.Close()
	second.Resume(within(t), []sandbox.Record{k.record(s.ID())})
	if s, err = second.Sandbox(within(t), "", string(s.ID())); err != nil {
		t.Fatal(err)
	}
	touch("go")
	show := code("python", "x")
	show.Request.Timeout = 5 * time.Second
	if r := do(t, s, show); value(r) != "1" {
		t.Errorf("x is %q: %s, %+v", value(r), r.Status, r.Hints)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
