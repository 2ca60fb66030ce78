package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// templated is a backend with a template, held during the test.
func templated(t *testing.T, failAt string) (*Backend, *template) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("templates are made by root alone")
	}
	b := open(t, failAt)
	made := await(b)
	if made == nil {
		t.Fatal("there is no template")
	}
	t.Cleanup(made.release)
	return b, made
}

// await returns a good template, made if necessary, or nil if that fails. Nobody else mounts where the tests are, so
// new ones are not stale at once.
func await(b *Backend) *template {
	s := spec()
	b.templates.proven.Store(true)
	b.templates.mu.Lock()
	b.templates.next = time.Time{}
	b.templates.mu.Unlock()
	for range 2 { // a stale one is discarded first
		if made := b.templates.take(b, &s); made != nil {
			return made
		}
		b.templates.maker.Wait()
	}
	return b.templates.take(b, &s)
}

// createIn makes a sandbox in the template, or without one if it is nil.
func createIn(t *testing.T, b *Backend, in *template) *Box {
	t.Helper()
	box, err := b.create(context.Background(), spec(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return box
}

// TestTemplateShowsTheSame: a program sees the same root with and without a template, except owners of files that
// nobody inside can change.
func TestTemplateShowsTheSame(t *testing.T) {
	b, made := templated(t, "")
	own, given := createIn(t, b, nil), createIn(t, b, made)
	mounts := func(box *Box) (seen []string) {
		for line := range strings.Lines(run(t, box, "/bin/cat", "/proc/self/mountinfo").stdout) {
			seen = append(seen, strings.Join(strings.Fields(line)[3:6], " "))
		}
		slices.Sort(seen)
		return seen
	}
	if a, b := mounts(own), mounts(given); !slices.Equal(a, b) || len(a) < 20 {
		t.Errorf("mounts without a template:\n%s\nwith one:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	for _, script := range []string{
		"find / -xdev -printf '%p %y %m %l\\n' | sort; cat /etc/passwd /etc/hosts", // of the root's own file system
		"stat -c '%n %F %a %u %g' /workspace /home/agent /tmp /dev/shm /dev/pts; touch /workspace/x /tmp/x /dev/shm/x ~/x && echo done",
		"touch /x /etc/x /run/x /proc/x /usr/x 2>&1; df --output=size / /workspace /tmp; echo x >/etc/hosts",
		"for m in $(cut -d' ' -f5 /proc/self/mountinfo | sort); do stat -c '%n %F %a' $m; done",
	} {
		a, b := run(t, own, "/bin/bash", "-c", script), run(t, given, "/bin/bash", "-c", script)
		if a.stdout+a.stderr != b.stdout+b.stderr || a.stdout == "" {
			t.Errorf("%s\nwithout a template: %+v\nwith one: %+v", script, a, b)
		}
	}
}

// TestTemplateIsLocked: even with all rights in a sandbox's namespaces, nobody can undo the template's mounts.
func TestTemplateIsLocked(t *testing.T) {
	b, made := templated(t, "")
	const code = `import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
failed = %s
os._exit(ctypes.get_errno() if failed else 0)`
	for _, call := range []string{
		`libc.umount2(b"/usr", 2)`, // MNT_DETACH
		`libc.umount2(b"/dev/null", 2)`,
		`libc.mount(None, b"/", None, 4096|32|2|4, None)`,    // bind, remount, nosuid, nodev: not read-only
		`libc.mount(None, b"/usr", None, 4096|32|1|4, None)`, // read-only, nodev: not nosuid
	} {
		try := func(in *template) (errno int) {
			cmd := exec.Command("nsenter", "-t", strconv.Itoa(createIn(t, b, in).Process.PID), "-U", "-m", "--",
				"python3", "-IS", "-c", fmt.Sprintf(code, call))
			_ = cmd.Run()
			return cmd.ProcessState.ExitCode()
		}
		if errno := try(nil); errno != 0 {
			t.Errorf("the test proves nothing: %s without a template: %v", call, unix.Errno(errno))
		}
		if errno := unix.Errno(try(made)); errno != unix.EINVAL && errno != unix.EPERM {
			t.Errorf("%s: %v", call, errno)
		}
	}
}

// TestTemplateStepsFail is TestEveryStepFails in a template.
func TestTemplateStepsFail(t *testing.T) {
	steps := slices.Concat(HostSteps, confine.Steps, []string{confine.StepRoot + " proc", confine.StepRoot + " dev/pts",
		confine.StepRoot + " workspace", confine.StepRoot + " proc/kcore"})
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			b, made := templated(t, step)
			if _, err := b.instance(); err != nil {
				t.Fatal(err)
			}
			s := specFor(t, step)
			fds := openFiles(t)
			box, err := b.create(context.Background(), s, made)
			if err == nil {
				box.Close()
				t.Fatal("the sandbox was made although the step failed")
			}
			if name, _, _ := strings.Cut(step, " proc/"); !strings.Contains(err.Error(), name) {
				t.Errorf("the error does not name the step: %v", err)
			}
			if left := leftovers(t, b, s.ID); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if n := openFiles(t); n > fds {
				t.Errorf("%d descriptors before, %d after", fds, n)
			}
		})
	}
}

