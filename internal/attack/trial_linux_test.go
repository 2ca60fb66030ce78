package attack

import (
	"regexp"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

type walls struct{ sandbox.Backend }

func (walls) Name() string { return "native" }

// TestHurried: a deadline before the probe begins shows nothing; a later one does.
func TestHurried(t *testing.T) {
	a := &Attack{timeout: time.Second, statuses: []sandbox.Status{sandbox.StatusTimeout},
		want: []*regexp.Regexp{regexp.MustCompile("ready")}}
	for factor, want := range map[time.Duration]Outcome{1: Unclear, laterDeadline: NotContained} {
		tr := &trial{record: record{ctx: t.Context()}, attack: a, arena: &Arena{spy: &spy{Backend: walls{}}},
			deadline: factor * a.timeout}
		tr.part(func() { tr.judge(&sandbox.Result{Status: sandbox.StatusTimeout}) })
		if v := tr.close(); v.Outcome != want || tr.hurried != (want == Unclear) {
			t.Errorf("%v: %s, hurried %v, want %s", tr.deadline, v.Outcome, tr.hurried, want)
		}
	}
}
