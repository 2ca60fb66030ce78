package native

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// zygotes holds a backend's one zygote. It starts on first use and is replaced from time to time, as all its forks
// share their memory layout and hash seed.
type zygotes struct {
	mu      sync.Mutex // guards all below
	ready   *zygote
	forks   int // of ready
	strikes int // failed forks since the last success
	coming  bool
	failed  time.Time
	closed  bool
	starter sync.WaitGroup
}

// Limits of zygotes; tests set the variables.
const zygoteStrikes = 3 // failures in a row: more than one sandbox short of memory

var (
	zygoteForks   = 2000 // per zygote
	zygoteBackoff = time.Minute
	zygoteTimeout = 10 * time.Second // from its start until it waits, some 50 ms on an idle machine
)

// take returns the zygote for f, or sandbox.ErrNoZygote, and starts one if necessary.
func (zs *zygotes) take(b *Backend, f *sandbox.Fork) (*zygote, error) {
	zs.mu.Lock()
	defer zs.mu.Unlock()
	if zs.ready != nil && zs.ready.dead() {
		zs.giveUp(b, errors.New("it has ended"))
	}
	if (zs.ready == nil || zs.forks >= zygoteForks) && !zs.coming && !zs.closed &&
		time.Since(zs.failed) >= zygoteBackoff {
		zs.coming = true
		zs.starter.Go(func() { zs.start(b, f) })
	}
	z := zs.ready
	if z == nil || z.zygote != f.Zygote || !slices.Equal(z.argv, f.Argv) || !slices.Equal(z.reads, f.Reads) {
		return nil, sandbox.ErrNoZygote
	}
	zs.forks++
	return z, nil
}

// record counts the outcome of a fork. It gives up a zygote that fails several times in a row: each failure may have
// cost a full timeout.
func (zs *zygotes) record(b *Backend, z *zygote, err error) {
	zs.mu.Lock()
	defer zs.mu.Unlock()
	switch {
	case zs.ready != z || z.dead(): // replaced or dead already
	case err == nil:
		zs.strikes = 0
	default:
		if zs.strikes++; zs.strikes == zygoteStrikes {
			zs.giveUp(b, err)
		}
	}
}

// giveUp ends the zygote, and starts none for a while. The caller holds the lock.
func (zs *zygotes) giveUp(b *Backend, err error) {
	zs.starter.Go(zs.ready.close)
	zs.ready, zs.failed = nil, time.Now()
	b.note("warm interpreters are disabled for a while", err)
}

func (zs *zygotes) start(b *Backend, f *sandbox.Fork) {
	z, err := b.startZygote(f)
	zs.mu.Lock()
	defer zs.mu.Unlock()
	zs.coming = false
	if err != nil { // any previous zygote is used up
		zs.failed = time.Now()
		b.note("cannot keep an interpreter warm", err)
	}
	z, zs.ready, zs.forks, zs.strikes = zs.ready, z, 0, 0
	if zs.closed {
		z, zs.ready = zs.ready, nil
	}
	if z != nil {
		zs.starter.Go(z.close)
	}
}

func (zs *zygotes) close() {
	zs.mu.Lock()
	z := zs.ready
	zs.ready, zs.closed = nil, true
	zs.mu.Unlock()
	if z != nil {
		z.close()
	}
	zs.starter.Wait()
}

// zygote is an interpreter that waits to be forked. It ends when its end of the gate closes, and so with this process.
type zygote struct {
	zygote *sandbox.Zygote
	argv   []string
	reads  []string

	process *pidfd.Process
	gate    *net.UnixConn
	drained chan struct{} // closed when its stderr is
	ended   chan struct{} // closed when it is reaped
}

