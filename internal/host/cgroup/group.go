//go:build linux

package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits limits a group. A zero field is unlimited.
type Limits struct {
	MemoryBytes int64 // with swap off
	CPUMillis   int64
	Pids        int64
}

// Group is one sandbox's group, in every hierarchy of its tree.
type Group struct {
	tree     *Tree    // nil for a group that was found, or lacks limits
	branches []branch // the group's own folders
	limits   Limits
	before   Counts // of the sandboxes that the group had before
	yields   bool   // it has less than the usual weight
}

// Before returns the group's counts from before its sandbox, for the record from which another process finds the group.
func (g *Group) Before() Counts { return g.before }

// Since sets the counts from before the sandbox of a found group.
func (g *Group) Since(before Counts) { g.before = before }

// Create makes a group with its limits set, or leaves nothing behind.
func (t *Tree) Create(name string, l Limits) (*Group, error) {
	if g := t.idle.take(name, l); g != nil {
		return g, nil
	}
	g := &Group{limits: l}
	for _, b := range t.branches {
		b.Dir, b.kept = filepath.Join(b.Dir, name), &keptFiles{}
		if err := os.Mkdir(b.Dir, 0o755); err != nil {
			return nil, errors.Join(err, g.Remove(context.Background()))
		}
		g.branches = append(g.branches, b)
		if err := b.limit(l); err != nil {
			return nil, errors.Join(err, g.Remove(context.Background()))
		}
	}
	g.tree = t // from here on, Remove may keep it for a sandbox with the same limits
	return g, nil
}

// Find returns the existing parts of the group with this name below a tree's recorded folders.
func Find(dirs []string, name string) *Group {
	g := &Group{}
	for _, dir := range dirs {
		b := branch{Dir: filepath.Join(dir, name)}
		if _, err := os.Stat(b.Dir); err != nil {
			continue
		}
		for _, mark := range []struct {
			file       string
			v2         bool
			controller Controller
		}{
			{"memory.max", true, Memory}, {"pids.max", false, Pids}, {"cpu.max", true, CPU},
			{"cgroup.events", true, ""},
			{"memory.limit_in_bytes", false, Memory}, {"cpu.cfs_quota_us", false, CPU},
			{"cpuacct.usage", false, CPUAcct},
		} {
			if _, err := os.Stat(filepath.Join(b.Dir, mark.file)); err == nil {
				b.V2 = b.V2 || mark.v2
				b.Controllers = append(b.Controllers, mark.controller)
			}
		}
		g.branches = append(g.branches, b)
	}
	return g
}

// IsThere reports whether any part of the group was found: none without a hierarchy of ours.
func (g *Group) IsThere() bool { return len(g.branches) > 0 }

// cpuPeriod is the enforcement period of CPU time, in microseconds. With the default of 100 ms a throttled program
// stalls for up to 100 ms; a shorter period costs more timer work. The kernel refuses quotas below leastQuota, so small
// shares of a CPU have a longer period.
const (
	cpuPeriod  = 50_000
	leastQuota = 1_000
)

// cpuTime is the quota of CPU time per period.
func cpuTime(millis int64) (quota, period int64) {
	period = max(cpuPeriod, (leastQuota*1000+millis-1)/max(millis, 1))
	return millis * period / 1000, period
}

// socketBytes is the maximum memory of a sandbox's sockets on v1, in addition to its memory limit.
const socketBytes = 32 << 20

