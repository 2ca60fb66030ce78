package engine

// Census counts the living sandboxes and their content.
type Census struct {
	Sandboxes int
	Contexts  int
	Runs      int // that run
	Ports     int // open connections to ports
}

// Census counts the living sandboxes now. It waits for none.
func (e *Engine) Census() Census {
	var c Census
	for _, s := range e.living.all((*Sandbox).isMade) {
		s.mu.Lock()
		c.Sandboxes++
		c.Contexts += len(s.contexts)
		c.Runs += s.runs.running
		c.Ports += s.timers.ports
		s.mu.Unlock()
	}
	return c
}
