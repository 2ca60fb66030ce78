package instance

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tellsStarts says whether startOf tells anything here.
const tellsStarts = true

// startOf is when a process was started, in ticks since the boot, or "" where there is no such process (field 22 of
// proc_pid_stat(5); the name before it may hold anything, so it is counted from the last parenthesis).
func startOf(pid int) string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const state, start = 0, 19 // counted from the field behind the name
	if len(fields) <= start || fields[state] == "Z" {
		return ""
	}
	return fields[start]
}
