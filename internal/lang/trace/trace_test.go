package trace

import (
	"strings"
	"testing"
)

func TestLinesReadsTheEndOnly(t *testing.T) {
	long := strings.Repeat("x", MaxInput)
	lines := Lines([]byte("first\n" + long + "\nlast\r\n\n"))
	if len(lines) != 1 || lines[0] != "last" {
		t.Errorf("got %d lines, the first %.20q", len(lines), lines[0])
	}
	if Lines([]byte(" \n\n")) != nil {
		t.Error("blank input has lines")
	}
	if got := Lines([]byte("a\xffb")); got[0] != "a\uFFFDb" {
		t.Errorf("got %q", got[0])
	}
}

func TestExceptionIsBounded(t *testing.T) {
	long := strings.Repeat("é", MaxTraceback)
	e := Exception(long, []string{long}, []string{long, "end"})
	if len(e.Name) > MaxName || len(e.Value) > MaxValue || len(e.Traceback) > MaxTraceback {
		t.Errorf("got %d, %d, %d bytes", len(e.Name), len(e.Value), len(e.Traceback))
	}
	if !strings.HasSuffix(e.Traceback, "\nend") {
		t.Error("a long traceback must keep its end")
	}
}
