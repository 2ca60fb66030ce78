package attack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// serverHeap is how much the server's heap may grow under an attack: some buffers, however much the attack sends.
const serverHeap = 32 << 20

// checkHeap fails if the heap has grown. It only measures while nothing else runs.
func (tr *trial) checkHeap(do func()) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	do()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); tr.arena.alone && grown > serverHeap {
		tr.fail("the server's heap grew by %d bytes", grown)
	}
}

// driveFlood is O01.
func driveFlood(tr *trial) {
	tr.checkHeap(func() {
		r := tr.executeAndJudge(tr.attack.code)
		for _, c := range []sandbox.Captured{r.Stdout, r.Stderr} {
			kept := int64(len(c.Head) + len(c.Tail))
			// by a busy machine: it wrote less than its limit
			starved := r.Status == sandbox.StatusTimeout && kept < tr.attack.limits.OutputBytes
			if kept > tr.attack.limits.OutputBytes || c.Dropped == 0 && !starved {
				tr.fail("%d bytes are kept with a limit of %d, and %d reported as dropped", kept,
					tr.attack.limits.OutputBytes, c.Dropped)
			}
		}
	})
}

// driveOpaque is R11: structures on the way out.
func driveOpaque(tr *trial) {
	tr.checkHeap(func() {
		r := tr.execute(tr.attack.code)
		if r.Status != sandbox.StatusFailed || r.ExitCode != 1 {
			tr.fail("status %s, exit code %d: %s", r.Status, r.ExitCode, tail(r.Stderr))
		}
		if want := strings.Repeat("[", 500000) + "\n"; string(r.Stdout.Head)+string(r.Stdout.Tail) != want {
			tr.fail("%d bytes of output, want %d", len(r.Stdout.Head)+len(r.Stdout.Tail), len(want))
		}
		if got := byPath(r); len(got["o.json"]) != 1000000 || len(got["results.json"]) != 500000 {
			tr.fail("handed back %d and %d bytes", len(got["o.json"]), len(got["results.json"]))
		}
	})
}

// driveBytes is O02.
func driveBytes(tr *trial) {
	var want []byte
	for range 100 {
		for b := range 256 {
			want = append(want, byte(b))
		}
	}
	want = append(want, "\xef\xbb\xbf\xed\xa0\x80\x1b[2J\x00"+strings.Repeat("€", 5)...)
	run := tr.request(tr.attack.code)
	var stream []byte
	run.Request.Output = func(_ sandbox.Stream, data []byte) { stream = append(stream, data...) }
	r := tr.do(tr.stepContext(), run)
	if r.Status != sandbox.StatusSucceeded || !bytes.Equal(r.Stdout.Head, want) || !bytes.Equal(stream, want) {
		tr.fail("%s; of %d bytes %d are kept and %d were streamed", r.Status, len(want), len(r.Stdout.Head),
			len(stream))
	}
}

// driveStreams is O04.
func driveStreams(tr *trial) {
	for kind, want := range map[string]struct {
		code           int
		stdout, stderr string
	}{
		"closed": {0, "", "x"},
		"both":   {3, "", ""},
		"bytes":  {0, strings.Repeat("z", 20000), ""},
		"stdin":  {0, "''\n", ""},
	} {
		run := tr.request(tr.attack.code)
		run.Request.Args = []string{kind}
		r := tr.do(tr.stepContext(), run)
		if r.ExitCode != want.code || string(r.Stdout.Head) != want.stdout || string(r.Stderr.Head) != want.stderr {
			tr.fail("%s: %s, exit code %d, %d bytes %.40q, stderr %.40q", kind, r.Status, r.ExitCode,
				len(r.Stdout.Head),
				r.Stdout.Head, r.Stderr.Head)
		}
	}
	run := tr.request(tr.attack.code)
	run.Request.Args = []string{"late"}
	if r := tr.do(tr.stepContext(), run); r.Status != sandbox.StatusSucceeded { // late writers write until the deadline
		tr.fail("late: %s after %v", r.Status, r.Timings.Run)
	}
}

// driveOrder is O05.
func driveOrder(tr *trial) {
	r := tr.execute(tr.attack.code)
	var want [2]strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&want[i%2], "%d\n", i)
	}
	if string(r.Stdout.Head) != want[0].String() || string(r.Stderr.Head) != want[1].String() {
		tr.fail("%s: the streams are out of order: %.200q %.200q", r.Status, r.Stdout.Head, r.Stderr.Head)
	}
}

