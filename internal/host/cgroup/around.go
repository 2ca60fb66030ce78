//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
)

// Around returns this process's limits: the smallest of its own groups and all visible groups above them, and of
// processes those of the kernel. Zero is unlimited.
func Around() (Limits, error) {
	h, err := readHierarchies("/proc/self/mountinfo", "/proc/self/cgroup")
	l := h.around()
	lower(&l.Pids, hostPids())
	return l, err
}

func lower(to *int64, v int64) {
	if v > 0 && (*to == 0 || v < *to) { // "max" and missing files read as -1
		*to = v
	}
}

// above visits a group and those above it, up to the mount of its hierarchy.
func above(dir string, visit func(dir string)) {
	for ; dir != "" && isGroup(dir); dir = filepath.Dir(dir) {
		visit(dir)
	}
}

// hostPids returns how many processes and threads the kernel permits on the whole host; 0 is unknown.
func hostPids() (most int64) {
	for _, file := range []string{"pid_max", "threads-max"} {
		lower(&most, readNumber("/proc/sys/kernel", file))
	}
	return most
}

// treePids is the part, in eighths, of the processes of the host, or of a group above a tree, that the groups of the
// tree may have together. A server may have two trees, one for each backend.
const treePids = 3

// TreePids returns how many processes and threads the groups of a tree may have if the host, or a group above it,
// permits most.
func TreePids(most int64) int64 { return most * treePids / 8 }

// boundPids bounds the processes and threads of all groups of the tree together. This process, which is beside them,
// ends if it cannot start a thread, and other programs of the host fail.
func (t *Tree) boundPids(most int64) error {
	for _, b := range t.branches {
		if !b.has(Pids) {
			continue
		}
		above(filepath.Dir(b.Dir), func(dir string) { lower(&most, readNumber(dir, "pids.max")) })
		if most > 0 {
			return writeFile(b.Dir, "pids.max", strconv.FormatInt(TreePids(most), 10))
		}
	}
	return nil
}

func (h hierarchies) around() (l Limits) {
	above(h.v1[Memory], func(dir string) { lower(&l.MemoryBytes, readNumber(dir, "memory.limit_in_bytes")) })
	above(h.v1[Pids], func(dir string) { lower(&l.Pids, readNumber(dir, "pids.max")) })
	above(h.v1[CPU], func(dir string) { lower(&l.CPUMillis, cpuV1(dir)) })
	above(h.v2, func(dir string) {
		lower(&l.MemoryBytes, readNumber(dir, "memory.max"))
		lower(&l.Pids, readNumber(dir, "pids.max"))
		lower(&l.CPUMillis, cpuV2(dir))
	})
	return l
}

// isGroup reports whether a folder is a control group. Above the mount of a hierarchy, folders are not.
func isGroup(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.procs"))
	return err == nil
}
