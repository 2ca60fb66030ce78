// Package engine admits, creates, runs in and closes sandboxes.
//
// It knows no backend, language or API by name; it gets them as values. Output arrives through the request's
// OutputFunc, and a sandbox.Result at the end. A failed program is a status of that result. An error means that
// Fumehood failed or refused the request, and nothing ran.
//
// There is one kind of sandbox (Sandbox) and one kind of run (Run). A one-shot run creates a sandbox, runs in it and
// closes it, by the code of living ones, but writes no log and no record.
//
// # Phases of a run
//
//   - Plan: check the request and fill in defaults. Nothing is clamped.
//   - Admit: take a slot, or a place in a limited queue, or fail as Busy.
//   - Create: for a one-shot run, take a warm box or have the backend build one.
//   - Upload: send files and code, in one call if possible.
//   - Run: start a process, or pass the code to the interpreter of a context, and stream output up to its limit.
//   - Collect: fetch changed files.
//   - Close: after the answer to a one-shot run, one of a limited number of closers removes the box.
//
// # Ends
//
// A run ends in exactly one status. The process, its deadline, the caller, the output limit and the loss of the guest
// may all end it at once: the first claims the verdict.
//
// # Time limit
//
// These enforce the time limit of a run:
//
//   - The guest kills a process at its deadline, by its own clock (Start and Adopt of package guest).
//   - The host ends a process that the guest has not ended hostGrace later (Run.runProcess).
//   - The host interrupts code in a context, and kills its interpreter if it does not stop (Run.follow, Run.interrupt).
//   - A compiler has its own time limit, before that of the program begins (Run.compile).
package engine
