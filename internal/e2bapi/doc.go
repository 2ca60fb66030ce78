// Package e2bapi serves the wire of E2B's SDKs: the control plane, and in place of envd and of the code interpreter the
// processes, files and contexts of a living sandbox.
//
// A client names a sandbox by the header E2b-Sandbox-Id and one of its services by E2b-Sandbox-Port, as with the option
// sandbox_url of the SDKs. It proves its right by the access token that create answered, not by an API key.
//
// Differences that clients can see: a process id is a number of this server, not one of the sandbox; relative paths and
// commands begin in /workspace; a sandbox ends at its time-out and is never paused.
package e2bapi
