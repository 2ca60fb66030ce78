package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestTimeLimitOfChildren: the time limit of a run in a living sandbox ends its children too, in other sessions as
// well.
func TestTimeLimitOfChildren(t *testing.T) {
	_, s := contextRig(t)
	const child = "setsid sh -c 'while :; do echo x >> N; sleep 0.01; done' & until [ -s N ]; do :; done"
	for name, x := range map[string]engine.RunRequest{
		"command": script(strings.ReplaceAll(child, "N", "command") + "; sleep 1000"),
		"code": code("python", "import os, time\nos.system('''"+strings.ReplaceAll(child, "N", "code")+
			"''')\nsignal = __import__('signal'); signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(1000)"),
	} {
		x.Request.Timeout = 500 * time.Millisecond
		if r := do(t, s, x); r.Status != sandbox.StatusTimeout {
			t.Errorf("%s: %s, %s", name, r.Status, r.Stderr.Head)
		}
		r := do(t, s, script("a=$(wc -c < "+name+"); sleep 0.3; [ $a -gt 0 ] && [ $a = $(wc -c < "+name+") ]"))
		if r.Status != sandbox.StatusSucceeded {
			t.Errorf("%s: a child writes after the end", name)
		}
	}
}

// TestHeldOutput: a background child that holds stdout does not hold the answer, and an unfinished here-document does
// not change the next run.
func TestHeldOutput(t *testing.T) {
	_, s := contextRig(t)
	for name, x := range map[string]engine.RunRequest{
		"command": script("sleep 1000 & echo done"), "bash": code("bash", "sleep 1000 & echo done"),
		"python": code("python", "import subprocess; subprocess.Popen(['sleep', '1000']); print('done')"),
	} {
		if r := do(t, s, x); r.Status != sandbox.StatusSucceeded || string(r.Stdout.Head) != "done\n" ||
			r.Timings.Run > 30*time.Second {
			t.Errorf("%s: %s %q after %s", name, r.Status, r.Stdout.Head, r.Timings.Run)
		}
	}
	do(t, s, code("bash", "cat <<EOF\ntext"))
	if r := do(t, s, code("bash", "echo next")); string(r.Stdout.Head) != "next\n" ||
		r.Status != sandbox.StatusSucceeded {
		t.Errorf("after an unfinished here-document: %s %q, %q", r.Status, r.Stdout.Head, r.Stderr.Head)
	}
}

// TestTimeLimitOfCells: output before a time limit is kept, and an interrupted cell does not go on.
func TestTimeLimitOfCells(t *testing.T) {
	_, s := contextRig(t)
	x := code("python", "import time\nprint('before')\ntime.sleep(1)\nlate = True")
	x.Request.Timeout = 300 * time.Millisecond
	if r := do(t, s, x); r.Status != sandbox.StatusTimeout || string(r.Stdout.Head) != "before\n" {
		t.Errorf("%s, %q", r.Status, r.Stdout.Head)
	}
	if r := do(t, s, code("python", "time.sleep(1); 'late' in globals()")); value(r) != "False" {
		t.Errorf("the variable is set: %s", value(r))
	}
	if testing.Short() {
		return // a time limit of seconds
	}
	x = script("for i in $(seq 1 100000); do echo line $i; done; sleep 1000")
	x.Request.Timeout = 5 * time.Second
	r := do(t, s, x)
	if head, tail := string(r.Stdout.Head), string(r.Stdout.Tail); r.Status != sandbox.StatusTimeout ||
		!strings.HasPrefix(head, "line 1\n") || !strings.HasSuffix(head+tail, "line 100000\n") {
		t.Errorf("%s: %.20q, %d bytes dropped", r.Status, head, r.Stdout.Dropped)
	}
}

// TestBeyondASCII: names, input and output beyond ASCII come through as they are.
func TestBeyondASCII(t *testing.T) {
	rig, s := contextRig(t)
	const name, text = "naïve 文件 🙂.txt", "Grüße, 世界 🙂\n"
	request := sandbox.Request{Command: []string{"/bin/sh", "-c", "cat \"$1\" -; printf '\\377\\376'; cp \"$1\" out",
		"sh", name},
		Files: []sandbox.File{{Path: name, Data: []byte(text)}}, Stdin: []byte(text),
		Return: sandbox.Return{Globs: []string{"out"}}}
	fresh := rig.run(t, engine.OneShot{Request: request})
	for where, r := range map[string]*sandbox.Result{"fresh": fresh, "living": do(t, s,
		engine.RunRequest{Request: request})} {
		if string(r.Stdout.Head) != text+text+"\xff\xfe" || len(r.Files) != 1 || string(r.Files[0].Data) != text {
			t.Errorf("%s: %q, %+v", where, r.Stdout.Head, r.Files)
		}
	}
	if r := do(t, s, code("python", "import os; grüße = '世界'; print(grüße, sorted(os.listdir()))")); string(r.Stdout.
		Head) != "世界 ['"+name+"', 'out']\n" {
		t.Errorf("code: %q, %q", r.Stdout.Head, r.Stderr.Head)
	}
}

// TestCallersOfOneContext: several callers of one context take turns, and each gets its own output and value.
func TestCallersOfOneContext(t *testing.T) {
	_, s := contextRig(t)
	do(t, s, code("python", "import time\nn = 0"))
	var all sync.WaitGroup
	for caller := range 4 {
		all.Go(func() {
			for i := range 5 {
				want := fmt.Sprintf("%d %d", caller, i)
				r, err := s.Run(within(t), code("python", "n += 1\nprint('"+want+"'); time.sleep(0.01); print('"+want+
					"')\n'"+want+"'"))
				if err != nil || string(r.Stdout.Head) != want+"\n"+want+"\n" || value(r) != "'"+want+"'" {
					t.Errorf("%s: %v, %q, %s", want, err, r.Stdout.Head, value(r))
				}
			}
		})
	}
	all.Wait()
	if r := do(t, s, code("python", "n")); value(r) != "20" {
		t.Errorf("%s of 20 runs", value(r))
	}
}
