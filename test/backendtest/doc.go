// Package backendtest is the conformance suite that every backend runs, and a backend of plain processes for tests.
//
// Run tests the contract of sandbox.Backend and what is built on it; every backend passes it, Fake too. Walls tests what
// only real isolation provides: limits, and ends caused by the kernel. Each case names its rule.
package backendtest
