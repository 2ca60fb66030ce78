// Package httpd has the parts that the HTTP APIs of Fumehood share: the listener's guard, API keys, bodies, answers,
// problems and metrics.
//
// It checks a request in this order: the Host header, the origin of the page, the API key, path and method, the type of
// the body, its bytes, its JSON. Then the engine checks it.
//
// Limits apply to connections (connections.go), to the bytes of bodies and of answers in memory (package room), and to
// slow clients in both directions (pace.go). One client, an API key or else an address, gets at most half of each. An
// answer takes its room while its run holds the slot. So memory is at most the two rooms, the slots times the largest
// result, and some 500 KiB for each connection, most of it the kernel's.
//
// The name of a key is the Owner of its runs and sandboxes: for quotas, listing and the log.
package httpd
