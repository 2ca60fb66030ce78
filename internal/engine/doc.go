// Package engine admits, creates, executes and closes sandboxes.
//
// It knows no backend, language or API by name; it gets them as values. A caller passes a Run. Output arrives through the request's
// OutputFunc, and a sandbox.Result at the end. A failed program is a status of that result. An error means that Fumehood failed or
// refused the request, and nothing ran.
//
// # Phases of a run
//
//   - Resolve: check the request and fill in defaults. The result is a plan. Nothing is clamped.
//   - Admit: take a slot, or a place in a limited queue, or fail as Busy.
//   - Create: the backend builds a box.
//   - Upload: send files and code, in one call if possible.
//   - Run: send one start message and stream output back, up to its limit.
//   - Collect: end the remaining processes and fetch changed files.
//   - Close: after the answer, one of a limited number of closers removes the box. Drain and Close wait for them.
//
// # Ends
//
// An execution ends in exactly one status. The process, its deadline, the caller, the output limit and the loss of the guest may all end
// it at once: the first claims the verdict.
package engine
