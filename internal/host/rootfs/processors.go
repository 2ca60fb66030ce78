package rootfs

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const processorsDir = "/sys/devices/system/cpu"

// hostProcessors returns the names of the host's processors: cpu0 and so on.
var hostProcessors = sync.OnceValue(func() []string {
	found, _ := filepath.Glob(processorsDir + "/cpu[0-9]*")
	if len(found) == 0 { // the host has no sysfs
		for i := range runtime.NumCPU() {
			found = append(found, fmt.Sprintf("%s/cpu%d", processorsDir, i))
		}
	}
	return found
})

// onlineFile lists the processors that are online.
const onlineFile = "sys/devices/system/cpu/online"

// online returns the step that makes a file with the Processors of a sandbox.
func online(l sandbox.Limits, target string) confine.Step {
	all := "0\n"
	if n := Processors(l); n > 1 {
		all = fmt.Sprintf("0-%d\n", n-1)
	}
	return confine.Step{Do: confine.File, Target: target, Source: all, Mode: 0o444}
}

// CoverProcessors adds to the steps of Writable those that cover onlineFile, for a kernel with its own /sys.
func CoverProcessors(writable []confine.Step, l sandbox.Limits) []confine.Step {
	file := online(l, diskDir+"/online")
	return slices.Insert(writable, len(writable)-1, file,
		confine.Step{Do: confine.Inner, Target: onlineFile, Source: file.Target})
}

// Processors returns the number of processors that a sandbox shows as online: those of its limit, at most the host's.
func Processors(l sandbox.Limits) int { return int(min(l.CPUs(), int64(len(hostProcessors())))) }

// ShowProcessors returns the steps that show the Processors of a sandbox as online. The C library counts them there
// (get_nprocs(3)), for os.cpu_count() of Python and others. All processors of the host stay configured, as programs
// size tables by their number.
func ShowProcessors(l sandbox.Limits) []confine.Step {
	steps := []confine.Step{{Do: confine.Dir, Target: processorsDir[1:], Mode: 0o755}, online(l, onlineFile)}
	for _, name := range hostProcessors() {
		steps = append(steps, confine.Step{Do: confine.Dir, Target: strings.TrimPrefix(name, "/"), Mode: 0o755})
	}
	return steps
}
