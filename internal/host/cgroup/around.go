//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
)

// Around returns this process's limits: the smallest of its own groups and all visible groups above them. Zero is
// unlimited.
func Around() (Limits, error) {
	h, err := readHierarchies("/proc/self/mountinfo", "/proc/self/cgroup")
	return h.around(), err
}

func (h hierarchies) around() (l Limits) {
	lower := func(to *int64, v int64) {
		if v > 0 && (*to == 0 || v < *to) { // "max" and missing files read as -1
			*to = v
		}
	}
	// above visits a group and those above it, up to the mount of its hierarchy.
	above := func(dir string, visit func(dir string)) {
		for ; dir != "" && isGroup(dir); dir = filepath.Dir(dir) {
			visit(dir)
		}
	}
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