// TestTemplateIsNotTheOne: a guest spawned elsewhere than the plan says stops; the sandbox is then made without a
// template.
func TestTemplateIsNotTheOne(t *testing.T) {
	b, made := templated(t, "")
	made.device++
	if _, err := b.create(context.Background(), spec(), made); err == nil ||
		!strings.Contains(err.Error(), confine.StepNewRoot) {
		t.Errorf("got %v", err)
	}
	if o := run(t, create(t, b, spec()), "/bin/echo", "hello"); o.stdout != "hello\n" {
		t.Errorf("got %+v", o)
	}
	if b.templates.ready != nil {
		t.Error("a template that does not serve is kept")
	}
}

// TestTemplateIsMissing: sandboxes work even if no template can be made.
func TestTemplateIsMissing(t *testing.T) {
	b := open(t, "")
	if _, err := b.hostSteps(); err != nil {
		t.Fatal(err)
	}
	there := b.host
	b.host = append(slices.Clone(there), confine.Step{Do: confine.Bind, Target: "none", Source: "/no/such/folder"})
	made := await(b)
	b.host = there
	if made != nil {
		t.Fatal("a template was made of what is not there")
	}
	for range 2 {
		create(t, b, spec())
	}
}

// TestTemplateIsTaken: a server's first sandbox finds no template, later ones do if it fits them.
func TestTemplateIsTaken(t *testing.T) {
	b := open(t, "")
	create(t, b, spec())
	if b.templates.coming || b.templates.ready != nil {
		t.Error("one sandbox alone has a template made")
	}
	create(t, b, spec())
	b.templates.maker.Wait()
	if root := os.Geteuid() == 0; (b.templates.ready != nil) != root {
		t.Fatalf("template: %v, root: %v", b.templates.ready, root)
	}
	box := create(t, b, spec()).(*Box)
	if ready := b.templates.ready; ready != nil {
		root, err := identify("/proc/" + strconv.Itoa(box.Process.PID) + "/root/.")
		if err != nil || root.dev != ready.device {
			t.Errorf("the third sandbox was not spawned in it: %v, %v", root, err)
		}
	}
	for name, s := range map[string]sandbox.Spec{"root": {Root: sandbox.Root{Dir: "/"}},
		"commands": {Commands: []string{}},
		"mounts":   {Mounts: []sandbox.Mount{{}}}} {
		if b.templatable(&s) {
			t.Errorf("%s: a template would be taken", name)
		}
	}
}

// TestTemplateOfLayers: sandboxes whose layers go to the same places share a template, and its folders are in no
// other's.
func TestTemplateOfLayers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("templates are made by root alone")
	}
	var templates *templates
	t.Cleanup(func() { // after the backend's own
		if templates == nil || templates.ready != nil {
			t.Error("there is a template after the end")
		}
	})
	b := open(t, "")
	layered := func(text string) sandbox.Spec {
		s := spec()
		dir, err := os.MkdirTemp("", "layer") // open to the ids of sandboxes, which t.TempDir is not
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "text"), []byte(text),
			0o644)); err != nil {
			t.Fatal(err)
		}
		s.Layers = []sandbox.Layer{{Digest: text, Dir: dir, At: "/opt/deep/layer"}}
		return s
	}
	for _, text := range []string{"one", "two", "three", "four"} {
		s := layered(text)
		box := create(t, b, s).(*Box)
		if o := run(t, box, "/bin/sh", "-c",
			"cat /opt/deep/layer/text; touch /opt/deep/layer/x /opt/deep/x 2>/dev/null && echo written"); o.stdout != text {
			t.Errorf("got %+v, want %q", o, text)
		}
		templates = b.templatesFor(&s)
		templates.maker.Wait()
		if text != "four" {
			continue
		}
		root, err := identify("/proc/" + strconv.Itoa(box.Process.PID) + "/root/.")
		if ready := templates.ready; err != nil || ready == nil || root.dev != ready.device {
			t.Errorf("the last sandbox was not spawned in the template: %v, %v, %v", root, err, ready)
		}
	}
	await(b).release()
	if o := run(t, create(t, b, spec()), "/bin/ls", "-d", "/opt/deep"); o.stdout != "" {
		t.Errorf("a sandbox without layers has %s", o.stdout)
	}
}

