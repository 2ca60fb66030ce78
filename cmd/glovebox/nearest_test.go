package main

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"memory", "timeout", "pids", "run", "exec", "output-limit"}
	for misspelt, want := range map[string]string{
		"memroy": "memory", "Memory": "memory", "mem": "memory", "timeuot": "timeout", "rnu": "run", "pid": "pids",
		"output_limit": "output-limit", "zebra": "", "x": "", "": "",
	} {
		if got := nearest(misspelt, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", misspelt, got, want)
		}
	}
}
