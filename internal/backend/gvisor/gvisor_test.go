package gvisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// stepTimeout ends a step that hangs.
const stepTimeout = 2 * time.Minute

func spec() sandbox.Spec {
	return sandbox.Spec{ID: sandbox.NewID(), Limits: sandbox.DefaultLimits, User: sandbox.DefaultUser,
		Env: sandbox.DefaultEnv}
}

func create(t testing.TB, b *Backend, s sandbox.Spec) *Box {
	t.Helper()
	box, err := b.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.Close() })
	return box.(*Box)
}

// greet dials the guest of a box, until the end of the test.
func greet(t testing.TB, box sandbox.Box) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	conn, err := box.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(ctx, conn, box.GuestKey())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the box may have gone first
	return c
}

// execute runs a command in a box and returns its output.
func execute(t testing.TB, c *client.Client, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	p, err := c.Start(ctx, guest.Start{ID: string(sandbox.NewID()), Argv: argv, Dir: sandbox.Workspace,
		Env: sandbox.DefaultEnv, User: sandbox.DefaultUser})
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	if _, err := p.Stream(ctx, func(o guest.Output) error { out = append(out, o.Data...); return nil },
		true); err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// run runs a shell script in a box and returns its output.
func run(t testing.TB, box sandbox.Box, script string) string {
	t.Helper()
	return execute(t, greet(t, box), "/bin/bash", "-c", script)
}

// left lists what is left of a box on the host.
func left(b *Backend, box sandbox.ID) (list []string) {
	if pids := processesOf(box, nil); len(pids) > 0 {
		list = append(list, "processes")
	}
	if _, err := os.Stat(b.In.BoxDir(box)); err == nil {
		list = append(list, b.In.BoxDir(box))
	}
	for _, dir := range b.In.Tree.Dirs() {
		if _, err := os.Stat(filepath.Join(dir, string(box))); err == nil {
			list = append(list, dir)
		}
	}
	if text, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(text),
		b.options.RunDir) {
		list = append(list, "mounts")
	}
	return list
}

// TestEveryStepFails makes each creation step fail in turn: the error names it, and nothing is left.
func TestEveryStepFails(t *testing.T) {
	backendtest.ForCheck(t, "a sandbox for each step")
	inside := []string{confine.StepPlan, confine.StepKnobs, confine.StepRoot + " workspace", confine.StepIdentity,
		confine.StepRlimits,
		confine.StepSpawner, confine.StepCaps, confine.StepNoNewPriv, confine.StepSeccomp}
	for _, step := range slices.Concat(HostSteps, inside) {
		t.Run(step, func(t *testing.T) {
			b := openIn(t, filepath.Join(t.TempDir(), "run"), step)
			s := spec()
			if step == failLink {
				s.Network.Mode = sandbox.NetworkFull
			}
			box, err := b.Create(context.Background(), s)
			if err == nil {
				box.Close()
				t.Fatal("the sandbox was made although the step failed")
			}
			if step != confine.StepPlan && !strings.Contains(err.Error(), step) {
				t.Errorf("the error does not name the step: %v", err)
			}
			if l := left(b, s.ID); len(l) > 0 {
				t.Errorf("left behind: %v", l)
			}
		})
	}
}

