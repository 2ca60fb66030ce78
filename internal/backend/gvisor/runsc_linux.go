package gvisor

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
)

// runscName is argv[0] of every runsc that we start.
const runscName = "fumehood-runsc"

// Descriptors of runsc, after its first three.
const (
	runscProgram = iota + 3
	runscIDs     // holds the claim on the box's host ids, or signals that its own are mapped
	runscImage   // the folder of a checkpoint
)

var runscEnv = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}

// runscArgv returns the command line of every runsc, without its verb.
func (s *staging) runscArgv() []string {
	return []string{runscName, "--root=" + filepath.Join(s.path(stagingBox), stateFolder), "--platform=systrap",
		"--network=" + cmp.Or(s.network, "none"), "--host-uds=create",
		"--ignore-cgroups", "--overlay2=none"}
}

// startRunsc starts the box's runsc, whose end ends the box.
func (b *Backend) startRunsc(box *Box, s *staging, from *checkpoint) (*pidfd.Process, error) {
	door, err := box.Group.Door()
	if err != nil {
		return nil, err
	}
	defer door.Close()
	stderr, err := os.OpenFile(filepath.Join(box.Dir, stderrFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	order, err := b.runscOrder(stderr, s.runscArgv())
	if err != nil {
		return nil, err
	}
	order.Cgroup, order.Tasks = door.V2, door.Tasks
	order.Files = append(order.Files, int(b.null.Fd()))
	if box.spec.HostWritable() || box.spec.Root.Writable {
		// Only the gofer opens the code's files in host directories, not the user-space kernel, which the code can
		// attack. For a root that is read-only inside, that is not worth 12 ms of Python's start.
		order.Argv = append(order.Argv, "--directfs=false")
	}
	verb := []string{"run"}
	if from != nil {
		// Restore has compared the specs. gVisor would also compare names and ids, which differ.
		verb = []string{"--restore-spec-validation=ignore", "restore", imagePath}
		order.Files = append(order.Files, int(from.image.Fd()))
	}
	order.Files = append(order.Files, int(box.ImageLock(b.null).Fd())) // held while runsc runs, as runscIDs is
	order.Argv = append(append(order.Argv, verb...), "--bundle="+s.path(stagingBox), string(box.Sandbox))
	if box.IDs == nil {
		return b.startMapped(order, box)
	}
	order.Files[runscIDs] = box.IDs.FD()
	return startAt(order, func() error {
		if err := s.attach(); err != nil {
			return err
		}
		return box.leave()
	})
}

// imagePath is the folder of a checkpoint, which runsc opens by path, from its descriptor.
var imagePath = "--image-path=/proc/self/fd/" + strconv.Itoa(runscImage)

// runscOrder starts runsc with a file for its stderr.
func (b *Backend) runscOrder(stderr *os.File, argv []string) (*fork.Order, error) {
	program, err := b.runsc()
	if err != nil {
		return nil, err
	}
	null := int(b.null.Fd())
	return &fork.Order{Program: runscProgram, Argv: argv, Env: runscEnv, Dir: "/",
		Files: []int{null, null, int(stderr.Fd()), int(program.Fd())}, PIDFD: true}, nil
}

// startAt starts a program from a thread that first enters another mount namespace.
func startAt(order *fork.Order, enter func() error) (process *pidfd.Process, err error) {
	fork.OnOwnThread(func() {
		if err = enter(); err != nil {
			return
		}
		var pid, fd int
		if pid, fd, err = order.Start(); err == nil {
			process = &pidfd.Process{PID: pid, FD: fd, Child: true}
		}
	})
	return process, err
}

// lastOutput returns the output of runsc and the guest from a file, without gVisor's stacks, and shortened in the
// middle.
func lastOutput(path string) string {
	const most = 600
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	said, _, _ := strings.Cut(string(text), "\ngoroutine ")
	if said = strings.TrimSpace(said); len(said) > most {
		said = said[:most/2] + " ... " + said[len(said)-most/2:]
	}
	return said
}
