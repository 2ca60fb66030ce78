package attack

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// labelTrial marks a trial's sandboxes, ordinaryTrial those of no trial.
const (
	labelTrial    = "attack"
	ordinaryTrial = "none"
)

// spy is a backend that records the host processes, control groups and mounts of its boxes.
type spy struct {
	sandbox.Backend
	image    string   // root of boxes without one of their own; "" is none
	folders  []string // where the backend keeps live state
	labelled bool     // refuse boxes of no trial, such as warm ones

	findHomes sync.Once
	homes     []string // folders that contain sandboxes' folders

	forked atomic.Int64 // attack programs that began in a fork

	mu     sync.Mutex // guards all below
	seen   map[string][]*sighting
	guests string // checksum of the guest program of the first box
	wrong  []string
}

// located is a Box whose backend knows the sandbox's first host process, for backends without a recognizable command
// line. 0 is none: the sandbox is on another host, or in a virtual machine.
type located interface{ HostPID() int }

// sighting is the host's view of a box when it became ready.
type sighting struct {
	box        sandbox.Box
	guest      int                 // pid of the first of inner, or 0
	inner      []int               // pids
	namespaces map[string]string   // of guest
	held       []map[string]string // of all of inner
	users      []string            // host ids of guest and code, if the host shows them
	groups     []string
	limits     map[string]string
	mounts     string
	closed     atomic.Int64 // when its end began, since the host's boot
}

func (s *spy) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if s.labelled && spec.Metadata[labelTrial] == "" {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "spy", Msg: "the box belongs to no trial"}
	}
	if spec.Root == (sandbox.Root{}) {
		spec.Root.Image = s.image
	}
	box, err := s.Backend.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	g := &sighting{box: box, inner: innermost(box.ID()), groups: groupFolders(box.ID())}
	g.closed.Store(math.MaxInt64)
	sum := ""
	if l, knows := box.(located); knows && len(g.inner) == 0 && l.HostPID() != 0 {
		g.inner = []int{l.HostPID()}
		g.groups = groupsOf(l.HostPID())
	}
	g.limits = limitFiles(g.groups)
	for _, pid := range g.inner {
		g.held = append(g.held, namespaces(pid))
	}
	if len(g.inner) > 0 {
		g.guest, g.namespaces = g.inner[0], g.held[0]
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", g.guest))
		g.mounts = string(text)
		g.users = usersOf(g.guest)
		if sum = programOf(fmt.Sprintf("/proc/%d/exe", g.guest)); sum == unreadable { // it has ended
			sum = ""
		}
	}
	s.findHomes.Do(func() { s.homes = homesOf(s.folders, box.ID()) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guests == "" {
		s.guests = sum
	}
	if sum != "" && sum != s.guests {
		s.wrong = append(s.wrong, "the guest program was "+s.guests+" and is "+sum)
	}
	trial := spec.Metadata[labelTrial]
	s.seen[trial] = append(s.seen[trial], g)
	go func() { // ends with the box
		if _, err := box.Wait(context.Background()); err == nil {
			g.closed.CompareAndSwap(math.MaxInt64, sinceBoot())
		}
	}()
	return &spyBox{Box: box, spy: s, sighting: g, trial: trial}, nil
}

// usersOf returns the host ids that a process's user namespace maps for the code's user, and those mapped one by one,
// such as the guest's. The latter exclude this process's own, under which much else runs.
func usersOf(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid))
	return hostUsers(string(text), uint64(sandbox.DefaultUser.UID), uint64(os.Geteuid()))
}

func hostUsers(uidMap string, code, ours uint64) (all []string) {
	for line := range strings.Lines(uidMap) {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err != nil {
			continue
		}
		if inside <= code && code-inside < count {
			all = append(all, strconv.FormatUint(outside+code-inside, 10))
		} else if count == 1 && outside != ours {
			all = append(all, strconv.FormatUint(outside, 10))
		}
	}
	return all
}

// spyBox checks the limits again before the box ends.
type spyBox struct {
	sandbox.Box
	spy      *spy
	sighting *sighting
	trial    string
}

// Fork forwards to the box, and counts the forks of attacks.
func (b *spyBox) Fork(ctx context.Context, f sandbox.Fork) (*sandbox.Forked, error) {
	if forker, can := b.Box.(sandbox.Forker); can {
		forked, err := forker.Fork(ctx, f)
		if err == nil && b.trial != ordinaryTrial {
			b.spy.forked.Add(1)
		}
		return forked, err
	}
	return nil, sandbox.ErrNoEntry
}

// GuestLimited implements sandbox.GuestLimited.
func (b *spyBox) GuestLimited() bool {
	limited, can := b.Box.(sandbox.GuestLimited)
	return can && limited.GuestLimited()
}

