package docker

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var (
	_ sandbox.Box      = (*Box)(nil)
	_ sandbox.Promoter = (*Box)(nil)
)

// Box is one sandbox: a container.
type Box struct {
	hostbox.Core
	backend  *Backend
	to       *connection
	image    string             // the engine's name of its image; "" for a reattached box
	in       *instance.Instance // that made it; nil for a reattached box
	stream   *stream            // the guest's output; nil for a reattached box
	lifeline net.Conn           // nil for a living box
	lingers  bool               // an undone creation could not remove its container
	counters *counters          // nil if the container's control group is not visible

	quit    context.CancelFunc // ends watch
	watched chan struct{}      // closed once watch has ended

	mu   sync.Mutex    // guards last
	last sandbox.Usage // the latest figures
}

func (box *Box) name() string            { return containerName(box.Sandbox) }
func containerName(id sandbox.ID) string { return "fumehood-" + string(id) }

// begin starts to watch a box that is complete.
func (box *Box) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	box.quit, box.watched = cancel, make(chan struct{})
	box.Start()
	go box.watch(ctx)
}

// watch waits for the container's end, even while the engine is unreachable.
func (box *Box) watch(ctx context.Context) {
	defer close(box.watched)
	if box.stream != nil {
		select {
		case <-box.stream.ended: // the container ended, or its engine
		case <-ctx.Done():
			return
		}
	}
	var going time.Time // since when
	for pause := firstBackOff; ctx.Err() == nil; pause = min(2*pause, lastBackOff) {
		state, err := box.state(ctx)
		switch {
		case err == nil && !hasEnded(state):
			box.awaitExit(ctx)
			continue
		case err == nil && isEnding(state) && (going.IsZero() || time.Since(going) < callTimeout):
			if going.IsZero() {
				going = time.Now()
			}
		case err == nil, errdefs.IsNotFound(err):
			box.finish(state)
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// isEnding reports whether a container has ended, but the engine does not know its exit code yet and reports 0: Podman
// has "stopped" before "exited", and both engines report "removing" during a removal.
func isEnding(s *container.State) bool {
	return s.ExitCode == 0 && (s.Status == "stopped" || s.Status == "stopping" || s.Status == "removing")
}

func hasEnded(s *container.State) bool {
	return !s.Running && s.Status != container.StateCreated && s.Status != "initialized"
}

// state returns the engine's view of the container.
func (box *Box) state(ctx context.Context) (*container.State, error) {
	to, err := box.backend.engine.connect(ctx, factsTimeout)
	if err != nil {
		return nil, err
	}
	found, err := to.container(ctx, "look at container", box.name())
	return found.State, err
}

// awaitExit returns when the container or the engine exits.
func (box *Box) awaitExit(ctx context.Context) {
	to, err := box.backend.engine.connect(ctx, factsTimeout)
	if err != nil {
		return
	}
	wait := to.api.ContainerWait(ctx, box.name(),
		client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-wait.Result:
	case err = <-wait.Error:
		if err == nil {
			return
		}
		select {
		case <-time.After(firstBackOff):
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
}

// finish records how the container ended; state is nil if it is gone.
func (box *Box) finish(state *container.State) {
	end := sandbox.End{Cause: sandbox.EndDied, ExitCode: -1}
	box.mu.Lock()
	if state != nil {
		end.ExitCode = state.ExitCode
		if signal := state.ExitCode - 128; signal > 0 {
			end.ExitCode, end.Signal = -1, signal
		}
		if state.ExitCode == 0 {
			end.Cause = sandbox.EndGuest
		}
		if state.OOMKilled {
			box.last.OOMKills = max(box.last.OOMKills, 1)
		}
	}
	box.last.Wall = time.Since(box.Began)
	box.mu.Unlock()
	box.Finish(end)
}

// HostPID returns the sandbox's first process on this host; 0 if the engine runs elsewhere or in a virtual machine.
func (box *Box) HostPID() int {
	if box.counters == nil || box.Policy.Kernel == sandbox.KernelMachine {
		return 0
	}
	return box.counters.pid
}

func (box *Box) Dial(ctx context.Context) (net.Conn, error) { return box.DialBy(ctx, box.dial) }

// Close ends the sandbox and frees its resources.
func (box *Box) Close() error { return box.CloseBy(box.remove, box.free) }

// remove makes the engine kill and remove the container. If that fails, the box's folder stays as the record for a
// further call, or the next start.
func (box *Box) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout+backTimeout)
	defer cancel()
	brief, done := context.WithTimeout(ctx, factsTimeout) // spend the time on ending the box, not on its figures
	_, _ = box.Usage(brief)
	done()
	box.SetClosing()
	to, err := box.backend.engine.connect(ctx, factsTimeout)
	if err == nil {
		err = to.remove(ctx, box.name())
	}
	box.quit()
	<-box.watched
	box.closeConnections()
	return box.backend.At("end sandbox", err)
}

// free frees the resources of a box whose container is gone.
func (box *Box) free() error {
	if box.Alive() == nil {
		box.finish(nil)
	}
	return errors.Join(os.RemoveAll(box.Dir), box.backend.Claims.Release(context.Background(), box.Dir))
}

func (box *Box) closeConnections() {
	if box.lifeline != nil {
		box.lifeline.Close()
	}
	if box.stream != nil {
		box.stream.close()
	}
}
