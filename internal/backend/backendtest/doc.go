// Package backendtest is the conformance suite that every backend calls, and a backend of plain processes for tests.
//
// Run guards the contract of sandbox.Backend and what is built on it; any backend passes it, Fake too. Walls guards what only
// real walls can give: limits, and ends that the kernel brings about. Each case says which rule it guards.
package backendtest
