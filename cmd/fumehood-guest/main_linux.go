// Without these settings, the runtime reads the host's mounts and the guest's CPU limit at every start and once a
// second; GOMAXPROCS in the environment has the number.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command fumehood-guest is pid 1 of every sandbox: it isolates itself, then starts processes, moves their bytes and
// serves files for the host. Only backends start it.
package main

import (
	"errors"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/guest/server"
)

func main() {
	// No started process inherits the host's descriptors.
	if err := unix.CloseRange(confine.SetupFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		fail(err)
	}
	nameSelf()
	if path := bridged(); path != "" {
		bridge(path)
		return
	}
	if plan, err := confine.ContainedPlan(); plan != nil || err != nil {
		contained(plan, err)
		return
	}
	unix.Close(confine.ProgramFD)
	setup := os.NewFile(confine.SetupFD, "setup")
	plan, mounts, err := confine.ReceivePlan(setup)
	if err != nil {
		refuse(setup, &confine.Failure{Step: confine.StepPlan, Msg: err.Error()})
	}
	if len(plan.Execute.Paths) > 0 {
		runtime.LockOSThread()
		err := confine.Zygote(plan, mounts, setup, func() error { return confine.Report(setup, nil) })
		refuse(setup, err)
	}
	if plan.MakeTemplate {
		if err := confine.Template(plan, setup); err != nil {
			refuse(setup, err)
		}
		return
	}
	s, err := raise(setup, plan, mounts)
	if err != nil {
		refuse(setup, err)
	}
	go serve(s)
	if err := confine.Report(setup, nil); err != nil {
		fail(err)
	}
	s.Wait() // then this process exits, and the kernel ends all others in the sandbox
}

// nameSelf sets the name for ps(1); after an exec by descriptor, it would be a number. A failure does no harm.
func nameSelf() {
	name, _ := unix.BytePtrFromString("fumehood-guest")
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0)
}

// raise sets up isolation and returns a server inside.
func raise(setup *os.File, plan *confine.Plan, mounts []int) (*server.Server, error) {
	stage, err := confine.Apply(plan, mounts)
	if err != nil {
		return nil, err
	}
	cfg := config(plan, stage)
	if plan.OneShot {
		if cfg.Lifeline, err = lifeline(setup); err != nil {
			return nil, err
		}
	}
	s, err := server.New(cfg)
	if err != nil {
		return nil, err
	}
	return s, confine.Finish(plan)
}

func config(plan *confine.Plan, stage *confine.Stage) server.Config {
	cfg := server.Config{
		ID:       plan.ID,
		User:     plan.Code,
		Init:     true,
		Lease:    time.Duration(plan.Lease),
		Spawner:  func() error { return confine.Spawner(plan) },
		OOMScore: stage.OOMScore,
		Promoted: leaveStderr,
	}
	copy(cfg.Key[:], plan.Key)
	for _, l := range plan.Payload {
		cfg.Limits = append(cfg.Limits, guest.Rlimit{Resource: l.Resource, Value: l.Hard})
	}
	return cfg
}

// leaveStderr replaces the server's stderr by /dev/null: a reader of the server's stderr must not wait for a living
// sandbox.
func leaveStderr() { _ = unix.Dup3(0, 2, 0) }

// lifeline is a second descriptor of the setup socket. The host holds it open as long as it needs the sandbox.
func lifeline(setup *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(setup.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "lifeline"), nil
}

func serve(s *server.Server) {
	if err := unix.SetNonblock(confine.ListenFD, true); err != nil {
		fail(err)
	}
	if err := s.Serve(os.NewFile(confine.ListenFD, "listener")); err != nil {
		fail(err)
	}
}

// refuse reports the failed step of the set-up to the host, and exits.
func refuse(setup *os.File, err error) {
	var f *confine.Failure
	if !errors.As(err, &f) {
		f = &confine.Failure{Step: "start server", Msg: err.Error()}
	}
	_ = confine.Report(setup, f)
	os.Exit(1)
}

func fail(err error) {
	os.Stderr.WriteString("fumehood-guest: " + err.Error() + "\n")
	os.Exit(1)
}
