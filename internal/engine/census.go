package engine

// Census counts the living sandboxes, and what is in them.
type Census struct {
	Sandboxes  int
	Contexts   int
	Executions int // that run
	Ports      int // open connections to ports
}

// Census counts the living sandboxes now. It waits for none.
func (e *Engine) Census() Census {
	var c Census
	for _, s := range e.living.all((*Sandbox).isMade) {
		s.mu.Lock()
		c.Sandboxes++
		c.Contexts += len(s.contexts)
		c.Executions += s.executions.running
		c.Ports += s.timers.ports
		s.mu.Unlock()
	}
	return c
}
