package client

import (
	"encoding/json"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestProblemInOwnWords: an error of a server has the words of the command line there, not those of HTTP.
func TestProblemInOwnWords(t *testing.T) {
	raise := sandbox.FixRaise{Bound: sandbox.Bound{Limit: sandbox.LimitMemory, Raise: 1 << 30}}
	for _, e := range []*sandbox.Error{
		{Kind: sandbox.Invalid, Op: "limits.memory", Msg: "is less than the disk", Fixes: []sandbox.Hint{raise}},
		{Kind: sandbox.Unsupported, Msg: "no", Fix: "install it", Fixes: []sandbox.Hint{sandbox.ChooseBackend("docker")}},
		{Kind: sandbox.Unsupported, Msg: "no", Fix: "run as root", Unenforced: []sandbox.LimitName{"memory", "pids"}},
		{Kind: sandbox.NotFound, Op: "sandbox a", Msg: "there is none", Fixes: []sandbox.Hint{sandbox.FixCreate}},
		{Kind: sandbox.Unauthorized, Msg: "a valid API key is needed", Fixes: []sandbox.Hint{sandbox.FixSendKey}},
		{Kind: sandbox.Invalid, Op: "language", Msg: "is unknown", Fix: "did you mean python?"},
		{Kind: sandbox.Busy, Msg: "all slots are full"},
	} {
		text, err := json.Marshal(answer.NewPublicProblem(e, "id"))
		if err != nil {
			t.Fatal(err)
		}
		var p api.Problem
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
		got := problemError(p, 0)
		if said, want := wording.CommandLine.Text(got), wording.CommandLine.Text(e); said != want {
			t.Errorf("%q, not %q", said, want)
		}
		if said, want := wording.CommandLine.Fix(got), wording.CommandLine.Fix(e); said != want {
			t.Errorf("%q, not %q", said, want)
		}
	}
}
