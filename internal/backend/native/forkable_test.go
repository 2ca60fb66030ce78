package native

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestWhenItForks lists for what a waiting interpreter may be forked, and what needs a new one.
func TestWhenItForks(t *testing.T) {
	h := warmed(t)
	const say = "import os, sys; print(sys.argv[1:], os.getcwd(), sys.stdin.read(), os.environ.get('X'), os.environ.get('HOME'))"
	for _, c := range []struct {
		name   string
		change func(r *engine.OneShot)
		forked bool
		says   string
	}{
		{"plain", func(*engine.OneShot) {}, true, "[] /workspace  None /home/agent"},
		{"arguments", func(r *engine.OneShot) { r.Request.Args = []string{"", "a b", "\xff", "-c"} }, true,
			`['', 'a b', '\udcff', '-c']`},
		{"many arguments", func(r *engine.OneShot) { r.Request.Args = strings.Fields(strings.Repeat("a ", 1000)) }, true,
			"'a', 'a'"},
		{"an empty list of arguments", func(r *engine.OneShot) { r.Request.Args = []string{} }, true, "[] "},
		{"a variable", func(r *engine.OneShot) { r.Request.Env = []string{"X==a=b="} }, true, "=a=b="},
		{"an empty variable", func(r *engine.OneShot) { r.Request.Env = []string{"X="} }, true, "/workspace   /home"},
		{"a variable of the sandbox", func(r *engine.OneShot) { r.Spec.Env = []string{"X=spec"} }, true, "spec"},
		{"files, folders and results", func(r *engine.OneShot) {
			r.Request.Files = []sandbox.File{{Path: "a/b", Data: []byte("c")}}
			r.Request.Return.Globs = []string{"**"}
		}, true, "[]"},
		{"other limits", func(r *engine.OneShot) {
			r.Spec.Limits = sandbox.Limits{MemoryBytes: 100 << 20, Pids: 20,
				OpenFiles: 100}
		}, true, "[]"},
		{"a variable that is as it was", func(r *engine.OneShot) {
			r.Request.Env = []string{"HOME=/home/agent",
				"LANG=C.UTF-8"}
		},
			true, "/home/agent"},
		{"packages", func(r *engine.OneShot) {
			r.Spec = layerSpec(t)
			r.Request.Code = []byte("import layered, os, sys\n" + say + "\nprint(layered.value, layered.__file__)")
		}, true, "\n42 /opt/fumehood/python/layered.py"},

		{"packages in another place", func(r *engine.OneShot) {
			r.Spec = layerSpec(t)
			r.Spec.Layers[0].At = "/opt/layer"
		}, false, "[]"},
		{"packages whose variables are others", func(r *engine.OneShot) {
			r.Spec = layerSpec(t)
			r.Request.Env = []string{"PYTHONPATH=/tmp"}
		}, false, "[]"},
		{"input", func(r *engine.OneShot) { r.Request.Stdin = []byte("input") }, false, "input"},
		{"another folder", func(r *engine.OneShot) { r.Request.Dir = "/tmp" }, false, "/tmp"},
		{"another name", func(r *engine.OneShot) { r.Request.FileName = "other.py" }, false, "[]"},
		{"seed of hashes", func(r *engine.OneShot) { r.Request.Env = []string{"PYTHONHASHSEED=0"} }, false, "[]"},
		{"path of modules", func(r *engine.OneShot) { r.Request.Env = []string{"PYTHONPATH=/tmp"} }, false, "[]"},
		{"an empty path of modules", func(r *engine.OneShot) { r.Request.Env = []string{"PYTHONPATH="} }, false, "[]"},
		{"time zone", func(r *engine.OneShot) { r.Request.Env = []string{"TZ=Asia/Tokyo"} }, false, "[]"},
		{"language", func(r *engine.OneShot) { r.Request.Env = []string{"LANG=C"} }, false, "[]"},
		{"one category of the locale", func(r *engine.OneShot) { r.Request.Env = []string{"LC_ALL=C"} }, false, "[]"},
		{"home", func(r *engine.OneShot) { r.Request.Env = []string{"HOME=/tmp"} }, false, "/tmp"},
		{"path of programs", func(r *engine.OneShot) { r.Request.Env = []string{"PATH=/usr/bin"} }, false, "[]"},
		{"preloading", func(r *engine.OneShot) { r.Request.Env = []string{"LD_PRELOAD="} }, false, "[]"},
		{"the C library", func(r *engine.OneShot) { r.Request.Env = []string{"GLIBC_TUNABLES=glibc.malloc.check=0"} },
			false,
			"[]"},
		{"the allocator", func(r *engine.OneShot) { r.Request.Env = []string{"MALLOC_ARENA_MAX=1"} }, false, "[]"},
		{"sensitive for the sandbox", func(r *engine.OneShot) { r.Spec.Env = []string{"TZ=Asia/Tokyo"} }, false, "[]"},
		{"a little memory", func(r *engine.OneShot) { r.Spec.Limits.MemoryBytes = 31 << 20 }, false, "[]"},
		{"half a CPU", func(r *engine.OneShot) { r.Spec.Limits.CPUMillis = 500 }, false, "[]"},
		{"few processes", func(r *engine.OneShot) { r.Spec.Limits.Pids = 7 }, false, "[]"},
		{"a command", func(r *engine.OneShot) {
			r.Request.Language, r.Request.Code, r.Request.Command = "", nil, []string{"python3", "-c", say}
		}, false, "[]"},
		{"an entry", func(r *engine.OneShot) {
			r.Request.Code, r.Request.Entry, r.Request.Files = nil, "a.py", []sandbox.File{{Path: "a.py",
				Data: []byte(say)}}
		}, false, "[]"},
		{"allowed commands", func(r *engine.OneShot) { r.Spec.Commands = []string{"python3"} }, false, "[]"},
		{"a folder of the host", func(r *engine.OneShot) {
			r.Spec.Workspace = t.TempDir()
			if err := os.Chmod(r.Spec.Workspace, 0o777); err != nil {
				t.Fatal(err)
			}
		}, false, "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := engine.OneShot{Request: python3(say)}
			c.change(&run)
			before := h.Stats().Forked
			result, err := h.Run(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			if result.Status != sandbox.StatusSucceeded || !strings.Contains(string(result.Stdout.Head), c.says) {
				t.Errorf("%s, %.300q, %.500q, %+v", result.Status, result.Stdout.Head, result.Stderr.Head, result.Hints)
			}
			if forked := h.Stats().Forked > before; forked != c.forked {
				t.Errorf("forked: %v", forked)
			}
		})
	}
}

