package api

import (
	"time"
)

// Problem is a failure of Fumehood, or a request that it cannot serve, in the form of RFC 9457.
type Problem struct {
	Type      string `json:"type" doc:"A URI that names the kind; there is no page behind it."`
	Title     string `json:"title" doc:"The kind in words."`
	Status    int    `json:"status" doc:"The HTTP status."`
	Detail    string `json:"detail" doc:"What happened."`
	Kind      string `json:"kind" doc:"What the caller can do about it." enum:"internal,invalid,not_found,exists,busy,quota,unauthorized,unsupported,unavailable,too_large"`
	Hint      string `json:"hint,omitempty" doc:"What would help."`
	Param     string `json:"param,omitempty" doc:"The wrong part of the request."`
	RequestID string `json:"request_id,omitempty" doc:"The server's log has the details under this id."`

	RetryAfter time.Duration `json:"-"` // when to try again; 0 is unknown
}
