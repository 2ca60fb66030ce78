package attack

import (
	"context"
	"testing"
)

func TestVerdicts(t *testing.T) {
	for want, do := range map[Outcome]func(r *record){
		Contained:     func(r *record) { r.note("%d", 1) },
		NotApplicable: func(r *record) { r.pass("not here") },
		Unclear:       func(r *record) { r.doubt("a"); r.pass("not here") },
		NotContained:  func(r *record) { r.wrong("read"); r.giveUp("and then it hung") },
	} {
		r := &record{ctx: t.Context()}
		undone := false
		r.part(func() {
			r.later(func() { undone = true })
			do(r)
		})
		if v := r.close(); v.Outcome != want || !undone {
			t.Errorf("%+v, want %s; undone: %v", v, want, undone)
		}
	}
}

// TestInterruptedIsNobodysFault: errors caused by an interruption give no verdict.
func TestInterruptedIsNobodysFault(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := &record{ctx: ctx}
	r.wrong("before")
	cancel()
	r.wrong("after")
	if v := r.close(); v.Outcome != NotContained || len(v.Findings) != 1 {
		t.Errorf("%+v", v)
	}
}
