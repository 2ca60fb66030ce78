// Package plan works out what a request comes to: checks, defaults, paths, environment, patterns, language. It does no I/O and asks no
// backend, so the same request always gives the same plan.
//
// A sandbox and an execution are planned apart: Rules.Box completes a sandbox's spec once, Rules.Execution plans each execution in it.
package plan
