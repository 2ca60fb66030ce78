package instance

import "github.com/fumehood-dev/fumehood/internal/host/pidfd"

// canReadStart reports whether startOf works here.
const canReadStart = true

// startOf returns when a process started, in ticks since boot (field 22 of proc_pid_stat(5)), or "" if there is none.
func startOf(pid int) string {
	const state, start = 0, 19
	fields := pidfd.Stat(pid)
	if len(fields) <= start || fields[state] == "Z" {
		return ""
	}
	return fields[start]
}
