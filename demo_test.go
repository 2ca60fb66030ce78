package fumehood_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// hostWide matches what looks at processes, sockets or mounts of the whole host.
var hostWide = regexp.MustCompile(`(^|[|;&(]\s*|\s)(pgrep|pkill|killall|pidof|ps|ss|netstat|lsof|losetup|findmnt)\s` +
	`|/proc/(\[|\*|mounts|net|loadavg|stat\b|meminfo)`)

// TestExamplesLookAtTheirOwn: the steps of `make demo` look at nothing of the host that another program may change. The
// one look at all processes must be for a name that no other demo has.
func TestExamplesLookAtTheirOwn(t *testing.T) {
	scripts, err := filepath.Glob("examples/*.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			code, _, _ := strings.Cut(line, "# ")
			if hostWide.MatchString(code) && !strings.Contains(code, `"[/]workspace/$bomb"`) {
				t.Errorf("%s:%d looks at the whole host: %s", script, n+1, line)
			}
		}
	}
	demo, err := os.ReadFile("examples/demo.sh")
	if err != nil || !strings.Contains(string(demo), "bomb=forkbomb_$$_$RANDOM.py") {
		t.Error("the fork bomb of the demo has no name of its own")
	}
}
