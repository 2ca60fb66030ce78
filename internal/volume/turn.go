package volume

import "context"

// turn is the right to make a volume, which calls of one owner take one after another.
type turn struct {
	taken chan struct{} // has a value while a volume is made
	users int           // calls that have or want it; the store's mu guards it
}

// takeTurn waits until this process makes no other volume of an owner: to format one takes CPU time and memory of the
// host, and a key may send many requests at once. The caller calls done once the volume is made.
func (s *Store) takeTurn(ctx context.Context, owner string) (done func(), err error) {
	s.mu.Lock()
	t := s.turns[owner]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		s.turns[owner] = t
	}
	t.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(s.turns, owner)
		}
	}
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
