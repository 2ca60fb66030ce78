package javascript

import (
	_ "embed"
	"strings"

	"github.com/glovebox-dev/glovebox/sandbox"
)

var (
	//go:embed driver.js
	driverCore string
	//go:embed rewrite.js
	driverRewrite string
)

// driver is sandbox.Language.Driver. Its source travels as one argument, which may have 128 KiB (MAX_ARG_STRLEN in execve(2)).
var driver = &sandbox.Driver{
	Argv: func(program string) []string {
		source := strings.Replace(driverCore, "/* rewrite.js */", driverRewrite, 1)
		// The end of code that was interrupted leaves Node's record of asynchronous calls inconsistent, and Node would abort on that.
		return []string{program, "--no-force-async-hooks-checks", "-e", source}
	},
}
