package httpapi

import "time"

// SetWaits changes how long clients are waited for.
func (s *Server) SetWaits(body, answer time.Duration) { s.waits.body, s.waits.answer = body, answer }

// Held is how many bytes of bodies and of answers are held.
func (s *Server) Held() (bodies, answers int64) { return s.bodies.holds(), s.answers.holds() }
