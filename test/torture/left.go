package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// maxCommand bounds the bytes of a command line in a report. Drivers of contexts have their whole text there.
const maxCommand = 200

// leftOf returns what remains of dead servers on the host. Only the servers in alive may have processes.
func leftOf(dead []liveserver.Instance, runDir string, alive []int) ([]string, error) {
	var left []string
	for _, in := range dead {
		for _, path := range append([]string{in.Dir}, in.Groups...) {
			if _, err := os.Lstat(path); err == nil {
				left = append(left, path)
			}
		}
		if in.Held() {
			left = append(left, "the lock of "+in.Name)
		}
	}
	processes, err := leftProcesses(dead, alive)
	if err != nil {
		return nil, err
	}
	left = append(left, processes...)
	left = append(left, leftGroups(dead)...)
	mounts, err := leftMounts(runDir, append([]int{os.Getpid()}, alive...))
	if err != nil {
		return nil, err
	}
	return append(left, mounts...), nil
}

// leftProcesses returns the processes of dead servers: those in their control groups, and those with our mark in the
// environment and no living server as ancestor. It also returns living servers that hold namespaces.
func leftProcesses(dead []liveserver.Instance, alive []int) ([]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var left []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		why := ""
		switch {
		case inGroupOf(pid, dead):
			why = "in a control group of a dead server"
		case marked(pid) && !descends(pid, alive):
			why = "carries our mark"
		case holdsNamespaces(pid, alive):
			why = "holds a namespace by a descriptor"
		}
		if why == "" {
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		line = line[:min(len(line), maxCommand)]
		left = append(left, fmt.Sprintf("process %d %q: %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '}), why))
	}
	return left, nil
}

func inGroupOf(pid int, dead []liveserver.Instance) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(dead, func(in liveserver.Instance) bool {
		return bytes.Contains(text, []byte("fumehood-"+in.Name))
	})
}

func marked(pid int) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+mark+"="))
}

// maxDepth bounds the walk up from a process while processes come and go.
const maxDepth = 1000

func descends(pid int, from []int) bool {
	for range maxDepth {
		if slices.Contains(from, pid) {
			return true
		}
		if pid <= 1 {
			return pid == 0 // ended meanwhile
		}
		pid = liveserver.Parent(pid)
	}
	return false
}

// templates bounds the mount namespaces of a server: its template of the root, and the next one during a change.
const templates = 2

// holdsNamespaces reports whether a server's descriptors keep namespaces alive that have no processes.
func holdsNamespaces(pid int, servers []int) bool {
	if !slices.Contains(servers, pid) {
		return false
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	mounts := 0
	for _, fd := range fds {
		target, err := os.Readlink(filepath.Join(dir, fd.Name()))
		if err != nil {
			continue
		}
		kind, _, found := strings.Cut(target, ":[")
		if found && slices.Contains([]string{"pid", "net", "user", "ipc", "uts", "cgroup"}, kind) {
			return true
		}
		if found && kind == "mnt" {
			mounts++
		}
	}
	return mounts > templates
}

// leftGroups returns the control groups of dead servers in all hierarchies, even unrecorded ones.
func leftGroups(dead []liveserver.Instance) []string {
	var left []string
	for _, in := range dead {
		for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*", "/sys/fs/cgroup/*/*"} {
			found, err := filepath.Glob(dir + "/fumehood-" + in.Name + "*")
			if err == nil {
				left = append(left, found...)
			}
		}
	}
	return left
}

// leftMounts returns our mounts in the mount namespaces of the host's own processes, where none must be.
func leftMounts(runDir string, pids []int) ([]string, error) {
	var left []string
	for _, pid := range append(pids, 1) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 5 {
				continue
			}
			namespace := strings.Contains(line, " nsfs ") && strings.Contains(f[4], "fumehood")
			if namespace || strings.HasPrefix(f[4], runDir) {
				left = append(left, fmt.Sprintf("mount of process %d: %s", pid, strings.TrimSpace(line)))
			}
		}
	}
	return left, nil
}
