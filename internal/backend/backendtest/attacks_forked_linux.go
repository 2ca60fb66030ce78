package backendtest

import (
	"os"
	"testing"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// unforked are attacks of the corpus in Python that no fork of a waiting interpreter makes, and why.
var unforked = map[string]string{
	"A10": "a living sandbox, which no fork enters",
	"F11": "a living sandbox",
	"G05": "a living sandbox",
	"R07": "it has half a CPU, and would hold the zygote up",
}

// AttacksForked runs the attacks in Python once more, one at a time, where each begins in a fork of an interpreter that waits for it
// instead of one that the guest has started. What decides is the same.
func AttacksForked(t *testing.T, open Open, python sandbox.Language) {
	if os.Geteuid() != 0 {
		Skip(t, "forks", "only root can fork an interpreter into a sandbox")
	}
	corpus, err := readCorpus()
	if err != nil {
		t.Fatal(err)
	}
	n := newArena(t, &arena{canaries: plant(t), alone: true, warm: 1, languages: []sandbox.Language{python}}, open)
	for _, a := range corpus {
		if a.lang != "python" {
			continue
		}
		t.Run(a.id, func(t *testing.T) {
			before, benign := n.engine.Stats().Forked, n.benigns.Load()
			n.attack(t, a)
			forks := int64(n.engine.Stats().Forked-before) - (n.benigns.Load() - benign)
			if reason := unforked[a.id]; !t.Skipped() && (forks <= 0) != (reason != "") {
				t.Errorf("%d of its programs began in a fork (%s)", forks, reason)
			}
		})
		n.settled(t, a.id)
	}
}