// TestCloseFindsNoProgram: Close does not look for runsc, which may build it, if no sandbox was made.
func TestCloseFindsNoProgram(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	b, err := New(Options{Guest: guestProgram(t), RunDir: run, HostIDs: filepath.Join(filepath.Dir(run), hostid.File),
		Runsc: func() (*os.File, error) {
			t.Error("runsc was looked for")
			return nil, os.ErrNotExist
		}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Preflight(spec()); err != nil {
		t.Log(err) // what nothing here can enforce
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestUmask: a strict umask does not affect the sandbox's ids.
func TestUmask(t *testing.T) {
	backendtest.ForCheck(t, "two sandboxes")
	before := unix.Umask(0o077)
	defer unix.Umask(before)
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	for _, mounts := range [][]sandbox.Mount{nil, {{Source: t.TempDir(), Target: "/data"}}} {
		s := spec()
		s.Mounts = mounts
		if out := run(t, create(t, b, s), "id -u; echo x > /workspace/x && cat /workspace/x"); out != "1000\nx\n" {
			t.Errorf("it prints %q", out)
		}
	}
}

// abandon drops an instance's lock, as its process's death would.
func abandon(t *testing.T, b *Backend) {
	t.Helper()
	if err := b.In.Abandon(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.In = nil }) // before the backend is closed
}

// TestReap abandons an instance as kill -9 would, and lets another clean up after it. A living neighbour is left alone.
func TestReap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	dead, alive, next := openIn(t, dir, ""), openIn(t, dir, ""), openIn(t, dir, "")
	orphan, neighbour := create(t, dead, spec()), create(t, alive, spec())
	abandon(t, dead)
	for range 2 {
		if err := next.Reap(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if l := left(dead, orphan.Sandbox); len(l) > 0 {
		t.Errorf("left behind: %v", l)
	}
	if out := run(t, neighbour, "echo alive"); out != "alive\n" {
		t.Errorf("the neighbour says %q", out)
	}
}

// TestRestart kills servers of living boxes.
func TestRestart(t *testing.T) {
	whole(t) // or it is skipped
	backendtest.Restart(t, backendtest.Restarted{Open: func(t *testing.T, run string) sandbox.Backend {
		b, err := New(Options{Guest: guestProgram(t), Runsc: backendtest.Runsc, RunDir: run,
			HostIDs: filepath.Join(filepath.Dir(run), hostid.File), Stderr: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}})
}

// TestReattach abandons a living box as a dead server would. The next one's has the whole root, can be saved, and is
// counted, even after another box of the dead server, which shared the root, has been closed.
func TestReattach(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	dead, other, next := openIn(t, dir, ""), openIn(t, dir, ""), openIn(t, dir, "")
	s, first := livingSpec(), livingSpec()
	run(t, create(t, dead, s), "echo kept > /workspace/file")
	create(t, dead, first)
	abandon(t, dead)
	if box, err := other.Reattach(context.Background(), first.ID); err != nil {
		t.Fatal(err)
	} else if err := box.Close(); err != nil {
		t.Error(err)
	}
	box, err := next.Reattach(context.Background(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Reap(context.Background()); err != nil {
		t.Fatal(err)
	}
	if out := run(t, box, "cat /workspace/file"); out != "kept\n" {
		t.Errorf("it holds %q", out)
	}
	if out := run(t, box, "ls /run /opt /srv; grep -c . /etc/passwd; ls -d /etc/alternatives"); !strings.HasSuffix(out,
		"3\n/etc/alternatives\n") {
		t.Errorf("of its root there is %q", out)
	}
	image := t.TempDir()
	if testing.Short() {
		t.Log("make check: it is saved and made again as well")
	} else if err := checkpointInto(box.(*Box), image); err != nil {
		t.Errorf("save it: %v", err)
	} else if twin, err := next.Restore(context.Background(), image, livingSpec()); err != nil {
		t.Errorf("make it again: %v", err)
	} else if out := run(t, twin, "cat /workspace/file"); out != "kept\n" {
		t.Errorf("its twin holds %q", out)
	} else if err := twin.Close(); err != nil {
		t.Error(err)
	}
	if u, err := box.Usage(context.Background()); err != nil || u.MemoryNow <= 0 &&
		dead.In.Tree.Enforcer(cgroup.Memory) != "" {
		t.Errorf("got %+v, %v", u, err)
	}
	if err := box.Close(); err != nil {
		t.Error(err)
	}
	if l := left(dead, s.ID); len(l) > 0 {
		t.Errorf("left behind: %v", l)
	}
	if _, err := os.Stat(dead.In.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the dead server is there yet: %v", err)
	}
}

// imitate starts another user's processes with the arguments of a box's runsc, until the end of the test.
func imitate(t *testing.T, id sandbox.ID) {
	t.Helper()
	for range 12 { // some are found before the one that they imitate, as the ids of processes are sorted as words
		cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{runscName, "-c", "sleep 600; true", string(id)},
			SysProcAttr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser},
				Setpgid: true, Pdeathsig: syscall.SIGKILL}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		})
	}
}

// TestReattachImitated: another user's process with a box's arguments is not mistaken for it.
func TestReattachImitated(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can become another user")
	}
	dir := filepath.Join(t.TempDir(), "run")
	dead, next := openIn(t, dir, ""), openIn(t, dir, "")
	s := spec()
	s.Lifetime.Living = true
	imitate(t, s.ID)
	own := create(t, dead, s).Process.PID
	imitate(t, s.ID)
	abandon(t, dead)
	box, err := next.Reattach(context.Background(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := box.(*Box).Process.PID; got != own {
		t.Errorf("process %d was taken for the box's, which is %d", got, own)
	}
	if err := box.Close(); err != nil {
		t.Error(err)
	}
}

// TestImitated: processes of other users and of containers with a box's arguments are neither mistaken for it nor
// killed.
func TestImitated(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := filepath.Join(t.TempDir(), "run")
	dead, next := openIn(t, dir, ""), openIn(t, dir, "")
	s := spec()
	box := create(t, dead, s)
	var imitators []int
	for _, name := range []string{runscName, "runsc-sandbox"} {
		for _, attr := range []*syscall.SysProcAttr{
			{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}},
			{Credential: &syscall.Credential{Uid: box.IDs.Code, Gid: 65534}},
			{Cloneflags: syscall.CLONE_NEWPID},
		} {
			if name != runscName && attr.Credential == nil {
				continue // gVisor's own are root's for a moment, in a namespace of theirs
			}
			cmd := exec.Command("/bin/sh")
			cmd.Args, cmd.SysProcAttr = []string{name, "-c", "read x", string(s.ID)}, attr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				in.Close()
				if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() < 0 {
					t.Errorf("%s as %+v was ended: %v", name, attr.Credential, err)
				}
			})
			imitators = append(imitators, cmd.Process.Pid)
		}
	}
	all := processesOf(s.ID, nil)
	if len(all) == 0 || all[0] != box.Process.PID || slices.ContainsFunc(imitators,
		func(pid int) bool { return slices.Contains(all, pid) }) {
		t.Errorf("the box has the processes %v, its own is %d, and %v imitate it", all, box.Process.PID, imitators)
	}
	abandon(t, dead)
	if err := next.Reap(context.Background()); err != nil {
		t.Error(err)
	}
	if l := left(dead, s.ID); len(l) > 0 {
		t.Errorf("left behind: %v", l)
	}
}

// TestTargetsThroughLinks: nothing is made on the host if a link of the root is in a mount's target.
func TestTargetsThroughLinks(t *testing.T) {
	backendtest.ForCheck(t, "a sandbox")
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	made := sandbox.NewID() // in the host's /tmp, to which the root's /var/tmp is a link
	for _, target := range []string{"/var/tmp", "/var/tmp/" + string(made), "/var/tmp/" + string(made) + "/below"} {
		s := spec()
		s.Mounts = []sandbox.Mount{{Source: t.TempDir(), Target: target}}
		box, err := b.Create(context.Background(), s)
		if err == nil {
			box.Close()
		}
		if sandbox.KindOf(err) != sandbox.Invalid {
			t.Errorf("a mount at %s: %v", target, err)
		}
		if _, err := os.Lstat(filepath.Join("/tmp", string(made))); err == nil {
			os.RemoveAll(filepath.Join("/tmp", string(made)))
			t.Errorf("a mount at %s made a folder on the host", target)
		}
	}
	s := spec()
	s.Mounts = []sandbox.Mount{{Source: t.TempDir(), Target: "/opt/new/place"}}
	if out := run(t, create(t, b, s), "cd /opt/new/place && echo there"); out != "there\n" {
		t.Errorf("an ordinary target: %q", out)
	}
}

// TestHostBackstop: on the host a box may have more processes than its code, since gVisor's count too, but not any
// number.
func TestHostBackstop(t *testing.T) {
	backendtest.ForCheck(t, "a sandbox")
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	box := create(t, b, spec())
	if b.In.Tree.Enforcer(cgroup.Pids) == "" {
		t.Skip("SKIPPED, NOT TESTED: nothing here counts processes")
	}
	if got, code := box.Group.Limits().Pids, sandbox.DefaultLimits.Pids; got <= code || got > 10*code {
		t.Errorf("its bound on the host is %d, for code that may have %d", got, code)
	}
}

func called(name string) func(argv []string) bool {
	return func(argv []string) bool { return argv[0] == name }
}

// TestOneOfItsProcessesIsKilled: killing any host process of a box ends all of it, and nothing is left.
func TestOneOfItsProcessesIsKilled(t *testing.T) {
	backendtest.ForCheck(t, "three sandboxes that end")
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	for _, name := range []string{runscName, "runsc-sandbox", "runsc-gofer"} {
		box := create(t, b, spec())
		pids := box.Group.Processes()
		i := slices.IndexFunc(pids, func(pid int) bool { return slices.Contains(pidfd.Find(called(name)), pid) })
		if i < 0 {
			t.Fatalf("there is no %s in the group of a box", name)
		}
		if err := unix.Kill(pids[i], unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		end, err := box.Wait(ctx)
		cancel()
		if err != nil || end.Cause == sandbox.EndClosed {
			t.Errorf("%s: %+v, %v", name, end, err)
		}
		if err := box.Close(); err != nil {
			t.Error(err)
		}
		if l := left(b, box.Sandbox); len(l) > 0 {
			t.Errorf("%s: left behind: %v", name, l)
		}
	}
}
