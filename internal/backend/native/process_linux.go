package native

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// guestName is argv[0] of every guest; its ID follows as argv[1], so that a guest can be found without any record.
const guestName = "glovebox-guest"

// guestsOf finds the guests of a sandbox by their command line, and by being the first process of a pid namespace, which code in a
// sandbox can imitate neither for another sandbox nor for its own.
func guestsOf(id sandbox.ID) []int {
	want := []byte(guestName + "\x00" + string(id) + "\x00")
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil || pid <= 1 {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", n.Name(), "cmdline"))
		if err == nil && bytes.Equal(line, want) && isInit(n.Name()) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isInit says whether a process is pid 1 of its own namespace (NSpid in proc_pid_status(5): its ids from the outermost on).
func isInit(pid string) bool {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			ids := strings.Fields(rest)
			return len(ids) > 1 && ids[len(ids)-1] == "1"
		}
	}
	return false
}
