package native

import (
	"slices"

	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// guestName is argv[0] of every guest. Its ID follows as argv[1], so a guest can be found without a record.
const guestName = "fumehood-guest"

// guestsOf finds a sandbox's guests: they have its command line and are the first process of a pid namespace. Sandboxed
// code can imitate neither.
func guestsOf(id sandbox.ID) []int {
	return slices.DeleteFunc(pidfd.Find(func(argv []string) bool {
		return slices.Equal(argv,
			[]string{guestName, string(id)})
	}),
		func(pid int) bool { return !isInit(pid) })
}

// isInit reports whether a process is pid 1 of its own namespace (NSpid: its ids from the outermost on).
func isInit(pid int) bool {
	ids := pidfd.Status(pid, "NSpid:")
	return len(ids) > 1 && ids[len(ids)-1] == "1"
}
