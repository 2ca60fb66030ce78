//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAround: a lower limit of a parent group counts, on either hierarchy; "max" is unlimited.
func TestAround(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"v2/memory.max":                  "1000\n",
		"v2/a/memory.max":                "max\n",
		"v2/a/b/memory.max":              "3000\n",
		"v2/a/cpu.max":                   "150000 100000\n",
		"v2/a/b/cpu.max":                 "max 100000\n",
		"memory/a/memory.limit_in_bytes": "2000\n",
		"pids/pids.max":                  "max\n",
		"pids/a/pids.max":                "77\n",
		"cpu/cpu.cfs_quota_us":           "-1\n",
		"cpu/cpu.cfs_period_us":          "100000\n",
		"memory/memory.limit_in_bytes":   "9223372036854771712\n",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o700); err != nil {
			t.Fatal(err)
		}
		procs := filepath.Join(root, filepath.Dir(file), "cgroup.procs") // each group has it, and no other folder
		if err := os.WriteFile(procs, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v1 := map[Controller]string{Memory: root + "/memory/a", Pids: root + "/pids/a", CPU: root + "/cpu"}
	if got, want := (hierarchies{v1: v1}).around(), (Limits{MemoryBytes: 2000, Pids: 77}); got != want {
		t.Errorf("v1: %+v, want %+v", got, want)
	}
	if got, want := (hierarchies{v2: root + "/v2/a/b"}).around(), (Limits{MemoryBytes: 1000,
		CPUMillis: 1500}); got != want {
		t.Errorf("v2: %+v, want %+v", got, want)
	}
}

// TestBoundPids: the groups of a tree leave processes to this one, which is in a group above or beside them.
func TestBoundPids(t *testing.T) {
	root := t.TempDir()
	tree := filepath.Join(root, "above", "tree")
	if err := os.MkdirAll(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"above/cgroup.procs": "", "above/pids.max": "8000\n",
		"above/tree/pids.max": "max\n"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	branches := []branch{{Dir: filepath.Join(root, "cpu"), Controllers: []Controller{CPU}},
		{Dir: tree, Controllers: []Controller{Pids}}}
	for most, want := range map[int64]int64{0: 3000, 6400: 2400, 80_000: 3000} {
		err := (&Tree{branches: branches}).boundPids(most)
		if got := readNumber(tree, "pids.max"); err != nil || got != want {
			t.Errorf("of %d on the host: %d, %v, want %d", most, got, err, want)
		}
	}
}