// TestEntranceSaysWhatFailed: a failing call on the way into a sandbox is returned with its errno, and no process is
// left.
func TestEntranceSaysWhatFailed(t *testing.T) {
	h := warmed(t)
	z := h.zygote()
	f := sandbox.Fork{Zygote: z.zygote, Argv: z.argv, Reads: z.reads, Dir: sandbox.Workspace}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, box *Box) // before the fork
		want  unix.Errno
	}{
		{"a process that is no sandbox", func(t *testing.T, box *Box) {
			// Its user namespace is the zygote's own, which setns(2) refuses to join again.
			pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
			if err != nil {
				t.Fatal(err)
			}
			old := box.Process.FD
			box.Process.FD = pidfd
			t.Cleanup(func() { unix.Close(pidfd); box.Process.FD = old })
		}, unix.EINVAL},
		{"a folder that is not there", func(_ *testing.T, _ *Box) {}, unix.ENOENT},
	} {
		t.Run(c.name, func(t *testing.T) {
			box := create(t, h.backend, spec()).(*Box)
			c.spoil(t, box)
			order := f
			if c.want == unix.ENOENT {
				order.Dir = "/no/such/folder"
			}
			forked, err := box.Fork(t.Context(), order)
			if err == nil {
				forked.Close()
				t.Fatal("it is in")
			}
			if !strings.Contains(err.Error(), c.want.Error()) && !strings.Contains(err.Error(),
				"Errno "+strconv.Itoa(int(c.want))) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			eventually(t, "the end of what tried",
				func() bool { return len(childrenOf(z.process.PID))+len(childrenOf(guestsOf(box.ID(), nil)[0])) == 0 })
		})
	}
	h.alone(python3("pass"))
}
