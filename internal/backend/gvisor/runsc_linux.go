package gvisor

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/fork"
	"github.com/glovebox-dev/glovebox/internal/pidfd"
)

// runscName is argv[0] of every runsc of ours.
const runscName = "glovebox-runsc"

// Descriptors as runsc has them, after its three.
const (
	runscProgram = iota + 3
	runscIDs     // holds the claim on the box's host ids for as long as it lives; or tells when its own are mapped
	runscImage   // the folder of a checkpoint
)

var runscEnv = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}

// runscArgv is what every runsc of ours is called with, before its verb.
func (s *staging) runscArgv() []string {
	return []string{runscName, "--root=" + filepath.Join(s.path(stagingBox), stateFolder), "--platform=systrap", "--network=none", "--host-uds=create",
		"--ignore-cgroups", "--overlay2=none"}
}

// startRunsc starts the box's runsc, which stays as its parent: when it ends, all of the box has.
func (b *Backend) startRunsc(box *Box, s *staging, from *checkpoint) (*pidfd.Process, error) {
	door, err := box.Group.Door()
	if err != nil {
		return nil, err
	}
	defer door.Close()
	words, err := os.OpenFile(filepath.Join(box.Dir, wordsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer words.Close()
	order, err := b.runscOrder(words, s.runscArgv())
	if err != nil {
		return nil, err
	}
	order.Cgroup, order.Tasks = door.V2, door.Tasks
	order.Files = append(order.Files, int(b.null.Fd()))
	if box.spec.HostWritable() {
		// What the code makes in a directory of the host is opened by the gofer alone, and the kernel in user space, which the code talks to,
		// has no call by which to open files. For a root that nobody inside can change that is not worth the 12 ms that a Python takes longer.
		order.Argv = append(order.Argv, "--directfs=false")
	}
	verb := []string{"run"}
	if from != nil {
		// What the sandbox is made of was compared before; gVisor would compare names and ids too, which are other ones.
		verb = []string{"--restore-spec-validation=ignore", "restore", imagePath}
		order.Files = append(order.Files, int(from.image.Fd()))
	}
	order.Argv = append(append(order.Argv, verb...), "--bundle="+s.path(stagingBox), string(box.Sandbox))
	if box.IDs == nil {
		return b.startMapped(order)
	}
	order.Files[runscIDs] = box.IDs.FD()
	return startAt(order, s.attach)
}

// imagePath names the folder of a checkpoint: runsc opens by path and knows what it was given.
var imagePath = "--image-path=/proc/self/fd/" + itoa(runscImage)

// runscOrder starts runsc with words for its stderr.
func (b *Backend) runscOrder(words *os.File, argv []string) (*fork.Order, error) {
	program, err := b.runsc()
	if err != nil {
		return nil, err
	}
	null := int(b.null.Fd())
	return &fork.Order{Program: runscProgram, Argv: argv, Env: runscEnv, Dir: "/", Files: []int{null, null, int(words.Fd()), int(program.Fd())}, PIDFD: true}, nil
}

// startAt starts a program from a thread that goes to another mount namespace first.
func startAt(order *fork.Order, enter func() error) (process *pidfd.Process, err error) {
	onThreadThatEnds(func() {
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

// onThreadThatEnds calls do on a thread of its own, which ends with it. That is never the first thread of this process: the Go runtime
// cannot end that one, and what /proc/self says of the whole process, its mounts among it, is what it says of that thread.
func onThreadThatEnds(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			onThreadThatEnds(do) // on another thread, as this one is held meanwhile
			runtime.UnlockOSThread()
			return
		}
		do() // never unlocked: the thread ends with the goroutine
	}()
	<-done
}

// lastWords is what a runsc and the guest said into a file, without gVisor's stacks, and without the middle of what is long.
func lastWords(path string) string {
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
