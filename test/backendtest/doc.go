// Package backendtest is the conformance suite that every backend runs, and a backend of plain processes for tests.
//
// Run tests the contract of sandbox.Backend and runs of the engine on it. Every backend passes it, Fake too. Walls
// tests the limits and the ends by the kernel that only real isolation provides. Each case names its rule.
package backendtest
