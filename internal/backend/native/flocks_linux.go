package native

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// checkedFiles is the number of open files of a sandbox in which locks are searched; of more, every nth is.
const checkedFiles = 4096

// punishFlocks kills the code of sandboxes with too many locks of whole files (flock(2)), of which all may have room.
func punishFlocks(boxes []*Box, room int, stop <-chan struct{}) {
	counts := map[*Box]int{}
	for _, box := range boxes {
		if isClosed(stop) {
			return
		}
		kin := newKinship(box.Process.PID)
		code := slices.DeleteFunc(mayBelongTo(box), func(pid int) bool { return kin.guestOf(pid) != box.Process.PID })
		counts[box] = countFlocks(code)
	}
	for _, box := range overShare(counts, room) {
		killBelow(box)
	}
}

// countFlocks counts the locks of whole files that processes have, up to more than mostLocks. It reads their open
// files: /proc/locks names the process that took such a lock, which may have ended, since descriptors that were
// inherited or passed keep it.
func countFlocks(pids []int) int {
	files := 0
	visit(pids, func(string) { files++ })
	step, part := files/checkedFiles+1, 1
	if step > 1 {
		part = 2 // an estimate may be too high
	}
	locks, n := 0, 0
	visit(pids, func(file string) {
		if n++; n%step == 0 && locks*step <= mostLocks*part {
			locks += flocksOf(file)
		}
	})
	return locks * step / part
}

// visit calls do with the path of the file that describes each descriptor of processes (proc_pid_fdinfo(5)).
func visit(pids []int, do func(file string)) {
	for _, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid), "fdinfo")
		f, err := os.Open(dir)
		for err == nil {
			var names []string
			names, err = f.Readdirnames(1024) // the error is io.EOF, or the process has ended
			for _, name := range names {
				do(dir + "/" + name)
			}
		}
		f.Close()
	}
}

// flocksOf counts the locks of a descriptor: 1, or those that descriptors in a socket's queue may have.
func flocksOf(file string) (locks int) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0 // it was closed
	}
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case string(name) == "lock" && bytes.Contains(value, []byte("FLOCK")):
			locks++
		case string(name) == "scm_fds": // Linux 5.4
			n, _ := strconv.Atoi(string(bytes.TrimSpace(value)))
			locks += n
		}
	}
	return locks
}
