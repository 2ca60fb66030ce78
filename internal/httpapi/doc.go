// Package httpapi serves version 1 of the HTTP API: JSON in, JSON or server-sent events out, problems as RFC 9457.
//
// It decodes a body once, hands one engine.Run down, and turns the sandbox.Result into an answer. What the program did is the status of
// an answer, with HTTP status 200; what Glovebox failed at is a problem, whose HTTP status comes from one table (answer/problem.go).
// What it shares with other APIs at the same address, such as keys and bodies, is package httpd's.
package httpapi
