package native

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// hostNumbers are host settings that may let one sandbox exhaust a resource of the whole host, despite its limits.
type hostNumbers struct {
	files      int64 // fs.file-max: open files of the whole host
	overcommit int64 // vm.overcommit_memory: with 2, reserved memory counts against the host's even if never touched
}

func readHostNumbers() hostNumbers {
	return hostNumbers{files: setting("fs/file-max"), overcommit: setting("vm/overcommit_memory")}
}

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

// enoughFiles is the default limit of eight sandboxes.
var enoughFiles = 8 * sandbox.DefaultLimits.Pids * sandbox.DefaultLimits.OpenFiles

// hostWall reports whether the host's numbers hold against a sandbox.
func hostWall(n hostNumbers) sandbox.Wall {
	w := sandbox.Wall{Name: "host settings", State: sandbox.WallEnforced,
		Detail: "open files and reserved memory are not scarce"}
	var details, fixes []string
	if n.files >= 0 && n.files < enoughFiles {
		details = append(details, fmt.Sprintf("the whole host may have %d open files (fs.file-max), and one sandbox %d",
			n.files, sandbox.DefaultLimits.Pids*sandbox.DefaultLimits.OpenFiles))
		fixes = append(fixes, "sysctl -w fs.file-max=9223372036854775807")
	}
	if n.overcommit == 2 {
		details = append(details, "code can reserve all memory of the host (vm.overcommit_memory=2)")
		fixes = append(fixes, "sysctl -w vm.overcommit_memory=0")
	}
	if len(details) > 0 {
		w.State, w.Detail, w.Fix = sandbox.WallPartial, strings.Join(details, "; "), strings.Join(fixes, "; ")
	}
	return w
}