func (b branch) limit(l Limits) error {
	inPeriod, periodLength := cpuTime(l.CPUMillis)
	quota, period := strconv.FormatInt(inPeriod, 10), strconv.FormatInt(periodLength, 10)
	memory, sockets := strconv.FormatInt(l.MemoryBytes, 10), strconv.FormatInt(min(l.MemoryBytes/4, socketBytes), 10)
	type setting struct {
		on          bool
		file, value string
		optional    bool // the file is missing on kernels without the feature
	}
	var settings []setting
	if b.V2 {
		settings = []setting{
			{l.MemoryBytes > 0 && b.has(Memory), "memory.max", memory, false},
			{l.MemoryBytes > 0 && b.has(Memory), "memory.swap.max", "0", true},
			{l.MemoryBytes > 0 && b.has(Memory), "memory.zswap.max", "0", true},
			{l.Pids > 0 && b.has(Pids), "pids.max", strconv.FormatInt(l.Pids, 10), false},
			{l.CPUMillis > 0 && b.has(CPU), "cpu.max", quota + " " + period, false},
			{true, "cgroup.max.descendants", "0", false},
		}
	} else {
		settings = []setting{
			// The limit including swap may not be below the one without, so it is set second.
			{l.MemoryBytes > 0 && b.has(Memory), "memory.limit_in_bytes", memory, false},
			{l.MemoryBytes > 0 && b.has(Memory), "memory.memsw.limit_in_bytes", memory, true},
			{l.MemoryBytes > 0 && b.has(Memory), "memory.swappiness", "0", true},
			// v1 counts TCP and UDP sockets only if a limit is set, and apart from other memory.
			{l.MemoryBytes > 0 && b.has(Memory), "memory.kmem.tcp.limit_in_bytes", sockets, true},
			{l.Pids > 0 && b.has(Pids), "pids.max", strconv.FormatInt(l.Pids, 10), false},
			{l.CPUMillis > 0 && b.has(CPU), "cpu.cfs_period_us", period, false},
			{l.CPUMillis > 0 && b.has(CPU), "cpu.cfs_quota_us", quota, false},
		}
	}
	for _, s := range settings {
		if !s.on {
			continue
		}
		if err := writeFile(b.Dir, s.file, s.value); err != nil && !(s.optional && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// Resize changes limits; a zero field keeps its value. EBUSY or an out-of-memory kill follows a memory limit below what
// the group uses, so the caller compares them first.
func (g *Group) Resize(l Limits) error {
	g.tree = nil // it is no longer like those that are kept for the next sandbox
	for _, b := range g.branches {
		if !b.V2 && l.MemoryBytes > readNumber(b.Dir, "memory.limit_in_bytes") && b.has(Memory) {
			// The limit including swap may not be below the one without, so it is raised first.
			err := writeFile(b.Dir, "memory.memsw.limit_in_bytes", strconv.FormatInt(l.MemoryBytes, 10))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := b.limit(l); err != nil {
			return err
		}
	}
	return nil
}

// Yield gives a group 1/part of the usual weight among its siblings that want CPU time. The usual one is the kernel's
// default.
func (g *Group) Yield(part int) error {
	for _, b := range g.branches {
		if !b.has(CPU) {
			continue
		}
		file, weight := "cpu.shares", max(1024/part, 2) // the least that the kernel accepts
		if b.V2 {
			file, weight = "cpu.weight", max(100/part, 1)
		}
		if err := writeFile(b.Dir, file, strconv.Itoa(weight)); err != nil {
			return err
		}
	}
	g.yields = part > 1
	return nil
}

// Door holds a group open for a process that will be spawned in it.
type Door struct {
	V2    int   // the folder, for CLONE_INTO_CGROUP (Linux 5.7); 0 without a v2 part
	Tasks []int // the "tasks" files of its v1 parts, to which the process writes 0 before it executes anything
}

func (g *Group) Door() (_ *Door, err error) {
	d := &Door{}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	for _, b := range g.branches {
		if b.V2 {
			d.V2, err = openFile(b.Dir, unix.O_PATH|unix.O_DIRECTORY)
		} else {
			var fd int
			fd, err = openFile(filepath.Join(b.Dir, "tasks"), unix.O_WRONLY)
			d.Tasks = append(d.Tasks, fd)
		}
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Close closes the door; processes inside stay.
func (d *Door) Close() {
	for _, fd := range append(d.Tasks, d.V2) {
		if fd > 0 {
			unix.Close(fd)
		}
	}
}

// Usage reads the group's counters. A figure that is unknown here is -1.
func (g *Group) Usage() sandbox.Usage {
	u := sandbox.Usage{CPU: -1, MemoryNow: -1, MemoryPeak: -1, OOMKills: -1, PidsNow: -1, PidsRefused: -1,
		DiskWritten: -1}
	for _, b := range g.branches {
		if b.V2 {
			readV2(&u, b)
		} else {
			readV1(&u, b)
		}
	}
	if u.OOMKills >= 0 {
		u.OOMKills -= g.before.OOMKills
	}
	if u.PidsRefused >= 0 {
		u.PidsRefused -= g.before.Refused
	}
	return u
}

// OOMKills reads only Usage.OOMKills, for frequent callers.
func (g *Group) OOMKills() int64 {
	for _, b := range g.branches {
		file := "memory.events"
		if !b.V2 {
			file = "memory.oom_control"
		}
		if n := b.key(file, "oom_kill"); n >= 0 {
			return n - g.before.OOMKills
		}
	}
	return 0
}

func readV2(u *sandbox.Usage, b branch) {
	set(&u.MemoryNow, b.number("memory.current"))
	set(&u.MemoryPeak, b.number("memory.peak")) // Linux 5.19
	set(&u.OOMKills, b.key("memory.events", "oom_kill"))
	set(&u.PidsNow, b.number("pids.current"))
	set(&u.PidsRefused, b.key("pids.events", "max"))
	if us := b.key("cpu.stat", "usage_usec"); us >= 0 {
		u.CPU = time.Duration(us) * time.Microsecond
	}
}

func readV1(u *sandbox.Usage, b branch) {
	if b.has(Memory) {
		set(&u.MemoryNow, b.number("memory.usage_in_bytes"))
		set(&u.MemoryPeak, b.number("memory.max_usage_in_bytes"))
		set(&u.OOMKills, b.key("memory.oom_control", "oom_kill"))
	}
	if b.has(Pids) {
		set(&u.PidsNow, b.number("pids.current"))
		set(&u.PidsRefused, b.key("pids.events", "max"))
	}
	if b.has(CPUAcct) {
		if ns := b.number("cpuacct.usage"); ns >= 0 {
			u.CPU = time.Duration(ns)
		}
	}
}

func set(to *int64, v int64) {
	if v >= 0 {
		*to = v
	}
}

func readNumber(dir, file string) int64 { return branch{Dir: dir}.number(file) }

// number reads a file with one number; -1 if it is missing or has something else.
func (b branch) number(file string) int64 {
	text, err := b.read(file)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// key reads the number after a key in a file of lines; -1 if it is missing.
func (b branch) key(file, key string) int64 {
	text, err := b.read(file)
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		if k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); k == key {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}

// Processes lists the group's pids in this process's pid namespace.
func (g *Group) Processes() []int {
	var pids []int
	for _, b := range g.branches {
		text, err := readFile(b.Dir, "cgroup.procs")
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Kill ends every process in the group. It is a backstop: a sandbox's processes end with its pid 1.
func (g *Group) Kill() {
	for _, b := range g.branches {
		if b.V2 {
			_ = writeFile(b.Dir, "cgroup.kill", "1") // Linux 5.14; on older kernels the loop below does it
		}
	}
	for _, pid := range g.Processes() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// removeTimeout bounds Remove's wait for the kernel to release a group of dead processes: usually 5 to 15 ms, but tasks
// throttled by a CPU limit die late on a busy host.
const removeTimeout = 30 * time.Second

// Remove removes the group once it is empty. It may keep an empty group for a later sandbox, under another name.
func (g *Group) Remove(ctx context.Context) error {
	if g.tree != nil && g.tree.idle.keep(g) {
		return nil
	}
	g.CloseFiles()
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	var errs []error
	for _, b := range g.branches {
		errs = append(errs, removeDir(ctx, b.Dir))
	}
	return errors.Join(errs...)
}

func removeDir(ctx context.Context, dir string) error {
	for wait := 200 * time.Microsecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := unix.Rmdir(dir)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		if err != unix.EBUSY {
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}
	}
}

// RemoveTree removes a dead process's tree folder and the process's own leaf, unless a group in it still has processes.
func RemoveTree(dir string) {
	removeIdle(dir)
	_ = unix.Rmdir(filepath.Join(dir, supervisor))
	_ = unix.Rmdir(dir)
}

// Of returns the group of any process, for reading only.
func Of(pid int) (*Group, error) {
	h, err := readHierarchies("/proc/self/mountinfo", "/proc/"+strconv.Itoa(pid)+"/cgroup")
	if err != nil {
		return nil, err
	}
	g := &Group{}
	for _, dir := range append(slices.Collect(maps.Values(h.v1)), h.v2) {
		if dir != "" && !slices.ContainsFunc(g.branches, func(b branch) bool { return b.Dir == dir }) {
			g.branches = append(g.branches, Find([]string{filepath.Dir(dir)}, filepath.Base(dir)).branches...)
		}
	}
	return g, nil
}

// Limits reads the group's limits. Zero is unlimited.
func (g *Group) Limits() (l Limits) {
	positive := func(n int64) int64 { return max(n, 0) } // "max" and missing files read as -1
	for _, b := range g.branches {
		if b.has(Pids) {
			l.Pids = positive(readNumber(b.Dir, "pids.max"))
		}
		switch {
		case b.V2:
			if b.has(Memory) {
				l.MemoryBytes = positive(readNumber(b.Dir, "memory.max"))
			}
			if n := cpuV2(b.Dir); n > 0 { // engines make a v2 group without controllers beside v1 groups
				l.CPUMillis = n
			}
		default:
			if b.has(Memory) {
				l.MemoryBytes = positive(readNumber(b.Dir, "memory.limit_in_bytes"))
			}
			if b.has(CPU) {
				l.CPUMillis = cpuV1(b.Dir)
			}
		}
	}
	return l
}

// cpuV2 reads a group's CPU limit in thousandths of a CPU; 0 is unlimited.
func cpuV2(dir string) int64 {
	text, err := readFile(dir, "cpu.max")
	quota, period, ok := strings.Cut(strings.TrimSpace(string(text)), " ")
	if err != nil || !ok {
		return 0
	}
	q, qErr := strconv.ParseInt(quota, 10, 64)
	p, pErr := strconv.ParseInt(period, 10, 64)
	if qErr != nil || pErr != nil || p <= 0 {
		return 0
	}
	return q * 1000 / p
}

// cpuV1 is cpuV2 for the older hierarchy.
func cpuV1(dir string) int64 {
	q, p := readNumber(dir, "cpu.cfs_quota_us"), readNumber(dir, "cpu.cfs_period_us")
	if q <= 0 || p <= 0 {
		return 0
	}
	return q * 1000 / p
}
