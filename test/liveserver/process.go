package liveserver

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in /proc/PID/stat: USER_HZ is 100 on every architecture that Go supports (proc(5)).
const clockTick = 10 * time.Millisecond

// Memory is a process's memory, in bytes.
type Memory struct {
	RSS, Peak, Private int64
}

// ReadMemory reads a process's memory. Private is the memory that its end would free; 0 if unknown.
func ReadMemory(pid int) (Memory, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	m := Memory{RSS: kibField(status, "VmRSS:"), Peak: kibField(status, "VmHWM:")}
	if rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)); err == nil {
		m.Private = kibField(rollup, "Private_Clean:") + kibField(rollup, "Private_Dirty:")
	}
	return m, nil
}

func kibField(text []byte, name string) int64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			n, _ := strconv.ParseInt(strings.Fields(string(rest))[0], 10, 64)
			return n << 10
		}
	}
	return 0
}

// ResetPeak resets a process's peak memory to the current value (proc(5), clear_refs).
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// CPU returns the CPU time of a process and its awaited children, in ticks of 10 ms.
func CPU(pid int) (time.Duration, error) {
	fields, err := stat(pid)
	if err != nil {
		return 0, err
	}
	var ticks int64
	for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime: fields 14 to 17 of proc(5)
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// StartTime returns a value that distinguishes processes with the same id.
func StartTime(pid int) (string, error) {
	fields, err := stat(pid)
	if err != nil {
		return "", err
	}
	return fields[19], nil
}

// stat returns the fields of /proc/PID/stat after the second, a name that may contain blanks and parentheses.
func stat(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// Parent returns a process's parent, or 0 if the process has ended.
func Parent(pid int) int {
	fields, err := stat(pid)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(fields[1])
	return n
}

// Children returns the direct children of a process.
func Children(pid int) []int {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	var pids []int
	for _, t := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(text)) {
			n, _ := strconv.Atoi(f)
			pids = append(pids, n)
		}
	}
	return pids
}

// zygote is the command line of a server's zygote, which is no sandbox. A zombie has an empty command line.
const zygote = "python3\x00-u\x00/workspace/main.py\x00"

// Sandboxes returns a server's direct children, except its zygote.
func Sandboxes(pid int) []int {
	return slices.DeleteFunc(Children(pid), func(child int) bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		return err == nil && string(line) == zygote
	})
}

// Descriptors returns the number of a process's open descriptors.
func Descriptors(pid int) (int, error) {
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(names), err
}
