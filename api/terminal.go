package api

import "github.com/fumehood-dev/fumehood/sandbox"

// Sub-protocols of the WebSocket of a terminal.
const (
	// TerminalProtocol is the protocol of this version.
	TerminalProtocol = "fumehood.terminal"
	// KeyProtocol precedes an API key in Base64 for URLs without padding (RFC 4648, section 5). The server never
	// selects it. It is for pages in browsers, which cannot set the headers of a WebSocket.
	KeyProtocol = "fumehood.key."
)

// MaxTerminalMessage is the most bytes of a message to a terminal. One with a size has at most 1 KiB.
const MaxTerminalMessage = 64 << 10

// TerminalEnd is the last message of the server, a text: how the program ended.
type TerminalEnd struct {
	Status   sandbox.Status `json:"status,omitempty"`
	ExitCode *int           `json:"exit_code"` // null if a signal ended the program or nothing ran.
	Signal   *int           `json:"signal"`
	Problem  *Problem       `json:"problem,omitempty"` // Fumehood failed; there is no status.
}
