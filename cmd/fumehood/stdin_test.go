package main

import (
	"os"
	"testing"
)

// TestWaitingForStdin: a note reports the wait for an open pipe, also with --quiet: nothing else ends the wait.
func TestWaitingForStdin(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	told := &said{}
	a := testApp(t)
	a.Stdin, a.Stderr, a.quiet = r, told, true
	read := make(chan []byte, 1)
	go func() {
		data, err := a.readStdin(t.Context(), 100)
		if err != nil {
			t.Error(err)
		}
		read <- data
	}()
	if _, err := w.WriteString("late"); err != nil {
		t.Fatal(err)
	}
	told.wait(t, "waiting for standard input to end")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if data := <-read; string(data) != "late" {
		t.Errorf("read %q", data)
	}
}
