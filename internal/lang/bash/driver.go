package bash

import (
	_ "embed"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// driverFunctions is the driver but for its loop.
//
//go:embed driver.sh
var driverFunctions string

// driverLoop runs the code at the top level, not in a function, where declare would make local variables. Its eval is on the first line, so
// that the lines of the code count from 1. The inner loop stops a break of the code; a "break 9" leaves all three, and exit then starts
// anew. Steps of the driver run without stderr, or set -x of the code would show them.
const driverLoop = `{ builtin eval "$1"; __glovebox_source=$1; shift; __glovebox_start "$@"; builtin eval "$__glovebox_state"; ` +
	`__glovebox_ready; } 2>/dev/null; while [[ 1 ]]; do while { __glovebox_next; } 2>/dev/null; do ` +
	`for __glovebox_once in 1; do builtin eval "$__glovebox_code"; done; { __glovebox_status=$?; builtin eval "$__glovebox_check"; ` +
	`__glovebox_done "$__glovebox_status"; } 2>/dev/null; done; done; builtin exit`

// driverCheck looks for a syntax error after a run that ended with 2: it is one again where the code is only read, as the body of a
// function.
const driverCheck = `[[ $__glovebox_status != 2 ]] || ` +
	`__glovebox_message=$(builtin eval "__glovebox_body() { $__glovebox_code"$'\n}' 2>&1) || [[ 1 ]]`

// driver is sandbox.Language.Driver. Its source travels as arguments; one may have 128 KiB (MAX_ARG_STRLEN in execve(2)).
var driver = &sandbox.Driver{
	Argv: func(program string) []string {
		return []string{program, "-c", driverLoop, "bash", driverFunctions, driverCheck}
	},
}
