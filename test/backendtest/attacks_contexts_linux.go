package backendtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/attack"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// inContexts are the categories that apply to contexts too: attacks on state that outlives a run, or on its report.
const inContexts = "XAOTG"

// contextSample has the attacks on the interpreter and its neighbours, all fast on any backend.
var contextSample = []string{"X01", "X03", "X04", "G03", "O07", "T04"}

// AttacksInContexts repeats attacks as code in contexts of living sandboxes, one at a time. The verdicts must be the
// same, and after each the other contexts of the sandbox must have kept their state. With -short it makes a few, some
// at once.
func AttacksInContexts(t *testing.T, open Open, languages ...sandbox.Language) {
	corpus := slices.DeleteFunc(shuffled(t), func(a *attack.Attack) bool {
		return !strings.Contains(inContexts, a.ID[:1]) || testing.Short() && !slices.Contains(contextSample, a.ID)
	})
	o := attack.Options{Canaries: plant(t), Contexts: true, Languages: languages, Alone: !testing.Short()}
	n := newArena(t, open, o)
	if testing.Short() {
		n.allAtOnce(t, corpus, shortWorkers)
		n.settled(t, "all of them")
		return
	}
	for _, a := range corpus {
		t.Run(a.ID, func(t *testing.T) { n.try(t, a) })
		n.settled(t, a.ID)
	}
}
