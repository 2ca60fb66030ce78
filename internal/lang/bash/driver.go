package bash

import (
	_ "embed"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// driverFunctions is the driver without its loop.
//
//go:embed driver.sh
var driverFunctions string

// driverLoop runs the code at the top level. In a function, declare would create local variables. Its eval is on the
// first line, so that the lines of the code count from 1. The inner loop stops a break of the code. A "break 9" leaves
// all three, and exit then restarts the driver. Steps of the driver run without stderr. Otherwise set -x of the code
// would print them.
const driverLoop = `{ builtin eval "$1"; __fumehood_source=$1; shift; __fumehood_start "$@"; ` +
	`builtin eval "$__fumehood_state"; __fumehood_ready; } 2>/dev/null; while [[ 1 ]]; do ` +
	`while { __fumehood_next && __fumehood_enter; } 2>/dev/null; do ` +
	`for __fumehood_once in 1; do builtin eval "$__fumehood_code"; done; { __fumehood_status=$?; ` +
	`builtin eval "$__fumehood_check"; ` +
	`__fumehood_done "$__fumehood_status"; } 2>/dev/null; done; done; builtin exit`

// driverCheck detects a syntax error after a run that ended with 2: the error recurs when the code is only read, as the
// body of a function.
const driverCheck = `[[ $__fumehood_status != 2 ]] || ` +
	`__fumehood_message=$(builtin eval "__fumehood_body() { $__fumehood_code"$'\n}' 2>&1) || [[ 1 ]]`

// driver passes its source as arguments, of which each has at most 128 KiB (MAX_ARG_STRLEN in execve(2)).
var driver = &sandbox.Driver{
	Argv: func(program string) []string {
		return []string{program, "-c", driverLoop, "bash", driverFunctions, driverCheck}
	},
}
