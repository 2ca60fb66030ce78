package native

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/fork"
	"github.com/glovebox-dev/glovebox/internal/guest/confine"
	"github.com/glovebox-dev/glovebox/internal/rootfs"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// templates holds the one template of a backend: the part of the root that all sandboxes of the host's own root have in common, made
// once. What cannot be spawned in it makes its root itself, so that a template which is missing or stale costs time and nothing else.
type templates struct {
	stood atomic.Bool // a sandbox did, without a template: the kernel grants here all that is needed, and there may be a second one

	mu     sync.Mutex // guards all below, and stale and uses of each template
	ready  *template
	coming bool
	next   time.Time // not before this another one is made
	closed bool
	maker  sync.WaitGroup
}

// Bounds of templates. Making one costs what five sandboxes save by it.
const (
	templateEvery   = time.Second // on a host whose mounts change all the time
	templateBackoff = time.Minute
)

// template is a finished root. It is a mount namespace that no process is in, only this descriptor, so that it ends with this process.
type template struct {
	owner     *templates
	namespace *os.File
	device    uint64     // of the root's file system
	sources   []sourceID // what it shows of the host, and what it hides of that
	changes   int        // the host's list of mounts, which can be polled for changes
	stale     bool
	uses      int
}

// sourceID says which file or folder a path of the host named.
type sourceID struct {
	path     string
	dev, ino uint64
}

// templatable says whether the root of a spec is the template, with nothing below it but what every sandbox has. A template's folders
// are no sandbox's to make further ones in.
func (b *Backend) templatable(spec *sandbox.Spec) bool {
	return b.user.UID == 0 && spec.Root == (sandbox.Root{}) && spec.Commands == nil && len(spec.Mounts)+len(spec.Layers) == 0
}

// take returns the template for a spec, for the caller to release; nil where there is none now, and then one is on its way.
func (ts *templates) take(b *Backend, spec *sandbox.Spec) *template {
	if !b.templatable(spec) || !ts.stood.Load() {
		return nil
	}
	ts.mu.Lock()
	t := ts.ready
	if t == nil {
		if !ts.coming && !ts.closed && time.Now().After(ts.next) {
			ts.coming = true
			ts.maker.Go(func() { ts.make(b) })
		}
		ts.mu.Unlock()
		return nil
	}
	t.uses++
	stale := t.mountsChanged()
	ts.mu.Unlock()
	if stale || t.sourcesChanged() {
		ts.discard(t)
		t.release()
		return nil
	}
	return t
}

// discard makes t the ready template no longer; whoever uses it may go on.
func (ts *templates) discard(t *template) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t != nil && ts.ready == t {
		ts.ready = nil
		t.free()
	}
}

// blamesTemplate says whether a sandbox failed at a step that is another one without a template: this kernel, or a filter of system
// calls, does not let a guest be spawned there after all.
func blamesTemplate(err error) bool {
	var e *sandbox.Error
	return errors.As(err, &e) && slices.Contains([]string{"native: " + fork.Mounts.String(), "native: " + confine.StepKnobs,
		"native: " + confine.StepNewRoot}, e.Op)
}

// distrust gives t up, and all others for a while.
func (ts *templates) distrust(b *Backend, t *template, err error) {
	b.note("the root that was kept ready does not serve", err)
	ts.discard(t)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.next = time.Now().Add(templateBackoff)
}

func (ts *templates) make(b *Backend) {
	t, err := b.makeTemplate()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.coming, ts.next = false, time.Now().Add(templateEvery)
	if err != nil {
		ts.next = time.Now().Add(templateBackoff)
		b.note("no root can be kept ready", err)
		return
	}
	if t.owner, t.uses = ts, 1; ts.closed {
		t.free()
		return
	}
	ts.ready = t
}

func (ts *templates) close() {
	ts.mu.Lock()
	ts.closed = true
	t := ts.ready
	ts.mu.Unlock()
	ts.discard(t)
	ts.maker.Wait()
}

// mounts is the descriptor of the mount namespace; 0 where there is no template.
func (t *template) mounts() int {
	if t == nil {
		return 0
	}
	return int(t.namespace.Fd())
}

func (t *template) release() {
	if t == nil {
		return
	}
	t.owner.mu.Lock()
	defer t.owner.mu.Unlock()
	t.free()
}

// free is release for who holds the lock.
func (t *template) free() {
	if t.uses--; t.uses == 0 {
		t.close()
	}
}

func (t *template) close() {
	if t.namespace != nil {
		t.namespace.Close()
	}
	unix.Close(t.changes)
}

// mountsChanged says whether the host has mounted or unmounted anything, which could be below a folder that the template shows. The
// kernel says it once (proc_pid_mounts(5)).
func (t *template) mountsChanged() bool {
	if !t.stale {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(t.changes), Events: unix.POLLPRI}}, 0)
		t.stale = n > 0 || err != nil && err != unix.EINTR
	}
	return t.stale
}

// sourcesChanged says whether a path now names another file, as that of /etc/ld.so.cache does after each ldconfig(8). What changes in a
// file or folder itself shows through; and a number is not given anew while the template holds the file that has it. What was not there to be
// hidden, and now is, changes it as well.
func (t *template) sourcesChanged() bool {
	for _, s := range t.sources {
		if now, err := identify(s.path); err != nil && !s.absent(err) || now != s {
			return true
		}
	}
	return false
}

// absent says whether nothing was there, nor is now.
func (s sourceID) absent(err error) bool {
	return s.ino == 0 && (err == unix.ENOENT || err == unix.ENOTDIR)
}

func identify(path string) (sourceID, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return sourceID{path, st.Dev, st.Ino}, err
}

// makeTemplate has a process build the root in a mount namespace, and keeps that.
func (b *Backend) makeTemplate() (*template, error) {
	steps, _, err := b.staticSteps(&sandbox.Spec{})
	if err != nil {
		return nil, err
	}
	// The host's mounts and files are looked at before they are used: what changes in between makes the template stale.
	changes, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	t := &template{changes: changes}
	for _, s := range steps {
		if s.Do == confine.Bind && err == nil {
			var id sourceID
			id, err = identify(s.Source)
			t.sources = append(t.sources, id)
		}
	}
	for _, place := range rootfs.HiddenPlaces {
		id, _ := identify(place) // what is not there is looked for again
		t.sources = append(t.sources, id)
	}
	if err == nil {
		err = t.build(b, steps)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *template) build(b *Backend, steps []confine.Step) (err error) {
	g, err := b.startHelper("template", b.guestErr, unix.CLONE_NEWNS|unix.CLONE_NEWPID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.destroy()) }()
	if err := g.plan(context.Background(), &confine.Plan{MakeTemplate: true, Root: steps}, nil); err != nil {
		return err
	}
	proc := "/proc/" + itoa(g.process.PID)
	root, err := identify(proc + "/root/.")
	if err != nil {
		return err
	}
	t.device = root.dev
	t.namespace, err = os.Open(proc + "/ns/mnt")
	return err
}
