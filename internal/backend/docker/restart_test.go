package docker

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// ownEngine is a Docker engine that a test starts and ends.
type ownEngine struct {
	dir     string
	live    bool // containers outlive it
	process *exec.Cmd

	// containerd is the test's own: one started by the engine would die with it.
	containerd *exec.Cmd
}

func newEngine(t *testing.T, live bool) *ownEngine {
	t.Helper()
	if _, err := exec.LookPath("dockerd"); err != nil || os.Geteuid() != 0 {
		backendtest.Skip(t, Name, "the program dockerd and root are needed")
	}
	dir, err := os.MkdirTemp("/tmp", "fhe-") // short, for the addresses of sockets
	if err != nil {
		t.Fatal(err)
	}
	e := &ownEngine{dir: dir, live: live}
	e.containerd = e.launch(t, "containerd", "--address", dir+"/c", "--root", dir+"/croot", "--state", dir+"/cstate",
		"--log-level", "error")
	t.Cleanup(func() {
		e.end(t, syscall.SIGTERM)
		_ = e.containerd.Process.Kill()
		_ = e.containerd.Wait()
		e.unmount(t)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	e.start(t)
	return e
}

func (e *ownEngine) launch(t *testing.T, program string, arguments ...string) *exec.Cmd {
	t.Helper()
	log, err := os.OpenFile(e.dir+"/log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, arguments...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func (e *ownEngine) start(t *testing.T) {
	t.Helper()
	arguments := []string{"--containerd", e.dir + "/c", "--host", "unix://" + e.dir + "/s", "--data-root",
		e.dir + "/data",
		"--exec-root", e.dir + "/exec", "--pidfile", e.dir + "/pid",
		"--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"}
	if e.live {
		arguments = append(arguments, "--live-restore")
	}
	os.Remove(e.dir + "/pid")
	e.process = e.launch(t, "dockerd", arguments...)
	api, err := client.New(client.WithHost("unix://" + e.dir + "/s"))
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	for end := time.Now().Add(stepTimeout); ; time.Sleep(50 * time.Millisecond) {
		if _, err = api.Ping(within(t), client.PingOptions{NegotiateAPIVersion: true}); err == nil {
			return
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(e.dir + "/log")
			t.Fatalf("the engine does not start: %v\n%s", err, text[max(0, len(text)-4000):])
		}
	}
}

func (e *ownEngine) end(t *testing.T, with syscall.Signal) {
	t.Helper()
	if err := e.process.Process.Signal(with); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	_ = e.process.Wait()
}

func (e *ownEngine) unmount(t *testing.T) {
	t.Helper()
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 && strings.HasPrefix(fields[4], e.dir+"/") {
			_ = syscall.Unmount(fields[4], syscall.MNT_DETACH)
		}
	}
}

// give copies the tests' image from the other tests' engine.
func (e *ownEngine) give(t *testing.T, from *connection) {
	t.Helper()
	saved, err := from.api.ImageSave(within(t), []string{testImage})
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	api, err := client.New(client.WithHost("unix://" + e.dir + "/s"))
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	loaded, err := api.ImageLoad(within(t), saved)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	if _, err := io.Copy(io.Discard, loaded); err != nil {
		t.Fatal(err)
	}
}

// TestEngineRestarts kills an engine under living sandboxes and restarts it. If its containers outlive it, so do the
// sandboxes; else their end is reported. Either way the same server can create new ones at once, and nothing is left of
// the old.
func TestEngineRestarts(t *testing.T) {
	for name, live := range map[string]bool{"containers live on": true, "containers end": false} {
		t.Run(name, func(t *testing.T) {
			o := options(t, Name)
			e := newEngine(t, live)
			e.give(t, connected(t, open(t, o)))
			o.Host = "unix://" + e.dir + "/s"
			b := open(t, o)
			s := spec()
			s.Lifetime.Living = true
			box := create(t, b, s)
			run(t, box, "echo kept > file")
			e.end(t, syscall.SIGKILL)
			back := make(chan struct{})
			go func() {
				defer close(back)
				time.Sleep(500 * time.Millisecond) // callers wait meanwhile
				e.start(t)
			}()
			fresh := create(t, b, spec())
			<-back
			if out := run(t, fresh, "echo fresh"); out != "fresh\n" {
				t.Errorf("a new one says %q", out)
			}
			if live {
				if out := run(t, box, "cat file"); out != "kept\n" {
					t.Errorf("it holds %q", out)
				}
			} else {
				ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
				defer cancel()
				if end, err := box.Wait(ctx); err != nil || end.Cause == sandbox.EndClosed {
					t.Errorf("it ended as %+v, %v", end, err)
				}
			}
			for _, x := range []*Box{box, fresh} {
				if err := x.Close(); err != nil {
					t.Error(err)
				}
				if l := left(t, b, x.Sandbox); len(l) > 0 {
					t.Errorf("left behind: %v", l)
				}
			}
		})
	}
}
