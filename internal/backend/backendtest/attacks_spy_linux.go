package backendtest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// labelTrial marks the sandboxes of a trial.
const labelTrial = "attack"

// spy is a backend that notes, on the host, what its boxes are made of.
type spy struct {
	sandbox.Backend
	labelled bool // a box that is for no trial is refused, as those that are kept warm are

	findHomes sync.Once
	homes     []string // where folders of sandboxes are

	mu     sync.Mutex // guards all below
	seen   map[string][]*sighting
	guests string // the sum of the guest program, as the first box ran it
	wrong  []string
}

// sighting is one box as the host saw it when it was ready.
type sighting struct {
	box        sandbox.Box
	guest      int // pid, or 0
	namespaces map[string]string
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
	g := &sighting{box: box, guest: guestPID(box.ID()), groups: groupFolders(box.ID())}
	g.limits = limitFiles(g.groups)
	g.closed.Store(math.MaxInt64)
	sum := ""
	if g.guest != 0 {
		g.namespaces = namespaces(g.guest)
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", g.guest))
		g.mounts = string(text)
		sum = sumOf(fmt.Sprintf("/proc/%d/exe", g.guest))
	}
	s.findHomes.Do(func() { s.homes = homesOf(box.ID()) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guests == "" {
		s.guests = sum
	}
	if sum != s.guests {
		s.wrong = append(s.wrong, "the guest program was "+s.guests+" and is "+sum)
	}
	trial := spec.Labels[labelTrial]
	s.seen[trial] = append(s.seen[trial], g)
	go func() { // ends with the box
		if _, err := box.Wait(context.Background()); err == nil {
			g.closed.CompareAndSwap(math.MaxInt64, sinceBoot())
		}
	}()
	return &spyBox{Box: box, spy: s, sighting: g}, nil
}

// spyBox looks once more before the box ends.
type spyBox struct {
	sandbox.Box
	spy      *spy
	sighting *sighting
}

// Fork lets forks through.
func (b *spyBox) Fork(ctx context.Context, f sandbox.Fork) (*sandbox.Forked, error) {
	if forker, can := b.Box.(sandbox.Forker); can {
		return forker.Fork(ctx, f)
	}
	return nil, sandbox.ErrNoZygote
}

func (b *spyBox) Close() error {
	b.sighting.closed.CompareAndSwap(math.MaxInt64, sinceBoot())
	if now := limitFiles(b.sighting.groups); !maps.Equal(now, b.sighting.limits) {
		b.spy.mu.Lock()
		b.spy.wrong = append(b.spy.wrong, fmt.Sprintf("the limits of %s were %v and are %v", b.ID(), b.sighting.limits, now))
		b.spy.mu.Unlock()
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

// runFolders are where a backend may keep what lives; tests keep theirs below the temporary folder.
func runFolders() []string {
	all := []string{"/run/glovebox", os.TempDir()}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		all = append(all, dir+"/glovebox")
	}
	return all
}

// homesOf returns the folders in which there is something named after the sandbox.
func homesOf(id sandbox.ID) []string {
	var homes []string
	for _, folder := range runFolders() {
		for _, path := range named(folder, string(id)) {
			homes = append(homes, filepath.Dir(path))
		}
	}
	return homes
}

// left says what is left of a box that was closed.
func (g *sighting) left(homes []string) string {
	id := g.box.ID()
	if groups := groupFolders(id); len(groups) > 0 {
		return fmt.Sprintf("control groups %v", groups)
	}
	for _, home := range homes {
		if _, err := os.Lstat(filepath.Join(home, string(id))); err == nil {
			return "its folder in " + home
		}
	}
	if text, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(text), string(id)) {
		return "a mount"
	}
	if g.guest != 0 {
		return g.held()
	}
	return ""
}

// held says who is still in one of its namespaces, or holds one open. The kernel uses the numbers of namespaces again, so only
// processes that were born well before the end count; later ones would keep the control group from being removed.
func (g *sighting) held() string {
	for _, pid := range pids() {
		for kind, name := range g.namespaces {
			link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
			if err == nil && link == name && bornAt(pid) < g.closed.Load()-int64(bornBefore) {
				return fmt.Sprintf("its %s namespace, held by process %d: %s", kind, pid, statusLines(pid, pid, "Name", "State", "NSpid"))
			}
		}
	}
	return ""
}

// bornBefore is how long before the end a process of the sandbox was born at the least: the end of a guest that dies by itself is
// seen a moment after its namespaces are free, and start times are coarse.
const bornBefore = 100 * time.Millisecond

// clockTick is the unit of start times in /proc/PID/stat: a hundredth of a second on every architecture that Linux serves (proc(5)).
const clockTick = 10 * time.Millisecond

// bornAt is when a process was started, on the clock of sinceBoot. One that is gone was never born.
func bornAt(pid int) int64 {
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
