package engine

// Ended returns why the sandbox takes no more work, as its calls do, or nil.
func (s *Sandbox) Ended() error { return s.ended() }
