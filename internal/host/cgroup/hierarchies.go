//go:build linux

package cgroup

import (
	"os"
	"path/filepath"
	"strings"
)

// hierarchies holds the absolute folders of this process's own groups, in each mounted hierarchy.
type hierarchies struct {
	v1   map[Controller]string
	v2   string // "" if not mounted
	root string // of the v2 mount
}

// readHierarchies combines the mounts (mountinfo: proc(5)) with this process's groups (cgroup: cgroups(7)).
func readHierarchies(mountinfo, cgroups string) (hierarchies, error) {
	h := hierarchies{v1: map[Controller]string{}}
	own, err := readOwn(cgroups)
	if err != nil {
		return h, err
	}
	text, err := os.ReadFile(mountinfo)
	if err != nil {
		return h, err
	}
	for line := range strings.Lines(string(text)) {
		before, after, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 6 || len(rest) < 3 {
			continue
		}
		mountRoot, mountPoint := unescape(fields[3]), unescape(fields[4])
		switch rest[0] {
		case "cgroup2":
			if path, ok := own[""]; ok && h.v2 == "" {
				h.v2, h.root = below(mountRoot, mountPoint, path), mountPoint
			}
		case "cgroup":
			for _, option := range strings.Split(rest[2], ",") {
				if path, ok := own[option]; ok && h.v1[Controller(option)] == "" {
					h.v1[Controller(option)] = below(mountRoot, mountPoint, path)
				}
			}
		}
	}
	return h, nil
}

// readOwn maps each v1 controller, and "" for v2, to the path of this process's group.
func readOwn(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, c := range strings.Split(parts[1], ",") {
			own[c] = parts[2]
		}
	}
	return own, nil
}

// below returns a group's folder under a mount that shows the hierarchy below root. For a path outside of root it
// returns the mount point, as in a container without a cgroup namespace.
func below(root, point, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return point
	}
	return filepath.Join(point, rel)
}

func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
