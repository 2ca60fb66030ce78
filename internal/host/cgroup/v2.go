//go:build linux

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// errNoControllers reports a v2 tree without controllers, as on a hybrid host that binds them all to v1.
var errNoControllers = errors.New("cgroup v2 has no controllers")

var wanted = []Controller{Memory, Pids, CPU}

// supervisor is the leaf for this process, as a group with groups below it may hold no processes itself.
const supervisor = "supervisor"

// scope is this process's delegated scope of systemd. All trees of the process share it, because a process is in one
// group: a second scope would take the process out of the first, which systemd then removes.
var scope struct {
	sync.Mutex
	dir string // "" until the first tree
}

// openV2 makes our own v2 group with the controllers enabled: in a delegated scope of systemd, if that runs, as only
// systemd may write to its tree; otherwise in the nearest group above us that delegates controllers.
func openV2(h hierarchies, name string, announce func(string) error) (branch, error) {
	if have := controllersIn(h.root, "cgroup.controllers"); len(have) == 0 {
		return branch{}, errNoControllers
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		dir, err := delegatedScope(h, name)
		if err == nil {
			return makeV2(filepath.Join(dir, name), announce)
		}
		if os.Geteuid() != 0 {
			return branch{}, fmt.Errorf("systemd gave no delegated scope: %w", err)
		}
	}
	for dir := h.v2; ; dir = filepath.Dir(dir) {
		if hasAll(controllersIn(dir, "cgroup.subtree_control")) || (dir == h.root && enable(dir) == nil) {
			return makeV2(filepath.Join(dir, name), announce)
		}
		if dir == h.root {
			return branch{}, fmt.Errorf("no group above %s delegates memory, pids and cpu", h.v2)
		}
	}
}

// makeV2 makes a group, and delegates the controllers to its children.
func makeV2(dir string, announce func(string) error) (branch, error) {
	if err := makeDir(dir, announce); err != nil {
		return branch{}, err
	}
	if err := enable(dir); err != nil {
		return branch{}, err
	}
	return branch{Dir: dir, V2: true, Controllers: controllersIn(dir, "cgroup.subtree_control")}, nil
}

// delegatedScope returns the folder of this process's scope. The first call makes the scope, moves this process into a
// leaf of it, and delegates the controllers. Systemd removes the scope when its last process is gone.
func delegatedScope(h hierarchies, name string) (string, error) {
	scope.Lock()
	defer scope.Unlock()
	if scope.dir != "" {
		return scope.dir, nil
	}
	dir, err := newScope(h, name)
	if err == nil {
		err = prepareScope(dir)
	}
	if err == nil {
		scope.dir = dir
	}
	return scope.dir, err
}

func newScope(h hierarchies, name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), systemdTimeout)
	defer cancel()
	unit := name + ".scope"
	if err := startScope(ctx, unit); err != nil {
		return "", err
	}
	own, err := readOwn("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	if filepath.Base(own[""]) != unit {
		return "", fmt.Errorf("still in %s", own[""])
	}
	return below("/", h.root, own[""]), nil
}

const systemdTimeout = 5 * time.Second

// prepareScope moves this process into a leaf of its scope, and delegates the controllers.
func prepareScope(dir string) error {
	leaf := filepath.Join(dir, supervisor)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := writeFile(leaf, "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	return enable(dir)
}

// enable delegates every wanted controller of dir to its children, as far as possible.
func enable(dir string) error {
	var errs []error
	for _, c := range wanted {
		if slices.Contains(controllersIn(dir, "cgroup.subtree_control"), c) {
			continue
		}
		errs = append(errs, writeFile(dir, "cgroup.subtree_control", "+"+string(c)))
	}
	if len(controllersIn(dir, "cgroup.subtree_control")) > 0 {
		return nil
	}
	return errors.Join(errs...)
}

func controllersIn(dir, file string) []Controller {
	text, err := readFile(dir, file)
	if err != nil {
		return nil
	}
	var on []Controller
	for _, c := range strings.Fields(string(text)) {
		if slices.Contains(wanted, Controller(c)) {
			on = append(on, Controller(c))
		}
	}
	return on
}

func hasAll(on []Controller) bool {
	for _, c := range wanted {
		if !slices.Contains(on, c) {
			return false
		}
	}
	return true
}
