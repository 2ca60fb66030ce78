package javascript

import (
	_ "embed"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

var (
	//go:embed driver.js
	driverCore string
	//go:embed rewrite.js
	driverRewrite string
	//go:embed traces.js
	driverTraces string
	//go:embed values.js
	driverValues string
)

// driverSource is the driver with its parts in their places.
var driverSource = strings.NewReplacer("/* rewrite.js */", driverRewrite, "/* traces.js */", driverTraces, "/* values.js */", driverValues).Replace(driverCore)

// driver is sandbox.Language.Driver. Its source travels as one argument, which may have 128 KiB (MAX_ARG_STRLEN in execve(2)).
var driver = &sandbox.Driver{
	Argv: func(program string) []string {
		// The end of code that was interrupted leaves Node's record of asynchronous calls inconsistent, and Node would abort on that.
		return []string{program, "--no-force-async-hooks-checks", "-e", driverSource}
	},
}
