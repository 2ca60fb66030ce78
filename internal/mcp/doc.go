// Package mcp serves Fumehood to models by the Model Context Protocol (modelcontextprotocol.io): tools that run code
// and reach files in one living sandbox per session, over stdio or at /mcp of an HTTP server.
//
// Sessions exist up to version 2025-11-25 of the protocol. Later versions have none over HTTP, so a server there offers
// only earlier ones.
package mcp