// driveLog is O07.
func driveLog(tr *trial) {
	r := tr.execute(tr.attack.code)
	if r.Status != sandbox.StatusFailed {
		tr.fail("status %s", r.Status)
	}
	for line := range strings.Lines(tr.arena.log.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			tr.fail("a line of the log is no entry: %q", line)
		}
		if entry["msg"] == "forged" {
			tr.fail("the log was forged: %s", line)
		}
	}
}

// driveName is S06. A host name that is too plain to search for in all output is compared with the probe's report of
// its own name.
func driveName(tr *trial) {
	r := tr.executeAndJudge(tr.attack.code)
	host, err := os.Hostname()
	switch {
	case err != nil:
		tr.doubt("the host's name: %v", err)
	case host == sandboxName:
		tr.note("the host has the same name as all sandboxes, so the check proves nothing")
	case isNamed(string(r.Stdout.Head), host):
		tr.fail("the sandbox has the host's name, %q", host)
	case tr.arena.canaries.Facts[factName] == "":
		tr.note("the host's name is too short or too plain to search for in all output")
	}
}

// sandboxName is every sandbox's host name: see package rootfs.
const sandboxName = "sandbox"

// nameLines begin the lines of S06 that report the sandbox's name.
var nameLines = []string{"node ", "socket ", "/proc/sys/kernel/hostname ", "/etc/hostname "}

// isNamed reports whether the probe of S06 found exactly this name.
func isNamed(out, name string) bool {
	for line := range strings.Lines(out) {
		for _, begin := range nameLines {
			if found, ok := strings.CutPrefix(line, begin); ok && strings.TrimSpace(found) == name {
				return true
			}
		}
	}
	return false
}

// driveRandom is S03.
func driveRandom(tr *trial) {
	seen := map[string]int{}
	for i := range 12 {
		r := tr.execute(tr.attack.code)
		for j, word := range strings.Fields(string(r.Stdout.Head)) {
			key := fmt.Sprint(j, " ", word)
			const hash, address = 4, 6
			before, ok := seen[key]
			switch {
			case !ok, j == address: // few enough to match by chance
			case j == hash && tr.arena.options.Warm > 0: // forks of one zygote share the seed and the memory layout
			default:
				tr.fail("runs %d and %d share %s", before, i, word)
			}
			seen[key] = i
		}
		if r.Status != sandbox.StatusSucceeded {
			tr.giveUp("%s: %s", r.Status, r.Stderr.Head)
		}
	}
}

// driveErrors is S05: error messages to callers.
func driveErrors(tr *trial) {
	bad := []sandbox.Request{
		{}, {Language: "cobol", Code: []byte("x")}, {Command: []string{"/no/such/program"}},
		{Command: []string{"no-such-program"}},
		{Command: []string{"/etc/passwd"}}, {Command: []string{"bash"}, Dir: "/no/such/folder"},
		{Command: []string{"bash"}, Dir: "/etc/passwd"},
		{Command: []string{"bash", "a\x00b"}}, {Language: "python", Code: []byte("\xff")},
		{Language: "python", Entry: "no/such/file.py"},
		{Language: "python", Code: []byte("x"), Files: []sandbox.File{{Path: "../x"}}},
		{Command: []string{"bash"}, Env: []string{"=x"}},
		{Command: []string{"bash", strings.Repeat("x", 200_000)}},
		{Command: []string{"bash"}, Return: sandbox.Return{Globs: []string{"[", "../*"}}},
		{Language: "python", Code: tr.attack.code}, {Command: []string{"/workspace"}},
		{Command: []string{"/proc/1/exe"}},
		{Command: []string{"/dev/null"}},
	}
	words := []string{"goroutine ", ".go:", "/run/fumehood", "/proc/self/fd/", "/cgroup", "panic", "0x",
		tr.arena.canaries.places[0]}
	for _, req := range bad {
		r, err := tr.arena.engine.Run(tr.stepContext(),
			engine.OneShot{Spec: sandbox.Spec{Metadata: map[string]string{labelTrial: tr.nonce},
				AllowUnenforced: tr.waived()},
				Request: req})
		text := ""
		if err != nil {
			text = err.Error()
			if sandbox.KindOf(err) == sandbox.Internal {
				tr.fail("%.200v gives an internal error: %v", req.Command, err)
			}
		} else {
			text = fmt.Sprint(r.Hints) + string(r.Stderr.Head)
		}
		for _, w := range words {
			if strings.Contains(text, w) {
				tr.fail("the error for %.100q is %q", req.Command, text)
			}
		}
	}
	var e *sandbox.Error
	_, err := tr.arena.engine.Run(tr.stepContext(), engine.OneShot{Request: sandbox.Request{Language: "cobol",
		Code: []byte("x")}})
	if !errors.As(err, &e) {
		tr.fail("an unknown language is %T", err)
	}
}
