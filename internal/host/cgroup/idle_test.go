//go:build linux

package cgroup

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// openV1 makes a tree with groups that can be kept, or skips the test.
func openV1(t *testing.T) *Tree {
	t.Helper()
	tree := open(t)
	for _, b := range tree.branches {
		if b.V2 {
			t.Skip("groups of v2 are not kept for later")
		}
	}
	if tree.Enforcer(Memory) == "" || tree.Enforcer(Pids) == "" || tree.Enforcer(CPU) == "" {
		t.Skip("not all controllers are here: " + tree.Detail())
	}
	return tree
}

// inside runs a script in every part of the group, and waits until no process is counted any more.
func inside(t *testing.T, g *Group, script string) {
	t.Helper()
	enter := ""
	for _, dir := range dirsOf(g) {
		enter += "echo 0 > '" + dir + "/cgroup.procs' || exit 99\n"
	}
	// In its own shell, so that an out-of-memory kill does not hit the reporting one.
	err := exec.Command("/bin/sh", "-c", enter+script).Run()
	if e, ok := err.(*exec.ExitError); err != nil && (!ok || e.ExitCode() == 99) {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); g.Usage().PidsNow != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("somebody stays: %v", g.Processes())
		}
	}
}

func remove(t *testing.T, g *Group) {
	t.Helper()
	if err := g.Remove(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// idleNow lists the idle groups in the first hierarchy.
func idleNow(tree *Tree) []string {
	kept, _ := filepath.Glob(filepath.Join(tree.branches[0].Dir, idlePrefix+"*"))
	return kept
}

func create(t *testing.T, tree *Tree, name string, l Limits) *Group {
	t.Helper()
	g, err := tree.Create(name, l)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestUsedAgain: a reused group is the same folder with the next sandbox's name and the same limits, and neither
// sandbox sees the other's figures.
func TestUsedAgain(t *testing.T) {
	tree := openV1(t)
	limits := Limits{MemoryBytes: 32 << 20, CPUMillis: 1500, Pids: 20}
	first := create(t, tree, "first", limits)
	was := map[string]os.FileInfo{}
	for _, b := range first.branches {
		was[filepath.Dir(b.Dir)], _ = os.Stat(b.Dir)
	}
	const outOfMemory = "head -c 100000000 /dev/zero | tail > /dev/null; true"
	// Pages read from disk are charged to their first reader, so the group must not be that.
	if err := exec.Command("/bin/sh", "-c", "head -c 1 /dev/zero | tail").Run(); err != nil {
		t.Fatal(err)
	}
	inside(t, first, outOfMemory)
	inside(t, first, "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done")
	before := first.Usage()
	if before.OOMKills < 1 || before.MemoryPeak < 16<<20 || before.CPU < 10*time.Millisecond {
		t.Fatalf("the first has used %+v", before)
	}
	if err := first.Yield(4); err != nil {
		t.Error(err)
	}
	remove(t, first)
	if len(idleNow(tree)) != 1 {
		t.Fatalf("kept: %v", idleNow(tree))
	}
	second := create(t, tree, "second", limits)
	if len(idleNow(tree)) != 0 {
		t.Errorf("still kept: %v", idleNow(tree))
	}
	for _, b := range second.branches {
		now, err := os.Stat(b.Dir)
		if err != nil || filepath.Base(b.Dir) != "second" || !os.SameFile(now, was[filepath.Dir(b.Dir)]) {
			t.Errorf("%s is not the group of before: %v", b.Dir, err)
		}
		for file, want := range map[string]string{"memory.limit_in_bytes": "33554432", "pids.max": "20",
			"cpu.cfs_quota_us": "75000", "cpu.cfs_period_us": "50000", "cpu.shares": "1024"} {
			if text, err := readFile(b.Dir, file); err == nil && strings.TrimSpace(string(text)) != want {
				t.Errorf("%s is %s", file, text)
			}
		}
	}
	if u := second.Usage(); u.OOMKills != 0 || u.CPU != 0 || u.PidsNow != 0 || u.MemoryPeak > maxLeftover {
		t.Errorf("the second begins with %+v", u)
	}
	inside(t, second, outOfMemory)
	if u := second.Usage(); u.OOMKills < 1 || u.CPU <= 0 {
		t.Errorf("the second has used %+v, the first %+v", u, before)
	}
	found := Find(tree.Dirs(), "second") // by another process
	found.Since(second.Before())
	if u, want := found.Usage(), second.Usage(); u.OOMKills != want.OOMKills || u.PidsRefused != want.PidsRefused ||
		found.OOMKills() != want.OOMKills {
		t.Errorf("another process finds %+v, want %+v", u, want)
	}
	if u := first.Usage(); u != (sandbox.Usage{CPU: -1, MemoryNow: -1, MemoryPeak: -1, OOMKills: -1, PidsNow: -1,
		PidsRefused: -1, DiskWritten: -1}) || len(first.Processes()) != 0 {
		t.Errorf("the first is told of the second: %+v", u)
	}
	first.Kill()
	remove(t, first)
	if _, err := os.Stat(second.branches[0].Dir); err != nil {
		t.Errorf("the first took the second away: %v", err)
	}
	remove(t, second)
	third := create(t, tree, "third", limits) // a third life, with two before it
	if u := third.Usage(); u.OOMKills != 0 {
		t.Errorf("the third begins with %+v", u)
	}
	remove(t, third)
}

// TestNotUsedAgain lists when a group is removed instead of kept, or kept and not taken.
func TestNotUsedAgain(t *testing.T) {
	limits := Limits{MemoryBytes: 64 << 20, CPUMillis: 1000, Pids: 20}
	t.Run("other limits", func(t *testing.T) {
		tree := openV1(t)
		remove(t, create(t, tree, "first", limits))
		for _, other := range []Limits{{64<<20 + 4096, 1000, 20}, {64 << 20, 1001, 20}, {64 << 20, 1000, 21}, {}} {
			g := create(t, tree, "other", other)
			if len(idleNow(tree)) != 1 {
				t.Fatalf("%+v were given a group of %+v", other, limits)
			}
			if err := removeDir(context.Background(), g.branches[0].Dir); err != nil { // so that it is not kept
				t.Fatal(err)
			}
			remove(t, g)
			for _, dir := range dirsOf(g) {
				if _, err := os.Stat(dir); err == nil {
					t.Errorf("%s is left", dir)
				}
			}
		}
	})
	t.Run("much is still charged to it", func(t *testing.T) {
		tree := openV1(t)
		file := filepath.Join("/dev/shm", "fumehood-test-"+strconv.Itoa(os.Getpid()))
		t.Cleanup(func() { os.Remove(file) })
		g := create(t, tree, "charged", limits)
		inside(t, g, "head -c 8000000 /dev/zero > "+file)
		if u := g.Usage(); u.MemoryNow < maxLeftover {
			t.Skipf("/dev/shm charges nothing here: %+v", u)
		}
		remove(t, g)
		if kept := idleNow(tree); len(kept) != 0 {
			t.Errorf("kept: %v", kept)
		}
	})
	t.Run("somebody is in it", func(t *testing.T) {
		tree := openV1(t)
		g := create(t, tree, "busy", limits)
		sleeper := enter(t, g)
		brief, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		if err := g.Remove(brief); err == nil || len(idleNow(tree)) != 0 {
			t.Errorf("%v; kept: %v", err, idleNow(tree))
		}
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
		remove(t, g)
	})
	t.Run("enough are kept", func(t *testing.T) {
		tree := openV1(t)
		var all []*Group
		for i := range maxIdle + 4 {
			all = append(all, create(t, tree, "g"+strconv.Itoa(i), limits))
		}
		for _, g := range all {
			remove(t, g)
		}
		if kept := idleNow(tree); len(kept) != maxIdle {
			t.Errorf("%d are kept", len(kept))
		}
	})
	t.Run("the name is taken", func(t *testing.T) {
		tree := openV1(t)
		remove(t, create(t, tree, "first", limits))
		last := filepath.Join(tree.branches[len(tree.branches)-1].Dir, "taken")
		if err := os.MkdirAll(filepath.Join(last, "below"), 0o755); err != nil {
			t.Fatal(err)
		}
		if g, err := tree.Create("taken", limits); err == nil {
			t.Errorf("got %v", dirsOf(g))
		}
		_ = os.Remove(filepath.Join(last, "below"))
		_ = os.Remove(last)
		for _, b := range tree.branches {
			left, _ := filepath.Glob(filepath.Join(b.Dir, "*", "tasks"))
			if len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		}
	})
}

// TestIdleGroupsOfTheDead: clean-up after a killed process removes its idle groups, and one that was being renamed for
// a sandbox.
func TestIdleGroupsOfTheDead(t *testing.T) {
	tree := openV1(t)
	limits := Limits{MemoryBytes: 64 << 20, CPUMillis: 1000, Pids: 20}
	one, two := create(t, tree, "one", limits), create(t, tree, "two", limits)
	remove(t, one)
	remove(t, two)
	half := tree.idle.groups[0]
	half.branches = append([]branch(nil), half.branches[:1]...)
	if err := half.rename("half"); err != nil { // the rest keeps its idle name
		t.Fatal(err)
	}
	tree.idle.groups = nil // as after a crash: nobody knows of them
	found := Find(tree.Dirs(), "half")
	if len(found.branches) != 1 {
		t.Errorf("found %v", dirsOf(found))
	}
	remove(t, found)
	for _, dir := range tree.Dirs() {
		RemoveTree(dir)
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}

// TestUnlimitedNotUsedAgain: a group whose limits could not be set is removed, not kept for the next sandbox.
func TestUnlimitedNotUsedAgain(t *testing.T) {
	tree := openV1(t)
	all := tree.branches
	t.Cleanup(func() { tree.branches = all })
	last := slices.IndexFunc(all, func(b branch) bool { return b.has(CPU) })
	tree.branches = all[:last+1] // as where cpu and cpuacct are mounted together
	impossible := Limits{MemoryBytes: 64 << 20, CPUMillis: 1 << 46, Pids: 20}
	for range 2 {
		if g, err := tree.Create("first", impossible); err == nil {
			remove(t, g)
			t.Fatal("the group has no CPU limit")
		}
	}
	if kept := idleNow(tree); len(kept) != 0 {
		t.Errorf("kept: %v", kept)
	}
}

// openIn lists the descriptors of this process for files below a folder.
func openIn(dir string) (found []string) {
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if file, err := os.Readlink(fd); err == nil && strings.HasPrefix(file, dir+"/") {
			found = append(found, file)
		}
	}
	return found
}

// TestKeptFiles: the files of counters stay open between readings, and no longer than the sandbox.
func TestKeptFiles(t *testing.T) {
	tree := openV1(t)
	open := func() (all []string) {
		for _, dir := range tree.Dirs() {
			all = append(all, openIn(dir)...)
		}
		return all
	}
	limits := Limits{MemoryBytes: 64 << 20, CPUMillis: 1000, Pids: 20}
	g := create(t, tree, "kept", limits)
	g.Usage()
	first := open()
	if len(first) == 0 {
		t.Fatal("no file is kept open")
	}
	inside(t, g, "i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done")
	if u := g.Usage(); u.CPU <= 0 || len(open()) != len(first) {
		t.Errorf("the second reading: %+v, %d files open, not %d", u, len(open()), len(first))
	}
	remove(t, g)
	if left := open(); len(left) > 0 {
		t.Errorf("open without a sandbox: %v", left)
	}
	next := create(t, tree, "next", limits)
	if u := next.Usage(); u.CPU != 0 || len(open()) != len(first) {
		t.Errorf("the next sandbox begins with %+v, %d files open, not %d", u, len(open()), len(first))
	}
	next.CloseFiles()
	if left := open(); len(left) > 0 {
		t.Errorf("open after CloseFiles: %v", left)
	}
	if u := next.Usage(); u.MemoryNow < 0 || u.CPU < 0 {
		t.Errorf("a reading after CloseFiles: %+v", u)
	}
	if err := next.Resize(Limits{MemoryBytes: 32 << 20}); err != nil {
		t.Fatal(err)
	}
	remove(t, next)
	if u := next.Usage(); len(open()) > 0 || u.MemoryNow >= 0 {
		t.Errorf("after Remove: %v are open, usage %+v", open(), u)
	}
	remove(t, create(t, tree, "last", limits))
	tree.DropIdle()
	if left := open(); len(left) > 0 {
		t.Errorf("open after DropIdle: %v", left)
	}
}
