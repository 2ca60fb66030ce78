package docker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/fumehood-dev/fumehood/internal/guest"
	guestclient "github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// stepTimeout is the timeout of one step.
const stepTimeout = 2 * time.Minute

var bothEngines = []string{Name, Podman}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	t.Cleanup(cancel)
	return ctx
}

func spec() sandbox.Spec {
	return sandbox.Spec{ID: sandbox.NewID(), Limits: sandbox.DefaultLimits, User: sandbox.DefaultUser,
		Env: sandbox.DefaultEnv}
}

func create(t *testing.T, b *Backend, s sandbox.Spec) *Box {
	t.Helper()
	box, err := b.Create(within(t), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.Close() })
	return box.(*Box)
}

// run runs a shell script in a box and returns its output.
func run(t *testing.T, box sandbox.Box, script string) string {
	t.Helper()
	ctx := within(t)
	conn, err := box.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := guestclient.New(ctx, conn, box.GuestKey())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.Start(ctx, guest.Start{ID: string(sandbox.NewID()), Argv: []string{"/bin/bash", "-c", script},
		Dir: sandbox.Workspace,
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

// connected returns the connection of a backend.
func connected(t *testing.T, b *Backend) *connection {
	t.Helper()
	to, err := b.engine.connect(within(t), factsTimeout)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// left lists what is left of a box: containers in any state, and its folder.
func left(t *testing.T, b *Backend, id sandbox.ID) (list []string) {
	t.Helper()
	found, err := connected(t, b).api.ContainerList(within(t), client.ContainerListOptions{All: true,
		Filters: client.Filters{}.Add("label", labelRun+"="+b.options.runLabel())})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range found.Items {
		if c.Labels[labelSandbox] == string(id) || c.Labels[labelPart] != "sandbox" {
			list = append(list, "container "+strings.Join(c.Names, " ")+" "+string(c.State))
		}
	}
	folders, err := filepath.Glob(filepath.Join(b.options.RunDir, "instances", "*", "boxes", string(id)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil && strings.Contains(string(text), b.options.RunDir) {
		list = append(list, "mounts")
	}
	return append(list, folders...)
}

// each runs a test on both engines.
func each(t *testing.T, test func(t *testing.T, o Options)) {
	for _, name := range bothEngines {
		t.Run(name, func(t *testing.T) { test(t, options(t, name)) })
	}
}

// TestEveryStepFails makes each creation step fail in turn: the error names the step, and nothing is left.
func TestEveryStepFails(t *testing.T) {
	inside := []string{confine.StepPlan, confine.StepKnobs, confine.StepRoot + " workspace", confine.StepIdentity,
		confine.StepRlimits,
		confine.StepSpawner, confine.StepCaps, confine.StepNoNewPriv, confine.StepSeccomp}
	each(t, func(t *testing.T, o Options) {
		for _, step := range slices.Concat(HostSteps, inside) {
			t.Run(step, func(t *testing.T) {
				o := o
				o.FailAt, o.RunDir = step, filepath.Join(t.TempDir(), "run")
				b := open(t, o)
				s := specFor(step)
				box, err := b.Create(within(t), s)
				if err == nil {
					box.Close()
					t.Fatal("the sandbox was made although the step failed")
				}
				if step != confine.StepPlan && !strings.Contains(err.Error(), step) {
					t.Errorf("the error does not name the step: %v", err)
				}
				if l := left(t, b, s.ID); len(l) > 0 {
					t.Errorf("left behind: %v", l)
				}
			})
		}
	})
}

// abandon drops the lock of an instance, as the death of its process would.
func abandon(t *testing.T, b *Backend) {
	t.Helper()
	if err := b.In.Abandon(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.In = nil }) // before the backend is closed
}

// TestReap abandons an instance as kill -9 would, and lets another clean up after it. A living neighbour is left alone.
func TestReap(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		dead, alive, next := open(t, o), open(t, o), open(t, o)
		orphan, neighbour := create(t, dead, spec()), create(t, alive, spec())
		abandon(t, dead)
		for range 2 {
			if err := next.Reap(within(t)); err != nil {
				t.Fatal(err)
			}
		}
		if l := left(t, next, orphan.Sandbox); len(l) > 0 {
			t.Errorf("left behind: %v", l)
		}
		if out := run(t, neighbour, "echo alive"); out != "alive\n" {
			t.Errorf("the neighbour says %q", out)
		}
	})
}

// TestSweep: containers whose folder is gone, as after a reboot, are removed by the next server. Those of other run
// folders stay.
func TestSweep(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		other := o
		other.RunDir = filepath.Join(t.TempDir(), "run")
		dead, neighbour := open(t, o), create(t, open(t, other), spec())
		s := spec()
		s.Lifetime.Living = true
		orphan := create(t, dead, s)
		abandon(t, dead)
		if err := os.RemoveAll(o.RunDir); err != nil {
			t.Fatal(err)
		}
		next := open(t, o)
		create(t, next, spec())
		if l := left(t, next, orphan.Sandbox); len(l) > 0 {
			t.Errorf("left behind: %v", l)
		}
		if out := run(t, neighbour, "echo alive"); out != "alive\n" {
			t.Errorf("the neighbour says %q", out)
		}
	})
}

// TestReattach abandons a living box as a dead server would; the next one reattaches it, content included.
func TestReattach(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		for name, bridge := range map[string]bool{"by its socket": false, "by the engine": true} {
			t.Run(name, func(t *testing.T) {
				o := o
				o.Bridge, o.RunDir = bridge, filepath.Join(t.TempDir(), "run")
				dead, other, next := open(t, o), open(t, o), open(t, o)
				s := spec()
				s.Lifetime.Living = true
				box := create(t, dead, s)
				run(t, box, "echo kept > /workspace/file")
				abandon(t, dead)
				if err := other.Reap(within(t)); err != nil {
					t.Error(err)
				}
				again, err := next.Reattach(within(t), s.ID)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := other.Reattach(within(t), s.ID); sandbox.KindOf(err) != sandbox.Exists {
					t.Errorf("a second owner: %v", err)
				}
				if out := run(t, again, "cat /workspace/file"); out != "kept\n" {
					t.Errorf("it holds %q", out)
				}
				if u, err := again.Usage(within(t)); err != nil || u.MemoryNow <= 0 {
					t.Errorf("got %+v, %v", u, err)
				}
				if err := again.Close(); err != nil {
					t.Error(err)
				}
				if l := left(t, next, s.ID); len(l) > 0 {
					t.Errorf("left behind: %v", l)
				}
				if _, err := other.Reattach(within(t), s.ID); sandbox.KindOf(err) != sandbox.NotFound {
					t.Errorf("after its end: %v", err)
				}
			})
		}
	})
}

