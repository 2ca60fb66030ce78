//go:build linux

package cgroup

import (
	"maps"
	"path/filepath"
	"slices"
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
	for _, dir := range append(slices.Collect(maps.Values(h.v1)), h.v2) {
		for ; dir != "" && dir != "/"; dir = filepath.Dir(dir) { // above the mount there are no such files
			lower(&l.MemoryBytes, readNumber(dir, "memory.max"))
			lower(&l.MemoryBytes, readNumber(dir, "memory.limit_in_bytes"))
			lower(&l.Pids, readNumber(dir, "pids.max"))
			lower(&l.CPUMillis, cpuV2(dir))
			lower(&l.CPUMillis, cpuV1(dir))
		}
	}
	return l
}
