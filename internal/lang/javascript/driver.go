package javascript

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/sandbox"
)

var (
	//go:embed driver.js
	driverCore string
	//go:embed aside.js
	driverAside string
	//go:embed calls.js
	driverCalls string
	//go:embed rewrite.js
	driverRewrite string
	//go:embed state.js
	driverState string
	//go:embed traces.js
	driverTraces string
	//go:embed values.js
	driverValues string
)

// driverSource is the driver with its parts inserted.
var driverSource = sync.OnceValue(func() string {
	return strings.NewReplacer("/* aside.js */", driverAside, "/* calls.js */", driverCalls,
		"/* rewrite.js */", driverRewrite, "/* state.js */", driverState,
		"/* traces.js */", driverTraces,
		"/* values.js */", driverValues).Replace(driverCore)
})

// driver passes its source as one argument, which has at most 128 KiB (MAX_ARG_STRLEN in execve(2)).
var driver = &sandbox.Driver{
	Calls: true,
	State: true,
	Argv: func(program string) []string {
		// Interrupting code makes Node's record of asynchronous calls inconsistent. With the checks, Node would abort.
		return []string{program, "--no-force-async-hooks-checks", "-e", driverSource()}
	},
}
