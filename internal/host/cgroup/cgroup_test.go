//go:build linux

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

var trees atomic.Int64 // each tree has its own name

// open makes our own tree on this host, or skips the test.
func open(t *testing.T) *Tree {
	t.Helper()
	var announced []string
	tree, err := Open(fmt.Sprintf("fumehood-test-%d-%d", os.Getpid(), trees.Add(1)), func(dir string) error {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s was made before it was announced", dir)
		}
		announced = append(announced, dir)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, dir := range tree.Dirs() {
		if !strings.Contains(strings.Join(announced, "\n")+"\n", dir+"\n") {
			t.Errorf("%s was never announced", dir)
		}
	}
	if len(tree.branches) == 0 {
		t.Skip("no groups can be made here: " + tree.Detail())
	}
	return tree
}

// TestTreesAtOnce: each backend of a process opens a tree, at the same time, and each tree enforces its limits.
func TestTreesAtOnce(t *testing.T) {
	open(t) // or skip
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			tree, err := Open(fmt.Sprintf("fumehood-test-%d-%d", os.Getpid(), trees.Add(1)),
				func(string) error { return nil })
			if err != nil {
				t.Error(err)
				return
			}
			g, err := tree.Create("limited", Limits{MemoryBytes: 64 << 20, CPUMillis: 500, Pids: 20})
			if err != nil || tree.Enforcer(Memory) == "" {
				t.Errorf("tree %d has no limit of memory: %s, %v", i, tree.Detail(), err)
			}
			if err := errors.Join(g.Remove(t.Context()), tree.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func dirsOf(g *Group) (dirs []string) {
	for _, b := range g.branches {
		dirs = append(dirs, b.Dir)
	}
	return dirs
}

// TestGroup tests a group's life on this host: limits that read back, a process that is counted, killed and gone.
func TestGroup(t *testing.T) {
	tree := open(t)
	const mib = 1 << 20
	g, err := tree.Create("life", Limits{MemoryBytes: 64 * mib, CPUMillis: 500, Pids: 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Yield(4); err != nil {
		t.Error(err)
	}
	for file, want := range map[string]string{
		"cpu.weight": "25", "cpu.shares": "256",
		"memory.max": "67108864", "memory.swap.max": "0", "cpu.max": "25000 50000", "pids.max": "20",
		"cgroup.max.descendants": "0",
		"memory.limit_in_bytes":  "67108864", "cpu.cfs_quota_us": "25000", "cpu.cfs_period_us": "50000",
	} {
		for _, dir := range dirsOf(g) {
			if text, err := readFile(dir, file); err == nil && strings.TrimSpace(string(text)) != want {
				t.Errorf("%s/%s is %s, want %s", dir, file, text, want)
			}
		}
	}
	sleeper := enter(t, g)
	found := Find(tree.Dirs(), "life")
	for _, of := range []*Group{g, found} {
		if pids := of.Processes(); len(pids) != len(g.branches) || pids[0] != sleeper.Process.Pid {
			t.Errorf("processes %v, want %d in each of %d hierarchies", pids, sleeper.Process.Pid, len(g.branches))
		}
		u := of.Usage()
		if tree.Enforcer(Pids) != "" && u.PidsNow != 1 {
			t.Errorf("%d processes are counted", u.PidsNow)
		}
		if tree.Enforcer(Memory) != "" && (u.MemoryNow < 0 || u.OOMKills != 0) {
			t.Errorf("usage %+v", u)
		}
	}
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := g.Remove(short); err == nil || !strings.Contains(err.Error(), g.branches[0].Dir) {
		t.Errorf("a group that is in use was removed, or the error does not name it: %v", err)
	}
	found.Kill()
	_ = sleeper.Wait()
	for range 2 { // a second time is nothing to do
		if err := found.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	}
	for _, dir := range dirsOf(g) {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
	if u := g.Usage(); u != (sandbox.Usage{CPU: -1, MemoryNow: -1, MemoryPeak: -1, OOMKills: -1, PidsNow: -1,
		PidsRefused: -1, DiskWritten: -1}) {
		t.Errorf("a group that is gone has used %+v", u)
	}
}

// enter makes a process write itself into every part of the group.
func enter(t *testing.T, g *Group) *exec.Cmd {
	t.Helper()
	script := ""
	for _, dir := range dirsOf(g) {
		script += "echo 0 > '" + dir + "/cgroup.procs' || exit 1\n"
	}
	sleeper := exec.Command("/bin/sh", "-c", script+"echo in; exec sleep 60")
	out, err := sleeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	if n, err := out.Read(make([]byte, 2)); n != 2 {
		t.Fatal("the process could not enter the group: ", err)
	}
	return sleeper
}

// TestCreateFails: a group that cannot be completed is not made at all.
func TestCreateFails(t *testing.T) {
	tree := open(t)
	last := tree.branches[len(tree.branches)-1].Dir
	taken := filepath.Join(last, "taken")
	if err := os.Mkdir(taken, 0o755); err != nil {
		t.Fatal(err)
	}
	if g, err := tree.Create("taken", Limits{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, %v", g, err)
	}
	if err := os.Remove(taken); err != nil { // it was somebody else's
		t.Error(err)
	}
	if tree.Enforcer(Pids) != "" {
		const overflow = 1 << 62 // above the kernel's own bound
		if g, err := tree.Create("limit", Limits{Pids: overflow}); err == nil ||
			!strings.Contains(err.Error(), "pids.max") {
			t.Errorf("got %v, %v", g, err)
		}
	}
	for _, dir := range tree.Dirs() {
		for _, name := range []string{"taken", "limit"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				t.Errorf("%s is left in %s", name, dir)
			}
		}
	}
}

// TestDoor: a door leads into every part of the group, or is closed again.
func TestDoor(t *testing.T) {
	tree := open(t)
	g, err := tree.Create("door", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	d, err := g.Door()
	if err != nil {
		t.Fatal(err)
	}
	v1 := 0
	for _, b := range g.branches {
		if !b.V2 {
			v1++
		}
	}
	if len(d.Tasks) != v1 || (d.V2 > 0) != (v1 < len(g.branches)) || descriptors(t) != before+len(g.branches) {
		t.Errorf("got %+v for %d v1 parts of %d; %d descriptors, %d before", d, v1, len(g.branches), descriptors(t),
			before)
	}
	d.Close()
	if err := os.Remove(g.branches[len(g.branches)-1].Dir); err != nil {
		t.Fatal(err)
	}
	if d, err := g.Door(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(),
		g.branches[len(g.branches)-1].Dir) {
		t.Errorf("got %v, %v", d, err)
	}
	if n := descriptors(t); n != before {
		t.Errorf("%d descriptors before, %d after", before, n)
	}
	if err := g.Remove(context.Background()); err != nil {
		t.Error(err)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestManyGroups makes and removes groups from many goroutines.
func TestManyGroups(t *testing.T) {
	tree := open(t)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 10 {
				g, err := tree.Create("g"+strconv.Itoa(n)+"-"+strconv.Itoa(i), Limits{MemoryBytes: 1 << 20, Pids: 2})
				if err != nil {
					t.Error(err)
					return
				}
				g.Usage()
				if err := g.Remove(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("12345678\n", 1000)
	for _, text := range []string{"", "max\n", long[:511], long[:512], long[:513], long} {
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readFile(dir, "f"); err != nil || string(got) != text {
			t.Errorf("of %d bytes %d were read, %v", len(text), len(got), err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(dir, "f", "17"); err != nil || readNumber(dir, "f") != 17 {
		t.Errorf("%v, then %d", err, readNumber(dir, "f"))
	}
	if err := writeFile(dir, "missing", "17"); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), dir+"/missing") {
		t.Errorf("got %v: a kernel's file is never made", err)
	}
	if err := writeFile("/dev", "full", "17"); err == nil || !strings.HasPrefix(err.Error(), "write /dev/full: ") {
		t.Errorf("got %v", err)
	}
	if _, err := readFile(filepath.Dir(dir), filepath.Base(dir)); err == nil ||
		!strings.HasPrefix(err.Error(), "read "+dir+": ") {
		t.Errorf("got %v", err)
	}
	for text, want := range map[string]int64{"": -1, "max\n": -1, "9223372036854771712\n": 9223372036854771712,
		"-5":  -5,
		"1 2": -1} {
		if err := os.WriteFile(filepath.Join(dir, "n"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := readNumber(dir, "n"); got != want {
			t.Errorf("%q is %d", text, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "k"), []byte("oom 3\noom_kill 2\noom_kill_group x\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int64{"oom": 3, "oom_kill": 2, "oom_kill_group": -1, "kill": -1} {
		if got := (branch{Dir: dir}).key("k", key); got != want {
			t.Errorf("%s is %d", key, got)
		}
	}
}

// TestHierarchies parses hosts of all kinds.
func TestHierarchies(t *testing.T) {
	for _, c := range []struct {
		name, mounts, groups string
		v2, root             string
		v1                   map[Controller]string
	}{
		{"v2",
			"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
			"0::/user.slice/user-1000.slice\n",
			"/sys/fs/cgroup/user.slice/user-1000.slice", "/sys/fs/cgroup", nil},
		{"v1, two together, one with a space",
			"30 23 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
				"31 23 0:27 / /cg\\040roup/pids rw - cgroup cgroup rw,pids\n",
			"3:cpu,cpuacct:/a\n2:pids:/b\n1:name=systemd:/c\n",
			"", "", map[Controller]string{CPU: "/sys/fs/cgroup/cpu,cpuacct/a", CPUAcct: "/sys/fs/cgroup/cpu,cpuacct/a",
				Pids: "/cg roup/pids/b"}},
		{"hybrid",
			"30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n31 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"4:memory:/m\n0::/\n",
			"/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified",
			map[Controller]string{Memory: "/sys/fs/cgroup/memory/m"}},
		{"a container that sees its own group only",
			"30 23 0:26 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n",
			"2:pids:/docker/abc/x\n",
			"", "", map[Controller]string{Pids: "/sys/fs/cgroup/pids/x"}},
		{"a path outside of what is mounted",
			"30 23 0:26 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n",
			"2:pids:/elsewhere\n",
			"", "", map[Controller]string{Pids: "/sys/fs/cgroup/pids"}},
		{"none, and lines that are no mounts", "garbage\n30 23\n - \n", "garbage\n", "", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"mountinfo": c.mounts, "cgroup": c.groups} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			h, err := readHierarchies(dir+"/mountinfo", dir+"/cgroup")
			if err != nil {
				t.Fatal(err)
			}
			if h.v2 != c.v2 || h.root != c.root || len(h.v1) != len(c.v1) {
				t.Errorf("got %+v", h)
			}
			for controller, want := range c.v1 {
				if h.v1[controller] != want {
					t.Errorf("%s is at %q, want %q", controller, h.v1[controller], want)
				}
			}
		})
	}
}
