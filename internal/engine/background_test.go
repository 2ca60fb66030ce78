package engine_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestBackground: what processes, threads and timers of an earlier run write is no output of a later run, but its
// background output.
func TestBackground(t *testing.T) {
	_, s := contextRig(t)
	const server = "sh -c 'until [ -e N ]; do sleep 0.01; done; echo late'"
	for name, c := range map[string]struct{ language, start string }{
		"popen": {"python", "import subprocess\np = subprocess.Popen(['sh', '-c', 'until [ -e N ]; do sleep " +
			"0.01; done; echo late'])"},
		"system": {"python", "import os; os.system(\"" + server + " &\")"},
		"shell":  {"python", "!" + server + " &"},
		"cell":   {"python", "%%bash\n" + server + " &"},
		"fork": {"python", "import os, time\nif os.fork() == 0:\n    while not os.path.exists('N'): " +
			"time.sleep(0.01)\n    print('late', flush=True); os._exit(0)"},
		"process": {"python", "import multiprocessing, os, time\ndef f():\n    while not os.path.exists('N'): " +
			"time.sleep(0.01)\n    print('late')\nmultiprocessing.Process(target=f).start()"},
		"thread": {"python", "import threading, os, time\ndef f():\n    while not os.path.exists('N'): " +
			"time.sleep(0.01)\n    print('late')\nthreading.Thread(target=f).start()"},
		"javascript": {"javascript", "{ const t = setInterval(() => { if (require('fs').existsSync('N')) { " +
			"clearInterval(t); console.log('late') } }, 5) }; 0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := do(t, s, code(c.language, c.start+"\n"))
			if r.Status != sandbox.StatusSucceeded || len(r.Stdout.Head)+len(r.Stderr.Head) > 0 {
				t.Fatalf("%s: %s%s", r.Status, r.Stdout.Head, r.Stderr.Head)
			}
			touch := "import time\nprint('next'); open('N', 'w').close(); time.sleep(0.3); print('end')"
			if c.language == "javascript" {
				touch = "console.log('next'); require('fs').writeFileSync('N', ''); await new Promise(r => " +
					"setTimeout(r, 300)); console.log('end')"
			}
			late := ""
			for range 100 {
				r = do(t, s, code(c.language, touch))
				if string(r.Stdout.Head) != "next\nend\n" || len(r.Stderr.Head) > 0 {
					t.Fatalf("the next run: %q, %q", r.Stdout.Head, r.Stderr.Head)
				}
				// print writes the end of the line apart
				if late += string(r.Background.Head); strings.HasSuffix(late, "\n") {
					break
				}
			}
			if late != "late\n" {
				t.Errorf("background output %q", late)
			}
			do(t, s, script("rm N"))
		})
	}
	// A run that leaves nothing behind, and prints with its children, keeps the order.
	r := do(t, s, code("python", "import subprocess\nfor i in range(3):\n    print(i); subprocess.run(['echo', "+
		"'a'])\n!echo b\nprint('c')"))
	if string(r.Stdout.Head) != "0\na\n1\na\n2\na\nb\nc\n" || len(r.Background.Head) > 0 {
		t.Errorf("%q, %q", r.Stdout.Head, r.Background.Head)
	}
}

// TestBackgroundAfterRestart: the next server does not report background output again.
func TestBackgroundAfterRestart(t *testing.T) {
	k, open := keeping(t)
	stateDir := t.TempDir()
	first := open(stateDir)
	s, _, err := first.Create(within(t), engine.Create{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	do(t, s, code("python", "import threading, time\nt = threading.Thread(target=lambda: (time.sleep(0.1), "+
		"print('late')))\nt.start()"))
	late := ""
	for range 100 {
		late += string(do(t, s, code("python", "t.join()")).Background.Head)
		if strings.HasSuffix(late, "\n") {
			break
		}
	}
	if late != "late\n" {
		t.Fatalf("background output %q", late)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(stateDir)
	defer second.Close()
	if gone := second.Resume(within(t), []sandbox.Record{k.record(s.ID())}); len(gone) != 0 {
		t.Fatalf("gone: %+v", gone)
	}
	if s, err = second.Sandbox(within(t), "", "a"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if r := do(t, s, code("python", "import time; time.sleep(0.1)")); len(r.Background.Head) > 0 {
			t.Errorf("it came again: %q", r.Background.Head)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestLimitsAfterKill: a run keeps the time limit with which it was accepted, though that of its sandbox has changed.
func TestLimitsAfterKill(t *testing.T) {
	k, open := keeping(t)
	stateDir, killed := t.TempDir(), t.TempDir()
	first, s := openOne(t, open, stateDir)
	asks := code("python", "open('began', 'w').close()\nwhile True: pass")
	asks.Background = true
	x, err := s.Start(within(t), asks)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the beginning of the code", func() bool { _, err := s.Stat(within(t), "began"); return err == nil })
	err = s.Update(engine.Patch{Limits: sandbox.Limits{Timeout: time.Millisecond}})
	if err == nil {
		err = os.CopyFS(killed, os.DirFS(stateDir))
	}
	if err == nil {
		err = first.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	second := open(killed)
	defer second.Close()
	s = k.resumed(t, second, s.ID())
	if x, err = s.FindRun(x.ID()); err != nil {
		t.Fatal(err)
	}
	x.Cancel()
	r, err := x.Wait(within(t))
	if err := errors.Join(err, s.Close()); err != nil || r.Status != sandbox.StatusCanceled {
		t.Errorf("%+v, %v", r, err)
	}
}
