package httpapi

import (
	"fmt"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
)

// TestDifferencesTime: the time of comparing variables is in proportion to their number, not to its square.
func TestDifferencesTime(t *testing.T) {
	const few, times = 256, 8
	best := map[int]time.Duration{few: time.Hour, times * few: time.Hour}
	for range 10 {
		for n := range best {
			var asked engine.Create
			var has engine.Info
			for i := range n {
				asked.Spec.Env = append(asked.Spec.Env, fmt.Sprintf("A%06d=x", i))
				has.Spec.Env = append(has.Spec.Env, fmt.Sprintf("B%06d=x", i))
			}
			began := time.Now()
			if got := len(differencesFrom(&asked, &has)); got != n {
				t.Fatalf("%d differences", got)
			}
			best[n] = min(best[n], time.Since(began))
		}
	}
	if best[times*few] > 4*times*best[few] {
		t.Errorf("%v", best)
	}
}
