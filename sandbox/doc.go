// Package sandbox defines the terms and contracts of Fumehood.
//
// It imports only the standard library, does no I/O and starts no goroutines, so every other package may import it.
//
// The terms:
//
//   - A sandbox is an isolated, machine-like place: a root file system, a workspace, limits, a policy, a lifetime.
//   - A Spec is everything requested of a sandbox before it exists; a plain value.
//   - A Backend isolates sandboxes; it returns a Box for each of them.
//   - The guest is the small trusted program that is pid 1 in every sandbox.
//   - A Language is a value that describes how source text is run.
//   - A run is one execution of a command or of code in a sandbox. It ends in exactly one Status.
//   - A Policy is what a sandbox may do: as requested, and as enforced (effective).
//   - A Posture records which isolation layers are available on this host, and why.
//
// What the program did is a Status; a failure of Fumehood is an *Error. A crash of user code is a normal result.
package sandbox