// Link forwards to the box, if its backend has networks.
func (b *spyBox) Link(ctx context.Context) (io.ReadWriteCloser, error) {
	if linker, can := b.Box.(sandbox.Linker); can {
		return linker.Link(ctx)
	}
	return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "network",
		Msg: "the " + b.spy.Name() + " backend gives sandboxes no network here"}
}

func (b *spyBox) Close() error {
	b.sighting.closed.CompareAndSwap(math.MaxInt64, sinceBoot())
	for file, now := range limitFiles(b.sighting.groups) { // none if the box ended by itself
		if was := b.sighting.limits[file]; now != was {
			b.spy.mu.Lock()
			b.spy.wrong = append(b.spy.wrong, fmt.Sprintf("%s was %s and is %s", file, was, now))
			b.spy.mu.Unlock()
		}
	}
	return b.Box.Close()
}

// sightings returns a trial's sightings.
func (s *spy) sightings(trial string) []*sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*sighting(nil), s.seen[trial]...)
}

// complaints returns the errors since the last call.
func (s *spy) complaints() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(s.wrong, "\n")
	s.wrong = nil
	return text
}

// homesOf returns the folders that contain something named after the sandbox.
func homesOf(folders []string, id sandbox.ID) []string {
	var homes []string
	for _, folder := range folders {
		for _, path := range named(folder, string(id)) {
			homes = append(homes, filepath.Dir(path))
		}
	}
	return homes
}

// leftOf returns the leftovers of a trial's boxes after the settle time, and those that disappeared late.
func (s *spy) leftOf(trial string) (late []string, errs []error) {
	for _, g := range s.sightings(trial) {
		began, last := time.Now(), ""
		for what := g.left(s.homes); what != ""; what = g.left(s.homes) {
			if last = what; time.Since(began) > settleTime {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		switch took := time.Since(began); {
		case took > settleTime:
			errs = append(errs, fmt.Errorf("%v after the end of sandbox %s, this is left: %s",
				settleTime, g.box.ID(), last))
		case took > usualSettleTime:
			late = append(late, fmt.Sprintf("sandbox %s: this was gone only after %v: %s",
				g.box.ID(), took.Round(time.Second), last))
		}
	}
	return late, errs
}

// processes returns the sandbox's host processes.
func (g *sighting) processes() []int {
	all := groupMembers(g.groups)
	for _, held := range g.held {
		all = append(all, members(held["pid"])...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// left describes a leftover of a closed box, or returns "".
func (g *sighting) left(homes []string) string {
	id := g.box.ID()
	if groups := groupFolders(id); len(groups) > 0 {
		return fmt.Sprintf("control groups %v", groups)
	}
	for _, group := range g.groups {
		if _, err := os.Lstat(group); err == nil {
			return "control group " + group
		}
	}
	for _, home := range homes {
		if _, err := os.Lstat(filepath.Join(home, string(id))); err == nil {
			return "its folder in " + home
		}
	}
	if text, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(text), string(id)) {
		return "a mount"
	}
	return g.holder()
}

// holder describes a process that is still in one of the box's namespaces, or returns "". The kernel reuses namespace
// numbers, so only processes that started well before the end count; later ones would also keep the control group.
func (g *sighting) holder() string {
	if len(g.held) == 0 {
		return ""
	}
	ours := namespaces(os.Getpid())
	for _, pid := range pids() {
		if isOrphan(pid) {
			continue
		}
		for kind, name := range namespaces(pid) {
			if name == ours[kind] { // it shares ours, as a container may share the user namespace
				continue
			}
			among := func(all map[string]string) bool { return all[kind] == name }
			if slices.ContainsFunc(g.held, among) && spawnedAt(pid) < g.closed.Load()-int64(spawnedBefore) {
				return fmt.Sprintf("its %s namespace, held by process %d: %s", kind, pid,
					statusLines(pid, pid, "Name", "State", "NSpid"))
			}
		}
	}
	return ""
}

// isOrphan reports whether a process is dead and waits for the host's init to reap it. Dead children of this process do
// not count: this process must reap them.
func isOrphan(pid int) bool {
	status := statusMap(pid, pid)
	return strings.HasPrefix(status["State"], "Z") && status["PPid"] != strconv.Itoa(os.Getpid())
}

// spawnedBefore is how long before the end a process must have started to count as the sandbox's: the end is noticed
// shortly after the namespaces are free, and start times are coarse.
const spawnedBefore = 100 * time.Millisecond

// clockTick is the unit of start times in /proc/PID/stat: 0.01 s on all of Linux's architectures (proc(5)).
const clockTick = 10 * time.Millisecond

// spawnedAt returns the start time of a process on sinceBoot's clock, math.MaxInt64 if it has ended.
func spawnedAt(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ") // a name may contain spaces
	fields := strings.Fields(after)
	if len(fields) < 20 {
		return math.MaxInt64
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return ticks * int64(clockTick)
}

// sinceBoot returns the current time on /proc's clock.
func sinceBoot() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return now.Nano()
}
