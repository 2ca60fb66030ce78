// Package httpd is what every HTTP API of Glovebox shares: the listener's guard, API keys, bodies, answers, problems and metrics.
//
// The order of the checks of a request: the Host header, the page it comes from, the API key, path and method, the type of the
// body, its bytes, its JSON, and then the engine's own. Nothing of a request is acted on before the check in front of it.
//
// What is held for clients is bounded: connections by their table (connections.go), bodies and answers by a room each (room.go), of
// each of which one client may have half, and a client's time by a least rate in both directions (pace.go). A client is an API key or,
// where none is needed, an address. An answer finds its room while its run holds the slot, so memory is bounded by the rooms, the slots
// times the largest result, and some 500 KiB for each connection, most of it the kernel's.
//
// The name of a key is the owner of what its requests make: engine.Run.Owner, for quotas, listing and the log.
package httpd
