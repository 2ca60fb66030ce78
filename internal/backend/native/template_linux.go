package native

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// templates holds one template: the common part of the root of sandboxes with the host's own root, the same number of
// processors, and layers in the same places. A sandbox that cannot use it makes its own root, so a missing or stale
// template costs only time.
type templates struct {
	processors int         // that the root shows
	points     []string    // mount points of layers and volumes: no sandbox can make them in a template
	proven     atomic.Bool // a sandbox started without a template, so the kernel grants what a template needs

	mu     sync.Mutex // guards all below, and stale and uses of each template
	ready  *template
	coming bool
	next   time.Time // no new one before this time
	closed bool
	maker  sync.WaitGroup
}

// Limits on making templates. Making one costs as much as five sandboxes save by it.
const (
	templateEvery   = time.Second // for hosts whose mounts keep changing
	templateBackoff = time.Minute
	maxTemplates    = 64 // each holds a mount namespace
)

// template is a finished root: a mount namespace without processes. Only this process's descriptor holds it.
type template struct {
	owner     *templates
	namespace *os.File
	device    uint64     // of the root's file system
	sources   []sourceID // host paths that the template shows or hides
	changes   int        // the host's list of mounts, which can be polled for changes
	stale     bool
	uses      int
}

// sourceID identifies the file or folder that a host path named.
type sourceID struct {
	path     string
	dev, ino uint64
}

// templatable reports whether a template can be the whole root of a spec. A sandbox cannot make further folders in one.
func (b *Backend) templatable(spec *sandbox.Spec) bool {
	return b.user.UID == 0 && spec.Root == (sandbox.Root{}) && spec.Commands == nil && onlyVolumes(spec)
}

// onlyVolumes reports whether all mounts of a spec are volumes.
func onlyVolumes(spec *sandbox.Spec) bool {
	return !slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Volume == "" })
}

// templatesFor returns the templates for a spec: one for each number of processors and set of mount points of layers
// and volumes.
func (b *Backend) templatesFor(spec *sandbox.Spec) *templates {
	n := rootfs.Processors(spec.Limits)
	var points []string
	for _, l := range spec.Layers {
		points = append(points, l.At)
	}
	for _, m := range spec.Mounts {
		points = append(points, m.Target)
	}
	for _, v := range spec.MemoryVolumes() {
		points = append(points, v.Path)
	}
	if len(points) == 0 && n == b.templates.processors {
		return &b.templates
	}
	key := strings.Join(append([]string{strconv.Itoa(n)}, points...), "\x00")
	if known, ok := b.otherTemplates.Load(key); ok {
		return known.(*templates)
	}
	made := &templates{processors: n, points: points}
	if b.templateCount.Add(1) > maxTemplates { // requests choose the paths of volumes
		b.templateCount.Add(-1)
		return made // which makes none, as no sandbox has proven it
	}
	all, _ := b.otherTemplates.LoadOrStore(key, made)
	return all.(*templates)
}

// take returns the template for a spec, for the caller to release. If there is none it returns nil and starts making
// one.
func (ts *templates) take(b *Backend, spec *sandbox.Spec) *template {
	if !b.templatable(spec) || !ts.proven.Load() {
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

// discard stops offering t; its current users keep it.
func (ts *templates) discard(t *template) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t != nil && ts.ready == t {
		ts.ready = nil
		t.free()
	}
}

// blamesTemplate reports whether a sandbox failed at a step that differs without a template: this kernel, or a seccomp
// filter, refuses to spawn a guest in one.
func blamesTemplate(err error) bool {
	var e *sandbox.Error
	return errors.As(err, &e) && slices.Contains([]string{"native: " + fork.Mounts.String(),
		"native: " + confine.StepKnobs,
		"native: " + confine.StepNewRoot}, e.Op)
}

// distrust discards t and makes no other for a while.
func (ts *templates) distrust(b *Backend, t *template, err error) {
	b.note("the prepared root does not work", err)
	ts.discard(t)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.next = time.Now().Add(templateBackoff)
}

func (ts *templates) make(b *Backend) {
	t, err := b.makeTemplate(ts)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.coming, ts.next = false, time.Now().Add(templateEvery)
	if err != nil {
		ts.next = time.Now().Add(templateBackoff)
		b.note("cannot prepare a root", err)
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

// mounts is the descriptor of the mount namespace; 0 without a template.
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

// free is release with the lock held.
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

// mountsChanged reports whether the host has mounted or unmounted anything, perhaps below a folder that the template
// shows. The kernel reports it once (proc_pid_mounts(5)).
func (t *template) mountsChanged() bool {
	if !t.stale {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(t.changes), Events: unix.POLLPRI}}, 0)
		t.stale = n > 0 || err != nil && err != unix.EINTR
	}
	return t.stale
}

// sourcesChanged reports whether a path now names another file, as /etc/ld.so.cache does after each ldconfig(8), or a
// file to hide has appeared. Changes within a file or folder are visible through the mount. The template keeps its
// files open, so their inode numbers are not reused.
func (t *template) sourcesChanged() bool {
	for _, s := range t.sources {
		if now, err := identify(s.path); err != nil && !s.absent(err) || now != s {
			return true
		}
	}
	return false
}

// absent reports whether the path did not exist, and still does not.
func (s sourceID) absent(err error) bool {
	return s.ino == 0 && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR))
}

func identify(path string) (sourceID, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return sourceID{path, st.Dev, st.Ino}, err
}

// makeTemplate makes a process build the root in a mount namespace, and keeps that.
func (b *Backend) makeTemplate(ts *templates) (*template, error) {
	steps, _, err := b.staticSteps(&sandbox.Spec{User: sandbox.DefaultUser,
		Limits: sandbox.Limits{CPUMillis: 1000 * int64(ts.processors)}})
	for _, point := range ts.points {
		err = errors.Join(err, rootfs.CheckTarget(point))
		steps = append(steps, confine.Step{Do: confine.Dir, Target: strings.TrimPrefix(point, "/"), Mode: 0o755})
	}
	if err != nil {
		return nil, err
	}
	// Look at the host's mounts and files before using them: a change in between then makes the template stale.
	// These are the mounts of this thread: /proc/self has those of the process's first thread, which may have got other
	// ones for a task (overlay.New), and does not end.
	changes, err := unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
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
		id, _ := identify(place) // a missing path is checked again later
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
	proc := "/proc/" + strconv.Itoa(g.process.PID)
	root, err := identify(proc + "/root/.")
	if err != nil {
		return err
	}
	t.device = root.dev
	t.namespace, err = os.Open(proc + "/ns/mnt")
	return err
}
