package backendtest

import (
	"os"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/attack"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// unforked lists the Python attacks that do not start in a fork, and why.
var unforked = map[string]string{
	"A10": "a living sandbox, which forks never enter",
	"F11": "a living sandbox",
	"G05": "a living sandbox",
	"R07": "it has half a CPU, and would delay the zygote",
}

// AttacksForked repeats the Python attacks, one at a time, with each starting in a fork of a waiting interpreter. The
// verdicts must be the same.
func AttacksForked(t *testing.T, open Open, python sandbox.Language) {
	ForCheck(t, "where little else goes on, so that the waiting interpreters keep up")
	if os.Geteuid() != 0 {
		Skip(t, "forks", "only root can fork an interpreter into a sandbox")
	}
	corpus, err := attack.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	n := newArena(t, open, attack.Options{Canaries: plant(t), Alone: true, Warm: 1,
		Languages: []sandbox.Language{python}})
	made, forked := 0, 0
	for _, a := range corpus {
		if a.Lang != "python" {
			continue
		}
		t.Run(a.ID, func(t *testing.T) {
			before := n.Forked()
			n.try(t, a)
			forks := n.Forked() - before
			switch {
			case unforked[a.ID] != "" && forks > 0:
				t.Errorf("%d of its programs began in a fork (%s)", forks, unforked[a.ID])
			case unforked[a.ID] != "":
			case forks > 0:
				made, forked = made+1, forked+1
			default:
				made++
				t.Log("NOT FORKED: no interpreter was waiting")
			}
		})
		n.settled(t, a.ID)
	}
	// A busy host may be too slow for some; if it is for most, the test shows nothing.
	if t.Logf("%d of %d attacks began in a fork", forked, made); forked == 0 || 2*forked < made {
		t.Errorf("%d of %d attacks began in a fork; half of them must", forked, made)
	}
}
