// Package sandbox holds the nouns and the contracts of Glovebox.
//
// It imports the standard library only, does no I/O and starts no goroutine, so every other package may import it.
//
// The words, each with one meaning:
//
//   - A sandbox is one isolated, machine-like place: a root file system, a workspace, limits, a network policy, a lifetime.
//   - A Spec is all that is asked of a sandbox before it exists; a plain value.
//   - A Backend builds the walls of sandboxes; a Box is what it hands back for one of them.
//   - The guest is the small trusted program that is pid 1 in every sandbox.
//   - A Language is a value that says how source text is run.
//   - An execution is one run of a command or of code in a sandbox. It ends in exactly one Status.
//   - A Policy is what a sandbox may do: as asked (requested), and as really enforced (effective).
//   - A Posture is the record of which walls stand on this host, and why.
//
// What the program did is a Status; what Glovebox failed at is an *Error. A crash of user code is a good answer.
package sandbox
