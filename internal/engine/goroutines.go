package engine

import (
	"sync"

	"github.com/fumehood-dev/fumehood/internal/cputime"
)

// goroutines is a WaitGroup whose goroutines outlive the request that starts them, so that their CPU time is not that
// of its client.
type goroutines struct{ sync.WaitGroup }

// Go starts a goroutine that Wait waits for.
func (g *goroutines) Go(do func()) {
	g.WaitGroup.Go(func() {
		cputime.Clear()
		do()
	})
}
