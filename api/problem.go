package api

import (
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Problem is a failure of Fumehood, or a request that it cannot serve, in the form of RFC 9457.
type Problem struct {
	Type      string       `json:"type"`                 // A URI that names the kind; there is no page behind it.
	Title     string       `json:"title"`                // The kind in words.
	Status    int          `json:"status"`               // The HTTP status.
	Detail    string       `json:"detail"`               // The failure in words.
	Kind      sandbox.Kind `json:"kind"`                 // The class of the failure.
	Hint      string       `json:"hint,omitempty"`       // The suggested fix.
	Hints     []Hint       `json:"hints,omitempty"`      // The hint in parts with their facts; absent if a text is all.
	Param     string       `json:"param,omitempty"`      // The wrong part of the request.
	RequestID string       `json:"request_id,omitempty"` // The server's log has the details under this id.

	RetryAfter time.Duration `json:"-"` // When to try again; 0 is unknown.
}
