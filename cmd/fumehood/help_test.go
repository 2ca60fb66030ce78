package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestHelpFits: help fits a screen of 24 lines, or has a line of at most 100 columns for each flag, under a heading.
func TestHelpFits(t *testing.T) {
	help := func(words ...string) []string {
		var out bytes.Buffer
		m := testApp(t).Main
		m.Stdout = &out
		if code := m.Run(t.Context(), append(words, "--help")); code != 0 {
			t.Fatalf("%v: exit code %d", words, code)
		}
		return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
	if lines := help(); len(lines) > 24 {
		t.Errorf("the help has %d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for _, line := range help() {
		if len(line) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	for _, c := range testApp(t).newRoot().Commands() {
		if c.Hidden || c.Name() == "completion" {
			continue
		}
		lines := help(c.Name())
		for _, line := range lines {
			if strings.Count(line, "[FLAGS]") > 1 {
				t.Errorf("%s: flags twice: %s", c.Name(), line)
			}
			if len([]rune(line)) > 100 {
				t.Errorf("%s: %d columns: %s", c.Name(), len([]rune(line)), line)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			shown := slices.ContainsFunc(lines, func(line string) bool {
				return strings.HasPrefix(strings.TrimSpace(line[min(6, len(line)):])+" ", "--"+f.Name+" ")
			})
			if !f.Hidden && f.Name != "help" && !shown {
				t.Errorf("%s: the help lacks --%s", c.Name(), f.Name)
			}
		})
	}
}
