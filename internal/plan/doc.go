// Package plan turns a request into a complete plan: checks, defaults, paths, environment, patterns, language. It does
// no I/O and asks no backend, so the same request always gives the same plan.
//
// A sandbox and a run are planned apart: Rules.Box completes a sandbox's spec once, Rules.Run plans each run in it.
package plan
