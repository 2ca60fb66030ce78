package native

import (
	"slices"

	"github.com/glovebox-dev/glovebox/internal/pidfd"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// guestName is argv[0] of every guest; its ID follows as argv[1], so that a guest can be found without any record.
const guestName = "glovebox-guest"

// guestsOf finds the guests of a sandbox by their command line, and by being the first process of a pid namespace, which code in a
// sandbox can imitate neither for another sandbox nor for its own.
func guestsOf(id sandbox.ID) []int {
	return slices.DeleteFunc(pidfd.Find(func(argv []string) bool { return slices.Equal(argv, []string{guestName, string(id)}) }),
		func(pid int) bool { return !isInit(pid) })
}

// isInit says whether a process is pid 1 of its own namespace (NSpid: its ids from the outermost on).
func isInit(pid int) bool {
	ids := pidfd.Status(pid, "NSpid:")
	return len(ids) > 1 && ids[len(ids)-1] == "1"
}
