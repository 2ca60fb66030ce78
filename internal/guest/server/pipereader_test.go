package server

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// Nobody watches a pipe that small pieces come from; what is in it, the deadline and the end are met all the same.
func TestGather(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	g := newPipeReader(r)
	defer g.Close()
	buf := make([]byte, 16)
	read := func(want string, wantErr error) {
		t.Helper()
		n, err := g.Read(buf)
		if string(buf[:n]) != want || !errors.Is(err, wantErr) {
			t.Errorf("read %q, %v; want %q, %v", buf[:n], err, want, wantErr)
		}
	}
	for range gatherAfter + 2 {
		io.WriteString(w, "x")
		read("x", nil)
	}
	if g.file != nil {
		t.Error("the pipe is watched while small pieces come")
	}
	io.WriteString(w, "a")
	io.WriteString(w, "b")
	g.SetReadDeadline(time.Unix(1, 0))
	read("", os.ErrDeadlineExceeded)
	g.SetReadDeadline(time.Time{})
	read("ab", nil)
	go func() {
		for !g.isWatched() {
			time.Sleep(gatherFor)
		}
		io.WriteString(w, "late")
		w.Close()
	}()
	read("late", nil)
	read("", io.EOF)
}

func (g *pipeReader) isWatched() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.file != nil
}
