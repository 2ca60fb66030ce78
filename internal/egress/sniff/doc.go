// Package sniff parses the bytes that a sandbox and its servers send: TLS hellos and HTTP/1. It does no I/O and decides
// nothing. Bytes that two readers could read in two ways are errors.
package sniff

import "time"

const (
	// MaxFirst is the most bytes of the first line of a connection that may be HTTP. A TLS hello may have twice as
	// many.
	MaxFirst = 16 << 10
	// MaxHead is the most bytes of one HTTP head. Servers accept 8 to 32 KiB.
	MaxHead = 32 << 10
	// HeadTimeout is the most time between the first and the last byte of a hello or a head.
	HeadTimeout = 20 * time.Second
)
