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
	"time"
)

// errNoControllers says that the v2 tree is there but empty, as on a hybrid host whose controllers are all bound to v1.
var errNoControllers = errors.New("cgroup v2 has no controllers")

var wanted = []Controller{Memory, Pids, CPU}

// supervisor is the leaf that holds this process, as a group with groups below it may hold none itself.
const supervisor = "supervisor"

// openV2 finds or makes a v2 group of our own in which the controllers are on. systemd, where it runs, is asked for a delegated
// scope, because it is the one writer of its tree; elsewhere the nearest group above us that hands controllers down is used.
func openV2(h hierarchies, name string, announce func(string) error) (branch, error) {
	if have := controllersIn(h.root, "cgroup.controllers"); len(have) == 0 {
		return branch{}, errNoControllers
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		dir, err := delegatedScope(h, name) // which systemd removes when its last process is gone
		if err == nil {
			err = announce(dir)
		}
		if err == nil {
			return prepareV2(dir)
		}
		if os.Geteuid() != 0 {
			return branch{}, fmt.Errorf("systemd gave no delegated scope: %w", err)
		}
	}
	for dir := h.v2; ; dir = filepath.Dir(dir) {
		if hasAll(controllersIn(dir, "cgroup.subtree_control")) || (dir == h.root && enable(dir) == nil) {
			sub := filepath.Join(dir, name)
			if err := makeDir(sub, announce); err != nil {
				return branch{}, err
			}
			return prepareV2(sub)
		}
		if dir == h.root {
			return branch{}, fmt.Errorf("no group above %s hands memory, pids and cpu down", h.v2)
		}
	}
}

// delegatedScope asks systemd for a scope that is ours to divide, and returns its folder once we are in it.
func delegatedScope(h hierarchies, name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), systemdTimeout)
	defer cancel()
	unit := name + scopeSuffix
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

const (
	systemdTimeout = 5 * time.Second
	scopeSuffix    = ".scope" // of what systemd makes for us
)

// prepareV2 moves this process, where it is in dir itself, into a leaf and hands the controllers down.
func prepareV2(dir string) (branch, error) {
	procs, err := readFile(dir, "cgroup.procs")
	if err != nil {
		return branch{}, err
	}
	if len(strings.TrimSpace(string(procs))) > 0 {
		leaf := filepath.Join(dir, supervisor)
		if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return branch{}, err
		}
		if err := writeFile(leaf, "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
			return branch{}, err
		}
	}
	if err := enable(dir); err != nil {
		return branch{}, err
	}
	on := controllersIn(dir, "cgroup.subtree_control")
	return branch{Dir: dir, V2: true, Controllers: on}, nil
}

// enable hands every controller we want and dir has down to its children; one that cannot be is left out.
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
