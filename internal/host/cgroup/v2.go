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

// errNoControllers reports a v2 tree without controllers, as on a hybrid host that binds them all to v1.
var errNoControllers = errors.New("cgroup v2 has no controllers")

var wanted = []Controller{Memory, Pids, CPU}

// supervisor is the leaf for this process, as a group with groups below it may hold no processes itself.
const supervisor = "supervisor"

// openV2 finds or makes our own v2 group with the controllers enabled: in a delegated scope of systemd, if that runs,
// as only systemd may write to its tree; otherwise in the nearest group above us that delegates controllers.
func openV2(h hierarchies, name string, announce func(string) error) (branch, error) {
	if have := controllersIn(h.root, "cgroup.controllers"); len(have) == 0 {
		return branch{}, errNoControllers
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		dir, err := delegatedScope(h, name) // systemd removes it when its last process is gone
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
			return branch{}, fmt.Errorf("no group above %s delegates memory, pids and cpu", h.v2)
		}
	}
}

// delegatedScope moves this process into a delegated scope of systemd, and returns the scope's folder.
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
	scopeSuffix    = ".scope" // suffix of the scope that systemd makes
)

// prepareV2 moves this process into a leaf, if it is in dir itself, and delegates the controllers.
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