// TestRestart kills servers of living boxes.
func TestRestart(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		backendtest.Restart(t, backendtest.Restarted{Open: func(_ *testing.T, run string) sandbox.Backend {
			o := o
			o.RunDir = run
			return New(o)
		}})
	})
}

// TestKilledFromElsewhere: killing or removing a container ends its box, and nothing is left.
func TestKilledFromElsewhere(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		b := open(t, o)
		for name, end := range map[string]func(ctx context.Context, id string) error{
			"kill": func(ctx context.Context, id string) error {
				_, err := connected(t, b).api.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "KILL"})
				return err
			},
			"remove": func(ctx context.Context, id string) error { return connected(t, b).remove(ctx, id) },
		} {
			box := create(t, b, spec())
			if err := end(within(t), box.name()); err != nil {
				t.Fatal(err)
			}
			if ended, err := box.Wait(within(t)); err != nil || ended.Cause != sandbox.EndDied {
				t.Errorf("%s: %+v, %v", name, ended, err)
			}
			if err := box.Close(); err != nil {
				t.Error(err)
			}
			if l := left(t, b, box.Sandbox); len(l) > 0 {
				t.Errorf("%s: left behind: %v", name, l)
			}
		}
	})
}

// TestGuestVolume: a removed guest volume is filled again, also by several boxes at once.
func TestGuestVolume(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		// A program with another digest: other tests use the normal volume.
		o.Guest = ownGuest(t)
		b := open(t, o)
		create(t, b, spec()).Close()
		to := connected(t, b)
		name := b.engine.filled[to.arch]
		t.Cleanup(func() {
			for _, volume := range []string{name, name + readySuffix} {
				_, _ = to.api.VolumeRemove(context.Background(), volume, client.VolumeRemoveOptions{})
			}
		})
		if _, err := to.api.VolumeRemove(within(t), name, client.VolumeRemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		box := create(t, b, spec())
		if out := run(t, box, "touch "+guestDir+"/x 2>/dev/null || echo refused; ls -l "+guestPath+" | cut -c1-10"); out != "refused\n-r-xr-xr-x\n" {
			t.Errorf("the volume says %q", out)
		}
		box.Close()
	})
}