// divertFirstThread gives the first thread of the process its own mount namespace, as overlay.New may do. The runtime
// keeps that thread when its goroutine ends. Few goroutines run on it, so divertFirstThread starts up to 20,000.
func divertFirstThread() {
	for range 20_000 {
		diverted := make(chan bool)
		go func() {
			runtime.LockOSThread()
			if unix.Gettid() == unix.Getpid() {
				diverted <- unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS) == nil &&
					unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") == nil
				return
			}
			runtime.UnlockOSThread()
			diverted <- false
		}()
		if <-diverted {
			return
		}
	}
}

// TestTemplateIsStale changes what the host shows: every later sandbox sees it, the first one before there is a new
// template.
func TestTemplateIsStale(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	divertFirstThread()
	dir, err := os.MkdirTemp("", "stale") // open to the ids of sandboxes, which t.TempDir is not
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, folder := filepath.Join(dir, "file"), filepath.Join(dir, "folder")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.MkdirAll(filepath.Join(folder, "sub"), 0o755)); err != nil {
		t.Fatal(err)
	}
	write(file, "old")
	b := open(t, "")
	if _, err := b.hostSteps(); err != nil {
		t.Fatal(err)
	}
	b.host = append(b.host, confine.Step{Do: confine.Bind, Target: "etc/file", Source: file},
		confine.Step{Do: confine.Bind, Target: "folder", Source: folder})
	hidden, all := filepath.Join(folder, "hidden"), rootfs.HiddenPlaces
	rootfs.HiddenPlaces = append([]string{hidden}, all...)
	defer func() { rootfs.HiddenPlaces = all }()
	await(b).release()
	expect := func(want string) {
		t.Helper()
		if o := run(t, create(t, b, spec()), "/bin/sh", "-c",
			"cat /etc/file; cat /folder/sub/* /folder/x 2>/dev/null"); o.stdout != want {
			t.Errorf("got %q, want %q", o.stdout, want)
		}
	}
	expect("old")
	for _, change := range []struct {
		do   func()
		want string
	}{
		{func() { write(file, "new") }, "new"},
		{func() {
			if err := unix.Mount("none", filepath.Join(folder, "sub"), "tmpfs", 0, "mode=755"); err != nil {
				t.Fatal(err)
			}
			write(filepath.Join(folder, "sub", "y"), " mounted")
		}, "new mounted"},
		{func() {
			if err := unix.Unmount(filepath.Join(folder, "sub"), 0); err != nil {
				t.Fatal(err)
			}
		}, "new"},
		{func() { // what is to be hidden was not there when the template was made
			if err := os.Mkdir(hidden, 0o755); err != nil {
				t.Fatal(err)
			}
		}, "new"},
	} {
		change.do()
		expect(change.want)
		if b.templates.ready != nil {
			t.Error("a stale template is kept")
		}
		await(b).release()
		expect(change.want)
		if b.templates.ready == nil {
			t.Error("a good template was discarded")
		}
	}
	write(filepath.Join(folder, "x"), " live") // this the template shows as it is
	expect("new live")
	if b.templates.ready == nil {
		t.Error("a good template was discarded")
	}
}

// TestTemplateEnds: a closed backend ends everything prepared, even in progress.
func TestTemplateEnds(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("templates are made by root alone")
	}
	fds, children := openFiles(t), len(childrenOf(os.Getpid()))
	for range 5 {
		b, err := New(Options{Guest: guestProgram, RunDir: filepath.Join(t.TempDir(), "run")})
		if err != nil {
			t.Fatal(err)
		}
		s := spec()
		b.templates.proven.Store(true)
		b.templates.take(b, &s)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if b.templates.ready != nil {
			t.Error("there is a template after the end")
		}
	}
	if n := openFiles(t); n > fds {
		t.Errorf("%d descriptors before, %d after", fds, n)
	}
	if left := childrenOf(os.Getpid()); len(left) > children {
		t.Errorf("processes %v are left", left)
	}
}
