package liveserver

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// DefaultRunDir is the folder of live state of a server started by root.
const DefaultRunDir = "/run/fumehood"

// Instance is a server's state on the host.
type Instance struct {
	Name   string
	Dir    string   // the locked folder
	Groups []string // control group folders, which contain those of sandboxes
}

// Boxes returns the folder names of the current sandboxes.
func (in Instance) Boxes() []string {
	entries, _ := os.ReadDir(filepath.Join(in.Dir, "boxes"))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// SandboxGroups returns the control groups of the current sandboxes in all hierarchies, without idle groups.
func (in Instance) SandboxGroups() []string {
	var found []string
	for _, dir := range in.Groups {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.IsDir() && !strings.HasPrefix(e.Name(), "idle-") {
				found = append(found, filepath.Join(dir, e.Name()))
			}
		}
	}
	return found
}

// Instances returns all instances with a folder below runDir, of any server.
func Instances(runDir string) []Instance {
	entries, _ := os.ReadDir(filepath.Join(runDir, "instances"))
	var all []Instance
	for _, e := range entries {
		in := Instance{Name: e.Name(), Dir: filepath.Join(runDir, "instances", e.Name())}
		var record struct {
			Dirs []string `json:"cgroup_dirs"`
		}
		text, err := os.ReadFile(filepath.Join(in.Dir, "record.json"))
		if err == nil && json.Unmarshal(text, &record) == nil {
			in.Groups = record.Dirs
		}
		all = append(all, in)
	}
	return all
}

// InstanceOf returns the instance whose lock a process holds. A server creates it with its first sandbox.
func InstanceOf(runDir string, pid int) (Instance, error) {
	held, err := flocks(pid)
	if err != nil {
		return Instance{}, err
	}
	for _, in := range Instances(runDir) {
		if inode, err := inodeOf(filepath.Join(in.Dir, "lock")); err == nil && held[inode] {
			return in, nil
		}
	}
	return Instance{}, fmt.Errorf("process %d holds no instance's lock in %s", pid, runDir)
}

// Held reports whether any process holds the instance's lock.
func (in Instance) Held() bool {
	inode, err := inodeOf(filepath.Join(in.Dir, "lock"))
	if err != nil {
		return false
	}
	held, err := flocks(0)
	return err == nil && held[inode]
}

// flocks returns the inodes that a process, or any process if pid is 0, has locked by flock(2). Inodes of different
// file systems can coincide; those of one file system cannot.
func flocks(pid int) (map[uint64]bool, error) {
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil, err
	}
	held := map[uint64]bool{}
	for line := range strings.Lines(string(text)) {
		// 1: FLOCK  ADVISORY  WRITE 708 00:1a:49 0 EOF
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || pid != 0 && f[4] != strconv.Itoa(pid) {
			continue
		}
		parts := strings.Split(f[5], ":")
		if inode, err := strconv.ParseUint(parts[len(parts)-1], 10, 64); err == nil {
			held[inode] = true
		}
	}
	return held, nil
}

func inodeOf(path string) (uint64, error) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}
