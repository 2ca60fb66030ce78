//go:build linux

// Package cgroup makes control groups for sandboxes, on a host with cgroup v2, v1, a mixture, or none.
//
// A Tree is a place where this process may make groups. A Group limits and counts one sandbox, and has the sandbox's
// name in every hierarchy that is needed. All limits are set before the first process enters.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type Controller string

// The controllers that limit or count a sandbox.
const (
	Memory  Controller = "memory"
	Pids    Controller = "pids"
	CPU     Controller = "cpu"
	CPUAcct Controller = "cpuacct" // v1 only; v2 counts in cpu.stat
)

// Tree is a place where groups can be made. The zero Tree has no controller and enforces nothing.
type Tree struct {
	branches []branch
	detail   string
	fix      string
	idle     idle
}

// branch is one hierarchy: a folder in which we may make groups, and their controllers.
type branch struct {
	Dir         string
	V2          bool
	Controllers []Controller
	kept        *keptFiles // of a group's folder; nil opens files for each reading
}

func (b branch) has(c Controller) bool { return slices.Contains(b.Controllers, c) }

// Enforcer names what enforces a controller's limit here, or "".
func (t *Tree) Enforcer(c Controller) string {
	for _, b := range t.branches {
		switch {
		case !b.has(c):
		case b.V2:
			return "cgroup v2 " + string(c)
		default:
			return "cgroup v1 " + string(c)
		}
	}
	return ""
}

// Detail describes the found controllers.
func (t *Tree) Detail() string { return t.detail }

// Fix explains how to make missing controllers available.
func (t *Tree) Fix() string { return t.fix }

// Dirs returns the folders in which this tree makes its groups.
func (t *Tree) Dirs() []string {
	dirs := make([]string, 0, len(t.branches))
	for _, b := range t.branches {
		dirs = append(dirs, b.Dir)
	}
	return dirs
}

// Open finds a place for groups and makes a folder of the given name there, in each necessary hierarchy. It announces
// each folder before it makes it, so that the caller can record it for a later clean-up. Without a place the tree
// enforces nothing, and Detail explains why.
func Open(name string, announce func(dir string) error) (*Tree, error) {
	h, err := readHierarchies("/proc/self/mountinfo", "/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	t := &Tree{}
	var why []error
	if h.v2 != "" {
		b, err := openV2(h, name, announce)
		if err == nil {
			t.branches = append(t.branches, b)
		} else if !errors.Is(err, errNoControllers) {
			why = append(why, err)
		}
	}
	for _, c := range []Controller{Memory, Pids, CPU, CPUAcct} {
		if t.Enforcer(c) != "" || (c == CPUAcct && t.Enforcer(CPU) == "cgroup v2 cpu") || h.v1[c] == "" {
			continue
		}
		dir := filepath.Join(h.v1[c], name)
		if i := slices.IndexFunc(t.branches, func(b branch) bool { return b.Dir == dir }); i >= 0 {
			t.branches[i].Controllers = append(t.branches[i].Controllers, c) // mounted together, like cpu,cpuacct
			continue
		}
		if err := makeDir(dir, announce); err != nil {
			var path *os.PathError
			if errors.As(err, &path) {
				err = path.Err // the folder's name does not belong in the error
			}
			why = append(why, fmt.Errorf("%s: %w", c, err))
			continue
		}
		t.branches = append(t.branches, branch{Dir: dir, Controllers: []Controller{c}})
	}
	if err := t.boundPids(hostPids()); err != nil {
		return t, err
	}
	t.describe(h, errors.Join(why...))
	return t, nil
}

func makeDir(dir string, announce func(string) error) error {
	if err := announce(dir); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o755)
}

func (t *Tree) describe(h hierarchies, why error) {
	var missing []string
	for _, c := range []Controller{Memory, Pids, CPU} {
		if t.Enforcer(c) == "" {
			missing = append(missing, string(c))
		}
	}
	var found []string
	for _, b := range t.branches {
		version := "v1"
		if b.V2 {
			version = "v2"
		}
		for _, c := range b.Controllers {
			found = append(found, string(c)+" ("+version+")")
		}
	}
	t.detail = strings.Join(found, ", ")
	if len(missing) == 0 {
		return
	}
	if t.detail == "" {
		t.detail = "no controller is available"
	}
	t.detail += "; missing: " + strings.Join(missing, ", ")
	if why != nil {
		t.detail += " (" + strings.ReplaceAll(why.Error(), "\n", "; ") + ")"
	}
	switch {
	case os.Geteuid() == 0 && h.v2 == "" && len(h.v1) == 0:
		t.fix = "mount -t cgroup2 none /sys/fs/cgroup"
	case os.Geteuid() == 0:
		t.fix = "run where the cgroup file system is writable (in a container: --cgroupns=private and a writable " +
			"/sys/fs/cgroup)"
	default:
		t.fix = "log in through systemd (systemctl --user must answer), or run as root"
	}
}

// Lose makes the tree pretend that the host lacks some controllers, before it has made groups. For the test of all
// downgrades.
func (t *Tree) Lose(lacking ...string) {
	for i := range t.branches {
		b := &t.branches[i]
		b.Controllers = slices.DeleteFunc(b.Controllers, func(c Controller) bool {
			return slices.Contains(lacking,
				string(c))
		})
	}
	t.describe(hierarchies{}, nil)
}

// Close removes the tree's own folders without groups.
func (t *Tree) Close() error {
	t.idle.close()
	var errs []error
	for _, b := range t.branches {
		if err := os.Remove(b.Dir); err != nil && !errors.Is(err, os.ErrNotExist) && !b.V2 {
			// A v2 group with living sandboxes is in a scope, and ends with it.
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
