package liveserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTailKeepsTheLast(t *testing.T) {
	var all strings.Builder
	tail := &tail{copy: &all}
	for range 100 {
		if _, err := tail.Write([]byte(strings.Repeat("x", 100))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tail.Write([]byte("end")); err != nil {
		t.Fatal(err)
	}
	if got := tail.text(); len(got) != tailBytes || !strings.HasSuffix(got, "xend") {
		t.Errorf("kept %d bytes", len(got))
	}
	if all.Len() != 100*100+3 {
		t.Errorf("copied %d bytes", all.Len())
	}
}

func TestMetric(t *testing.T) {
	text := []byte("# HELP go_goroutines n\ngo_goroutines_more 7\ngo_goroutines 12\nlabelled{a=\"b\"} 3\n")
	if v, ok := metric(text, "go_goroutines"); !ok || v != 12 {
		t.Errorf("got %v, %v", v, ok)
	}
	if _, ok := metric(text, "labelled"); ok {
		t.Error("found a sample that has labels")
	}
}

func TestProcessFigures(t *testing.T) {
	m, err := ReadMemory(os.Getpid())
	if err != nil || m.RSS < 1<<20 || m.Peak < m.RSS {
		t.Errorf("memory %+v, %v", m, err)
	}
	if n, err := Descriptors(os.Getpid()); err != nil || n < 3 {
		t.Errorf("%d descriptors, %v", n, err)
	}
	child := exec.Command("/bin/sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(Children(os.Getpid()), child.Process.Pid) {
		t.Error("the child is not among the children")
	}
	if p := Parent(child.Process.Pid); p != os.Getpid() {
		t.Errorf("the child's parent is %d", p)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if p := Parent(child.Process.Pid); p != 0 {
		t.Errorf("an ended process has the parent %d", p)
	}
}

func TestCPUCountsChildren(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("/bin/bash", "-c", "i=0; while ((i < 100000)); do ((i++)); done").Run(); err != nil {
		t.Fatal(err)
	}
	after, err := CPU(os.Getpid())
	if err != nil || after-before < 2*clockTick {
		t.Errorf("a busy child cost %v, %v", after-before, err)
	}
	if time.Duration(0) > before {
		t.Error("negative")
	}
}

func TestInstanceOfFindsTheHeldLock(t *testing.T) {
	run := t.TempDir()
	for _, name := range []string{"mine", "free"} {
		dir := filepath.Join(run, "instances", name)
		if err := os.MkdirAll(filepath.Join(dir, "boxes", "b1"), 0o700); err != nil {
			t.Fatal(err)
		}
		record := []byte(`{"cgroup_dirs":["` + dir + `"]}`)
		if err := os.WriteFile(filepath.Join(dir, "record.json"), record, 0o600); err != nil {
			t.Fatal(err)
		}
		lock, err := os.Create(filepath.Join(dir, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
		if name == "mine" {
			if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
		}
	}
	in, err := InstanceOf(run, os.Getpid())
	if err != nil || in.Name != "mine" {
		t.Fatalf("%+v, %v", in, err)
	}
	boxes, groups := in.Boxes(), in.SandboxGroups()
	if !slices.Equal(boxes, []string{"b1"}) || !slices.Equal(groups, []string{filepath.Join(in.Dir, "boxes")}) {
		t.Errorf("boxes %v, groups %v", boxes, groups)
	}
	if _, err := InstanceOf(run, 1); err == nil {
		t.Error("pid 1 has an instance")
	}
}

func TestInterleave(t *testing.T) {
	counts := []int{50, 0, 10}
	order := Interleave(counts, 1)
	seen := make([]int, len(counts))
	for _, i := range order {
		seen[i]++
	}
	if !slices.Equal(seen, counts) {
		t.Errorf("counts are %v", seen)
	}
	if slices.IsSorted(order) {
		t.Error("nothing was shuffled")
	}
	if !slices.Equal(order, Interleave(counts, 1)) {
		t.Error("the same seed gave another order")
	}
	if slices.Equal(order, Interleave(counts, 2)) {
		t.Error("another seed gave the same order")
	}
}
