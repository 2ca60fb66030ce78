package intercept

import (
	"context"
	"sync"
	"time"
)

// turns let a sandbox do one piece of costly work at a time, whatever the number of its connections: hostile answers
// and certificates take a thousand times the CPU time of others.
type turns struct {
	sync.Mutex
	*Config
}

// work works in its turn, once the sandbox may use CPU time, and charges it. It fails once ctx has ended.
func (t *turns) work(ctx context.Context, do func()) error {
	t.Lock()
	defer t.Unlock()
	if err := t.Wait(ctx); err != nil {
		return err
	}
	began := time.Now()
	do()
	t.Spend(time.Since(began))
	return nil
}
