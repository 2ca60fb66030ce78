package native

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// hostNumbers are settings of the host that let one sandbox use up what all of the host shares, and no limit of a sandbox stops it.
type hostNumbers struct {
	files      int64 // fs.file-max: open files of the whole host
	overcommit int64 // vm.overcommit_memory: with 2, memory that is asked for and never touched counts against the host's
}

func readHostNumbers() hostNumbers {
	return hostNumbers{files: setting("fs/file-max"), overcommit: setting("vm/overcommit_memory")}
}

// setting reads a sysctl; -1 is unknown.
func setting(name string) int64 {
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// enoughFiles is for eight sandboxes that open all they may by default.
var enoughFiles = 8 * sandbox.DefaultLimits.Pids * sandbox.DefaultLimits.OpenFiles

// hostWall reports whether the host's numbers hold against a sandbox.
func hostWall(n hostNumbers) sandbox.Wall {
	w := sandbox.Wall{Name: "host settings", State: sandbox.WallEnforced, Detail: "open files and promised memory are not scarce"}
	var details, fixes []string
	if n.files >= 0 && n.files < enoughFiles {
		details = append(details, fmt.Sprintf("the whole host has %d open files (fs.file-max), of which a sandbox may take %d",
			n.files, sandbox.DefaultLimits.Pids*sandbox.DefaultLimits.OpenFiles))
		fixes = append(fixes, "sysctl -w fs.file-max=9223372036854775807")
	}
	if n.overcommit == 2 {
		details = append(details, "code can reserve all memory that the host may promise (vm.overcommit_memory=2)")
		fixes = append(fixes, "sysctl -w vm.overcommit_memory=0")
	}
	if len(details) > 0 {
		w.State, w.Detail, w.Fix = sandbox.WallPartial, strings.Join(details, "; "), strings.Join(fixes, "; ")
	}
	return w
}
