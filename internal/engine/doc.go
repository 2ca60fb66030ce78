// Package engine is the one room where live sandboxes are: it admits, creates, executes and ends them.
//
// It knows no backend, no language and no API by name: it is handed them as values. One value goes down, a Run; output comes
// up through the request's OutputFunc, and one value at the end, a sandbox.Result. What the program did is that result's
// status; an error is what Glovebox itself failed at, or a request that cannot be served, and then nothing has run.
//
// # The life of a one-shot run
//
// Resolve: the request is checked and filled with defaults into a plan; nothing is clamped. Admit: a slot is taken, or a place
// in a bounded first-in-first-out queue, or the run is refused as Busy. Create: the backend builds a box. Upload: files and
// code go in by one call where possible. Run: one start message; output streams back through the caps. Collect: the rest of
// the processes are ended and changed files come out. Close: the box is ended off the answer's path, by a bounded number of
// closers that Drain and Close wait for.
//
// # Ends
//
// An execution ends in exactly one status. Several things may want to end it at once: the process, its deadline, the caller,
// the output cap, the loss of the guest. The first that claims the verdict wins, and all others find it taken.
package engine