// ownGuest is the guest with meaningless bytes appended.
func ownGuest(t *testing.T) func(string) (*os.File, error) {
	f, err := backendtest.Guest()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, info.Size())
	if _, err := f.ReadAt(text, 0); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(path, append(text, sandbox.NewID()...), 0o755); err != nil {
		t.Fatal(err)
	}
	return func(string) (*os.File, error) { return os.Open(path) }
}

// TestStartFix: the fix for starting an engine fits the system: systemd is only on Linux.
func TestStartFix(t *testing.T) {
	for _, name := range bothEngines {
		for _, system := range []string{"linux", "darwin", "windows"} {
			fix := startFix(name, system)
			if strings.Contains(fix, "systemctl") != (system == "linux") || !strings.Contains(fix, "start") {
				t.Errorf("%s on %s: %s", name, system, fix)
			}
		}
	}
}

// TestProbeOfNothing: a missing engine is reported without waiting.
func TestProbeOfNothing(t *testing.T) {
	for _, name := range bothEngines {
		b := New(Options{Name: name, Host: "unix://" + filepath.Join(t.TempDir(), "nowhere.sock"),
			RunDir: filepath.Join(t.TempDir(), "run")})
		_, err := b.Probe(context.Background())
		if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(sandbox.FixOf(err), "start") {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.Reap(context.Background()); err != nil {
			t.Errorf("%s: reap without earlier instances: %v", name, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestUnseenLayers checks settings that are invisible in the container: no log fills the engine's disk, the guest has
// no parent, and nothing restarts it.
func TestUnseenLayers(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		box := create(t, open(t, o), spec())
		at, err := box.to.container(within(t), failVerify, box.name())
		if err != nil {
			t.Fatal(err)
		}
		h := at.HostConfig
		if h.LogConfig.Type != "none" {
			t.Errorf("its output goes to the log %q", h.LogConfig.Type)
		}
		if h.Init != nil && *h.Init {
			t.Error("its first process is not the guest")
		}
		if name := h.RestartPolicy.Name; name != "no" && name != "" {
			t.Errorf("it is started again: %q", name)
		}
	})
}

// TestRuntime: the reported kernel is the container's. An engine that lacks the runtime, or would use another one, is
// refused.
func TestRuntime(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		o.Runtime = "kata"
		b := open(t, o)
		if box, err := b.Create(within(t), spec()); sandbox.KindOf(err) != sandbox.Unsupported ||
			sandbox.FixOf(err) == "" {
			if err == nil {
				t.Errorf("the reported kernel is %s", box.Effective().Kernel)
				_ = box.Close()
			}
			t.Errorf("with a runtime that is not there it says %v", err)
		}
		if _, err := b.Preflight(spec()); o.Name == Podman && err == nil {
			t.Error("preflight does not refuse it")
		}
		o.Runtime = connected(t, b).info.DefaultRuntime
		p := create(t, open(t, o), spec()).Effective()
		if !strings.HasPrefix(p.Image, testImage+" (sha256:") {
			t.Errorf("the reported image is %q", p.Image)
		}
		if p.Kernel != sandbox.KernelShared {
			t.Errorf("with the engine's own runtime, %s, the reported kernel is %s", o.Runtime, p.Kernel)
		}
	})
}
