package backendtest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// labelTrial marks the sandboxes of a trial.
const labelTrial = "attack"

// spy is a backend that notes, on the host, what its boxes are made of.
type spy struct {
	sandbox.Backend

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
}

func (s *spy) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	box, err := s.Backend.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	g := &sighting{box: box, guest: guestPID(box.ID()), groups: groupFolders(box.ID())}
	g.limits = limitFiles(g.groups)
	sum := ""
	if g.guest != 0 {
		g.namespaces = namespaces(g.guest)
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", g.guest))
		g.mounts = string(text)
		sum = sumOf(fmt.Sprintf("/proc/%d/exe", g.guest))
	}
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
	return &spyBox{Box: box, spy: s, sighting: g}, nil
}

// spyBox looks once more before the box ends.
type spyBox struct {
	sandbox.Box
	spy      *spy
	sighting *sighting
}

func (b *spyBox) Close() error {
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

// runFolders are where a backend keeps what lives.
func runFolders() []string {
	all := []string{"/run/glovebox", os.TempDir()} // tests keep theirs below the latter
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		all = append(all, dir+"/glovebox")
	}
	return all
}

// left says what is left of a box that was closed.
func (g *sighting) left() string {
	id := g.box.ID()
	if groups := groupFolders(id); len(groups) > 0 {
		return fmt.Sprintf("control groups %v", groups)
	}
	if ns := g.namespaces["pid"]; ns != "" {
		if alive := members(ns); len(alive) > 0 {
			return fmt.Sprintf("processes %v of its pid namespace", alive)
		}
	}
	for _, folder := range runFolders() {
		if files := named(folder, string(id)); len(files) > 0 {
			return fmt.Sprintf("files %v", files)
		}
	}
	if text, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(text), string(id)) {
		return "a mount"
	}
	for _, pid := range pids() {
		for kind, name := range g.namespaces {
			if link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind)); err == nil && link == name {
				return fmt.Sprintf("its %s namespace, held by process %d", kind, pid)
			}
		}
	}
	return heldNamespace(g.namespaces)
}

// heldNamespace says whether this process holds one of them open.
func heldNamespace(ns map[string]string) string {
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		link, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		for kind, name := range ns {
			if link == name {
				return fmt.Sprintf("its %s namespace, held by our descriptor %s", kind, fd.Name())
			}
		}
	}
	return ""
}
