//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRecorded: only existing control groups with a tree's name are accepted from a record.
func TestRecorded(t *testing.T) {
	tree := open(t)
	group := tree.Dirs()[0]
	name := filepath.Base(group)
	elsewhere := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	link, above := filepath.Join(t.TempDir(), name), filepath.Join(t.TempDir(), "above")
	for from, to := range map[string]string{link: group, above: filepath.Dir(group)} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	gone := filepath.Join(filepath.Dir(group), "gone", name)
	isTree := func(base string) bool { return base == name }
	if there, err := Recorded([]string{gone, group}, isTree); err != nil || len(there) != 1 || there[0] != group {
		t.Errorf("got %v, %v", there, err)
	}
	for what, dir := range map[string]string{"another group": filepath.Dir(group), "a folder": elsewhere,
		"a link":             link,
		"a path with a link": filepath.Join(above, filepath.Base(group)), "a path that goes up": group + "/../" +
			filepath.Base(group)} {
		if there, err := Recorded([]string{group, dir}, isTree); err == nil {
			t.Errorf("%s is believed: %v", what, there)
		}
	}
}
