package backendtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Readers of /proc on the host, for the posture records. They return nothing for an ended process.

// procNumbers lists the numbers in a folder of /proc: processes, or threads of one.
func procNumbers(dir string) []int {
	entries, _ := os.ReadDir(dir)
	var all []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// procStatus reads the status file of a process or thread.
func procStatus(dir string) map[string]string {
	text, _ := os.ReadFile(dir + "/status")
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		all[name] = strings.Join(strings.Fields(value), " ")
	}
	return all
}

// procNamespaces returns the namespaces of a process by their kinds.
func procNamespaces(pid int) map[string]string {
	dir := fmt.Sprintf("/proc/%d/ns/", pid)
	entries, _ := os.ReadDir(dir)
	all := map[string]string{}
	for _, e := range entries {
		if link, err := os.Readlink(dir + e.Name()); err == nil {
			all[e.Name()] = link
		}
	}
	return all
}

// procLimit returns the soft and the hard value of a line of /proc/PID/limits.
func procLimit(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if f := strings.Fields(rest); len(f) >= 2 {
				return f[0] + " " + f[1]
			}
		}
	}
	return ""
}
