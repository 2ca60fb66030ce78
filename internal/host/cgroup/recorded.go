//go:build linux

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Recorded returns the existing folders of a record. The caller kills their processes and removes them, so each must be
// a control group with a tree's name, reached without links. Nobody can put a link or an imitation into the kernel's
// own file systems.
func Recorded(dirs []string, isTree func(name string) bool) ([]string, error) {
	var there []string
	for _, dir := range dirs {
		if !isTree(filepath.Base(dir)) {
			return nil, fmt.Errorf("%s does not have the name of a control group folder", dir)
		}
		switch err := checkGroup(dir); {
		case err == nil:
			there = append(there, dir)
		case !errors.Is(err, unix.ENOENT):
			return nil, err
		}
	}
	return there, nil
}

func checkGroup(dir string) error {
	fd, err := openFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	switch {
	case err != nil:
		return err
	case fs.Type != unix.CGROUP_SUPER_MAGIC && fs.Type != unix.CGROUP2_SUPER_MAGIC:
		return fmt.Errorf("%s is not a control group", dir)
	case real == dir+" (deleted)": // since it was opened (proc_pid_fd(5))
		return unix.ENOENT
	case real != dir:
		return fmt.Errorf("%s leads to %s", dir, real)
	}
	return nil
}
