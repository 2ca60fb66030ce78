package nearest_test

import (
	"testing"

	"github.com/fumehood-dev/fumehood/internal/nearest"
)

func TestName(t *testing.T) {
	names := []string{"memory", "limits.timeout_s", "pids", "run", "exec", "output-limit", "return_files"}
	for misspelt, want := range map[string]string{
		"memroy": "memory", "Memory": "memory", "mem": "memory", "timeuot": "limits.timeout_s", "rnu": "run", "pid": "pids",
		"output_limit": "output-limit", "return-files": "return_files", "zebra": "", "x": "", "": "",
	} {
		if got := nearest.Name(misspelt, names); got != want {
			t.Errorf("Name(%q) = %q, want %q", misspelt, got, want)
		}
	}
}

func FuzzName(f *testing.F) {
	f.Add("langauge", "language", "limits.memory_mib")
	f.Fuzz(func(t *testing.T, name, known, other string) {
		if got := nearest.Name(name, []string{known, other}); got != "" && got != known && got != other {
			t.Errorf("%q is not a known name", got)
		}
	})
}
