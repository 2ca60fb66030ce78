// Package e2bapi serves the wire of E2B's SDKs: the control plane, and in place of envd and of the code interpreter the
// processes, files and contexts of a living sandbox.
//
// A client names a sandbox by the header E2b-Sandbox-Id and one of its services by E2b-Sandbox-Port, as with the option
// sandbox_url of the SDKs. It proves its right by the access token that create answered, not by an API key.
//
// docs/e2b.md lists the differences that clients can see.
package e2bapi
