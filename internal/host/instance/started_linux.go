package instance

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// canReadStart says whether startOf works here.
const canReadStart = true

// startOf is when a process started, in ticks since boot, or "" if there is no such process. It is field 22 of
// proc_pid_stat(5), counted from the last parenthesis, as the name before it may contain anything.
func startOf(pid int) string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const state, start = 0, 19 // counted from the field after the name
	if len(fields) <= start || fields[state] == "Z" {
		return ""
	}
	return fields[start]
}
