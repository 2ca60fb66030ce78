package answer

import (
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestReword: what a server says in the words of HTTP becomes what the command line says itself.
func TestReword(t *testing.T) {
	for _, hints := range [][]sandbox.Hint{
		{{Code: sandbox.HintTimeout, Limit: sandbox.LimitTimeout, Value: int64(time.Second), Raise: int64(2 * time.Second)}},
		{{Code: sandbox.HintMemory, Limit: sandbox.LimitMemory, Value: 64 << 20, Raise: 128 << 20}},
		{{Code: sandbox.HintLimit, Limit: sandbox.LimitPids, Value: 8, Raise: 16}},
		{{Code: sandbox.HintNoFile, Name: "a.sh"}},
		{{Code: sandbox.HintNoModule, Name: "yaml", CanInstall: true, InCode: true}},
		{{Code: sandbox.HintNoModule, Name: "yaml", CanInstall: true, ByName: true, Package: "pyyaml"}},
		{{Code: sandbox.HintNoInstall, Name: "pip", By: "Python 3", CanInstall: true, ByName: true}},
		{{Code: sandbox.HintWaited, Limit: sandbox.LimitTimeout, Value: int64(time.Second), NoInput: true}},
	} {
		if got, want := Reword(HTTP.Hint(hints)), CommandLine.Hint(hints); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	for text, want := range map[string]string{
		HTTP.waive([]sandbox.LimitName{"memory", "pids"}): CommandLine.waive([]sandbox.LimitName{"memory", "pids"}),
		HTTP.Hint([]sandbox.Hint{{Code: sandbox.HintNoNetwork, Living: true}}): "The sandbox has no network. Send what the program needs with --file PATH; " +
			"to reach a host, make a sandbox with fumehood create --allow HOST.",
		HTTP.Hint([]sandbox.Hint{{Code: sandbox.HintRefused, Names: []string{"a.com:443"}, Living: true}}): "a.com:443 was refused by the network policy; " +
			"allow it by PATCH /v1/sandboxes/{id} with all rules anew, or make a sandbox with fumehood create --allow a.com:443.",
		"limits.memory_mib: is over; limits.moon stays":     "--memory: is over; limits.moon stays",
		`choose another backend: ` + HTTP.backend("gvisor"): "choose another backend: --backend gvisor",
	} {
		if got := Reword(text); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
