package attack

import (
	"context"
	"slices"
	"testing"
)

func TestVerdicts(t *testing.T) {
	for want, do := range map[Outcome]func(r *record){
		Contained:     func(r *record) { r.note("%d", 1) },
		NotApplicable: func(r *record) { r.skip("not here") },
		Unclear:       func(r *record) { r.doubt("a"); r.skip("not here") },
		NotContained:  func(r *record) { r.fail("read"); r.giveUp("and then it hung") },
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
	r.fail("before")
	cancel()
	r.fail("after")
	if v := r.close(); v.Outcome != NotContained || len(v.Findings) != 1 {
		t.Errorf("%+v", v)
	}
}

// TestRemarks: remarks are among the notes, and no doubt hides another.
func TestRemarks(t *testing.T) {
	r := record{ctx: t.Context()}
	r.note("figures")
	r.remark("gone after %d s", 31)
	r.doubt("one")
	r.doubt("two")
	if v := r.close(); v.Outcome != Unclear || v.Why != "one\ntwo" ||
		!slices.Equal(v.Meanwhile, []string{"gone after 31 s"}) || len(v.Notes) != 2 {
		t.Errorf("%+v", v)
	}
}
