package server

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// A reaped process's output is awaited while other processes of its execution are being killed, but not for ever.
func TestOutputIsAwaitedWhileOthersAreKilled(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	p := newProcess(nil, &guest.Start{User: sandbox.User{UID: 1}})
	p.outputs[0] = newOutput(p, sandbox.Stdout, r, 1, false)
	begin := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.beginKill()
	}
	expect := func(when string, awaited bool) {
		t.Helper()
		w.Write([]byte("x"))
		_, err := r.Read(make([]byte, 1))
		if awaited != (err == nil) || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", when, err)
		}
	}
	p.spawned, p.drain = time.Now(), 1
	p.reaped, p.wall = true, time.Hour // its end is in the future, so that no time runs out here
	begin()
	p.endKill()
	expect("after a kill", false)
	begin()
	expect("during another one", true)
	begin()
	p.endKill()
	expect("during one of two", true)
	p.endKill()
	expect("after all", false)
	p.wall = -time.Hour
	begin()
	expect("long after the end", false)
}
