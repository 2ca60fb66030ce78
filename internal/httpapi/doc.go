// Package httpapi serves version 1 of the HTTP API: JSON in, JSON or server-sent events out, problems as RFC 9457.
//
// It decodes a body, passes a request to the engine, and turns the sandbox.Result into an answer. A failed program is a
// status in an answer, with HTTP status 200. A failure of Fumehood is a problem; one table has its HTTP status
// (answer/problem.go). Package httpd has the parts that APIs at one address share, such as keys
// and bodies.
package httpapi
