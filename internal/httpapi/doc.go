// Package httpapi serves version 1 of the HTTP API: JSON in, JSON or server-sent events out, problems as RFC 9457.
//
// It bounds and decodes a body once, hands one engine.Run down, and turns the sandbox.Result into an Answer. What the program
// did is the status of an answer, with HTTP status 200; what Glovebox failed at is a problem, whose HTTP status comes from one
// table (problem.go).
//
// The order of the checks of a request: the Host header, the page it comes from, the API key, path and method, the type of the
// body, its bytes, its JSON, and then the engine's own. Nothing of a request is acted on before the check in front of it.
//
// What is held for clients is bounded: connections by their table (connections.go), bodies and answers by a room each (room.go), of
// each of which one client may have half, and a client's time by a least rate in both directions (pace.go). A client is an API key or,
// where none is asked for, an address. An answer finds its room while its run holds the slot, so memory is bounded by the rooms, the slots
// times the largest result, and some 500 KiB for each connection, most of it the kernel's.
package httpapi