// startZygote starts an interpreter in a root like a sandbox's, and returns it once it waits.
func (b *Backend) startZygote(f *sandbox.Fork) (*zygote, error) {
	steps, err := b.hostSteps()
	if err != nil {
		return nil, err
	}
	env := slices.Concat(f.Reads, f.Zygote.Env)
	script := strings.TrimPrefix(f.Zygote.Path, "/")
	plan := &confine.Plan{Execute: confine.Program{Paths: programsOn(f.Argv[0], f.Reads), Argv: f.Argv, Env: env},
		Limits: []confine.Rlimit{confine.NoCore, confine.CodeStack}}
	plan.Root = slices.Concat(deviceSteps(), steps, []confine.Step{
		{Do: confine.File, Target: script, Source: f.Zygote.Script, Mode: 0o644},
		{Do: confine.File, Target: path.Join(path.Dir(script), "enter"), Source: string(fork.Entrance()), Mode: 0o644},
		{Do: confine.Dir, Target: strings.TrimPrefix(sandbox.Workspace, "/"), Mode: 0o755},
	})
	z := &zygote{zygote: f.Zygote, argv: f.Argv, reads: f.Reads, drained: make(chan struct{}),
		ended: make(chan struct{})}
	g, err := z.spawn(b)
	if err != nil {
		return nil, err
	}
	z.process, z.gate = g.process, g.setup
	go func() { // ends with the process; close ends that
		z.process.Wait()
		close(z.ended)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), zygoteTimeout)
	defer cancel()
	if err := g.plan(ctx, plan, nil); err != nil {
		z.end()
		return nil, err
	}
	var word [1]byte
	err = z.gate.SetReadDeadline(time.Now().Add(zygoteTimeout))
	if err == nil {
		_, err = io.ReadFull(z.gate, word[:])
	}
	if err == nil && word[0] != '!' {
		err = errors.New("it cannot be executed")
	}
	if err != nil {
		z.end()
		return nil, at("await zygote", err)
	}
	return z, nil
}

// programsOn lists the possible paths of a program on an environment's PATH.
func programsOn(name string, env []string) (paths []string) {
	for _, e := range env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			for dir := range strings.SplitSeq(list, ":") {
				if strings.HasPrefix(dir, "/") {
					paths = append(paths, dir+"/"+name)
				}
			}
		}
	}
	return paths
}

// spawn starts the zygote's set-up stage in its namespaces. It has no pid namespace, as its forks join those of
// sandboxes, and no user namespace, as theirs are not below it.
func (z *zygote) spawn(b *Backend) (*spawned, error) {
	// Its stdout and stderr are pipes like those of its forks: the interpreter checks only once.
	output, writer, err := os.Pipe()
	if err != nil {
		return nil, at("pipe", err)
	}
	defer writer.Close()
	g, err := b.startHelper("zygote", writer, unix.CLONE_NEWNS|unix.CLONE_NEWNET|unix.CLONE_NEWIPC|unix.CLONE_NEWUTS)
	if err != nil {
		output.Close()
		return nil, err
	}
	go func() { // ends with the zygote: its forks have other pipes
		defer close(z.drained)
		defer output.Close()
		_, _ = io.Copy(b.guestErr, output)
	}()
	// Its forks inherit this score: they are the kernel's first victims when memory runs out.
	if err := os.WriteFile("/proc/"+strconv.Itoa(g.process.PID)+"/oom_score_adj", []byte("1000"), 0); err != nil {
		return nil, errors.Join(at("raise oom_score_adj", err), g.destroy())
	}
	return g, nil
}

func (z *zygote) dead() bool {
	select {
	case <-z.ended:
		return true
	default:
		return false
	}
}

// close lets the zygote finish its orders, and waits until it ends.
func (z *zygote) close() {
	z.gate.Close()
	select {
	case <-z.ended:
	case <-time.After(zygoteTimeout):
	}
	z.end()
}

func (z *zygote) end() {
	z.gate.Close()
	z.process.Kill()
	<-z.ended
	z.process.Close()
	<-z.drained
}

// order requests a fork in the pid namespace of the pidfd fds[0]; the other fds are the fork's descriptors.
func (z *zygote) order(grouped bool, tasks int, fds []int) error {
	var message [12]byte
	binary.LittleEndian.PutUint32(message[:], confine.EntryNamespaces)
	if grouped {
		message[4] = 1
	}
	message[8] = byte(tasks)
	if err := z.gate.SetWriteDeadline(time.Now().Add(forkTimeout)); err != nil {
		return err
	}
	_, _, err := z.gate.WriteMsgUnix(message[:], unix.UnixRights(fds...), nil)
	return err
}
