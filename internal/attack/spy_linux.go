package attack

import (
	"context"
	"fmt"
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

	"github.com/glovebox-dev/glovebox/sandbox"
)

// labelTrial marks the sandboxes of a trial, ordinaryTrial those that are made for none.
const (
	labelTrial    = "attack"
	ordinaryTrial = "none"
)

// spy is a backend that notes, on the host, what its boxes are made of.
type spy struct {
	sandbox.Backend
	folders  []string // below which the backend keeps what lives
	labelled bool     // a box that is for no trial is refused, as those that are kept warm are

	findHomes sync.Once
	homes     []string // where folders of sandboxes are

	forked atomic.Int64 // programs of attacks that began in a fork

	mu     sync.Mutex // guards all below
	seen   map[string][]*sighting
	guests string // the sum of the guest program, as the first box ran it
	wrong  []string
}

// located is a Box whose backend knows which process of this host is the sandbox's first, where no command line tells it. 0 is none: the
// sandbox is on another host, or in a machine of its own.
type located interface{ HostPID() int }

// sighting is one box as the host saw it when it was ready.
type sighting struct {
	box        sandbox.Box
	guest      int                 // pid of the first of inner, or 0
	inner      []int               // pids
	namespaces map[string]string   // of guest
	held       []map[string]string // of all of inner
	users      []string            // ids on the host under which guest and code run, where the host shows them
	groups     []string
	limits     map[string]string
	mounts     string
	closed     atomic.Int64 // when its end began, since the boot of the host
}

func (s *spy) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if s.labelled && spec.Labels[labelTrial] == "" {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "spy", Msg: "whose box is it?"}
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
	trial := spec.Labels[labelTrial]
	s.seen[trial] = append(s.seen[trial], g)
	go func() { // ends with the box
		if _, err := box.Wait(context.Background()); err == nil {
			g.closed.CompareAndSwap(math.MaxInt64, sinceBoot())
		}
	}()
	return &spyBox{Box: box, spy: s, sighting: g, trial: trial}, nil
}

// usersOf are the ids of this host that a process's user namespace gives to the code's user, and to those that it maps one by one, as the
// guest's. The latter are told from this process's own, under which there is much else.
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

// spyBox looks once more before the box ends.
type spyBox struct {
	sandbox.Box
	spy      *spy
	sighting *sighting
	trial    string
}

// Fork lets forks through, and counts those of attacks.
func (b *spyBox) Fork(ctx context.Context, f sandbox.Fork) (*sandbox.Forked, error) {
	if forker, can := b.Box.(sandbox.Forker); can {
		forked, err := forker.Fork(ctx, f)
		if err == nil && b.trial != ordinaryTrial {
			b.spy.forked.Add(1)
		}
		return forked, err
	}
	return nil, sandbox.ErrNoZygote
}

func (b *spyBox) Close() error {
	b.sighting.closed.CompareAndSwap(math.MaxInt64, sinceBoot())
	for file, now := range limitFiles(b.sighting.groups) { // of one that ended by itself they may be gone
		if was := b.sighting.limits[file]; now != was {
			b.spy.mu.Lock()
			b.spy.wrong = append(b.spy.wrong, fmt.Sprintf("%s was %s and is %s", file, was, now))
			b.spy.mu.Unlock()
		}
	}
	return b.Box.Close()
}

// sightings returns what was seen of a trial.
func (s *spy) sightings(trial string) []*sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*sighting(nil), s.seen[trial]...)
}

// complaints returns what was wrong since the last call.
func (s *spy) complaints() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(s.wrong, "\n")
	s.wrong = nil
	return text
}

// homesOf returns the folders in which there is something named after the sandbox.
func homesOf(folders []string, id sandbox.ID) []string {
	var homes []string
	for _, folder := range folders {
		for _, path := range named(folder, string(id)) {
			homes = append(homes, filepath.Dir(path))
		}
	}
	return homes
}

// leftOf says what is left of a trial's boxes, of each as soon as nothing is or the time is over, and what was gone late.
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
			errs = append(errs, fmt.Errorf("%v after the end of sandbox %s there are left: %s", settleTime, g.box.ID(), last))
		case took > usualSettleTime:
			late = append(late, fmt.Sprintf("of sandbox %s this was gone only after %v: %s", g.box.ID(), took.Round(time.Second), last))
		}
	}
	return late, errs
}

// processes are those of the host that the sandbox consists of.
func (g *sighting) processes() []int {
	all := groupMembers(g.groups)
	for _, held := range g.held {
		all = append(all, members(held["pid"])...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// left says what is left of a box that was closed.
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

// holder says who is still in one of its namespaces, or holds one open. The kernel uses the numbers of namespaces again, so only
// processes that were spawned well before the end count; later ones would keep the control group from being removed.
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
			if name == ours[kind] { // it has none of its own of that kind, as a container its user namespace
				continue
			}
			among := func(all map[string]string) bool { return all[kind] == name }
			if slices.ContainsFunc(g.held, among) && spawnedAt(pid) < g.closed.Load()-int64(spawnedBefore) {
				return fmt.Sprintf("its %s namespace, held by process %d: %s", kind, pid, statusLines(pid, pid, "Name", "State", "NSpid"))
			}
		}
	}
	return ""
}

// isOrphan says of a process whether it is dead and waits for the host's init to hear of it, which is none of ours to hasten. Of a dead child of
// ours we must hear ourselves.
func isOrphan(pid int) bool {
	status := statusMap(pid, pid)
	return strings.HasPrefix(status["State"], "Z") && status["PPid"] != strconv.Itoa(os.Getpid())
}

// spawnedBefore is how long before the end a process of the sandbox was spawned at the least: the end of a guest that dies by itself is
// seen a moment after its namespaces are free, and start times are coarse.
const spawnedBefore = 100 * time.Millisecond

// clockTick is the unit of start times in /proc/PID/stat: a hundredth of a second on every architecture that Linux serves (proc(5)).
const clockTick = 10 * time.Millisecond

// spawnedAt is when a process was started, on the clock of sinceBoot. One that is gone was never spawned.
func spawnedAt(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ") // a name may hold spaces
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

// sinceBoot is the time on the clock of /proc.
func sinceBoot() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return now.Nano()
}
