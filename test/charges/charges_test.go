package main

import (
	"io"
	"testing"
)

// TestReport: an operation that is charged far less than others fails, unless slots bound it.
func TestReport(t *testing.T) {
	list := func(runs bool) []measured {
		usual := measured{operation: get("/usual"), cpu: 1, charged: 1}
		free := measured{operation: get("/free"), cpu: 1, charged: 0.1}
		free.runs = runs
		return []measured{usual, free, usual}
	}
	if err := report(io.Discard, list(true), 5); err != nil {
		t.Error(err)
	}
	if err := report(io.Discard, list(false), 5); err == nil {
		t.Error("an operation whose work is ten times its charge passes")
	}
}
