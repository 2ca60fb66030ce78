//go:build linux

package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// idle keeps the groups of ended sandboxes for later ones with the same limits: making and removing the four groups of
// a v1 host takes 1 ms of CPU, much of it long after the removal. Only v1 permits renaming, which keeps every group
// named after its sandbox. A v2 sandbox has only one group, so idle keeps none.
type idle struct {
	mu     sync.Mutex // guards all below
	groups []*Group
	made   int // names so far
	closed bool
}

const (
	maxIdle     = 16
	maxLeftover = 1 << 20 // bytes that may still be charged: pages of host files that the sandbox read first
	idlePrefix  = "idle-"
)

// take returns an idle group with these limits under a new name, or nil.
func (i *idle) take(name string, l Limits) *Group {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, g := range i.groups {
		if g.limits != l {
			continue
		}
		i.groups = slices.Delete(i.groups, n, n+1)
		if g.rename(name) == nil && g.reset() == nil {
			return g
		}
		g.discard()
		return nil
	}
	return nil
}

// keep takes the group of an ended sandbox. It returns false if the group must be removed: it still has a process, or
// much charged memory, which the next sandbox would lack.
func (i *idle) keep(g *Group) bool {
	if g.tree == nil || !g.isV1() || len(g.branches) != len(g.tree.branches) {
		return false
	}
	if !g.empty() {
		return false
	}
	g.CloseFiles() // only living sandboxes count towards the budget of descriptors
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return false
	}
	if len(i.groups) == maxIdle { // the oldest may have unused limits
		i.groups[0].discard()
		i.groups = slices.Delete(i.groups, 0, 1)
	}
	i.made++
	if g.rename(idlePrefix+strconv.Itoa(i.made)) != nil {
		return false // renamed parts are removed under their new name
	}
	i.groups = append(i.groups, &Group{tree: g.tree, branches: g.branches, limits: g.limits, yields: g.yields})
	g.branches = nil // later callers must not see the next sandbox's figures
	return true
}

// empty reports whether the group holds no process and next to no charged memory.
func (g *Group) empty() bool {
	for _, b := range g.branches {
		if b.has(Pids) && b.number("pids.current") != 0 {
			return false
		}
		if b.has(Memory) {
			if left := b.number("memory.usage_in_bytes"); left < 0 || left > maxLeftover {
				return false
			}
		}
	}
	return g.has(Pids) // otherwise unknown
}

func (g *Group) has(c Controller) bool {
	return slices.ContainsFunc(g.branches, func(b branch) bool { return b.has(c) })
}

// DropIdle removes the idle groups and keeps no more.
func (t *Tree) DropIdle() {
	if t != nil {
		t.idle.close()
	}
}

func (i *idle) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	for _, g := range i.groups {
		g.discard()
	}
	i.groups = nil
}

func (g *Group) isV1() bool {
	for _, b := range g.branches {
		if b.V2 {
			return false
		}
	}
	return true
}

func (g *Group) rename(name string) error {
	for n := range g.branches {
		to := filepath.Join(filepath.Dir(g.branches[n].Dir), name)
		if err := unix.Rename(g.branches[n].Dir, to); err != nil {
			return &os.PathError{Op: "rename", Path: to, Err: err}
		}
		g.branches[n].Dir = to
	}
	return nil
}

// reset sets the counters to zero, and the weight to the usual one. It records the counters that cannot be reset:
// out-of-memory kills and refused forks.
func (g *Group) reset() error {
	if g.yields {
		if err := g.Yield(1); err != nil {
			return err
		}
	}
	for _, b := range g.branches {
		var err error
		if b.has(Memory) {
			err = writeFile(b.Dir, "memory.max_usage_in_bytes", "0")
			g.before.OOMKills = max(b.key("memory.oom_control", "oom_kill"), 0)
		}
		if b.has(Pids) {
			g.before.Refused = max(b.key("pids.events", "max"), 0)
		}
		if b.has(CPUAcct) {
			err = errors.Join(err, writeFile(b.Dir, "cpuacct.usage", "0"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) discard() {
	g.CloseFiles()
	for _, b := range g.branches {
		_ = unix.Rmdir(b.Dir)
	}
}

// removeIdle removes the idle groups of a dead process below a tree's folder.
func removeIdle(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), idlePrefix) {
			_ = unix.Rmdir(filepath.Join(dir, e.Name()))
		}
	}
}
