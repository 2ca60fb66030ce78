// Package api declares the requests, answers, events and problems of version 1 of Fumehood's HTTP API.
//
// Each type is one JSON value. The server decodes requests into these types and encodes its answers from them; package
// client and the OpenAPI document use the same types. Answers with output, values or files of a sandbox hold hostile
// data.
package api
