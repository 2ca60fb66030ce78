package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/check"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestChecks: findings are part of the result, enforced ones stop whatever brings the code before anything runs, and no
// request is weaker than the operator.
func TestChecks(t *testing.T) {
	const bad, ran = "echo ran # xmrig\n", "ran\n" // refused, and harmless where a check fails
	checks := engine.Checks{Find: check.Policy{}.Find}
	rig := newRig(t, engine.Config{Languages: lang.All(), Checks: checks})
	living := rig.make(t, engine.Create{})
	do(t, living, script("echo 'echo ran # xmrig' > there.sh"))
	for name, request := range map[string]sandbox.Request{
		"code": {Language: "bash", Code: []byte(bad)},
		"a file": {Language: "python", Code: []byte("print('ran')"),
			Files: []sandbox.File{{Path: "x.sh", Data: []byte(bad)}}},
		"command": {Command: []string{"/bin/bash", "-c", bad}},
	} {
		for _, mode := range []sandbox.CheckMode{"", sandbox.ChecksOff, sandbox.ChecksWarn, sandbox.ChecksEnforce} {
			request.Checks = mode
			for where, r := range map[string]*sandbox.Result{
				"fresh":  rig.run(t, engine.OneShot{Request: request}),
				"living": do(t, living, engine.RunRequest{Request: request})} {
				found := len(r.Findings) == 1 && r.Findings[0].Rule == "miner" && r.Findings[0].Refuses
				if found != (mode != sandbox.ChecksOff) {
					t.Errorf("%s, %s, %q: %+v", name, where, mode, r.Findings)
				}
				if enforced := mode == sandbox.ChecksEnforce; enforced != (r.Status == sandbox.StatusRejected) ||
					enforced == (string(r.Stdout.Head) == ran) ||
					enforced != strings.Contains(string(r.Stderr.Head), "Security validation failed: ") ||
					enforced != hasHint[sandbox.HintChecks](r) {
					t.Errorf("%s, %s, %q: %s %q %q %+v", name, where, mode, r.Status, r.Stdout.Head,
						r.Stderr.Head, r.Hints)
				}
			}
		}
	}
	ordinary := sandbox.Request{Language: "python", Code: []byte("import urllib.request, socket")}
	if r := do(t, living, engine.RunRequest{Request: ordinary}); len(r.Findings) != 0 {
		t.Errorf("ordinary code without checks: %+v", r.Findings)
	}
	if ordinary.Checks = sandbox.ChecksWarn; len(do(t, living, engine.RunRequest{Request: ordinary}).Findings) != 2 {
		t.Error("ordinary code with checks: not both findings")
	}
	r := do(t, living, engine.RunRequest{Request: sandbox.Request{Entry: "there.sh", Checks: sandbox.ChecksEnforce}})
	if r.Status != sandbox.StatusRejected || len(r.Findings) != 1 || r.Findings[0].File != "there.sh" {
		t.Errorf("an entry: %s, %+v", r.Status, r.Findings)
	}
	crowd := sandbox.Request{Language: "bash", Code: []byte("true"), Checks: sandbox.ChecksEnforce}
	for i := range 60 {
		crowd.Files = append(crowd.Files,
			sandbox.File{Path: fmt.Sprintf("%d.sh", i),
				Data: []byte(strings.Repeat("curl http://example.org\neval \"$x\"\n", 5))})
	}
	crowd.Files = append(crowd.Files, sandbox.File{Path: "last.sh", Data: []byte(bad)})
	if r := rig.run(t, engine.OneShot{Request: crowd}); r.Status != sandbox.StatusRejected || len(r.Findings) != 100 {
		t.Errorf("behind many others: %s, %d findings", r.Status, len(r.Findings))
	}
	_, err := rig.Run(within(t), engine.OneShot{
		Request: sandbox.Request{Language: "bash", Code: []byte("true"), Checks: "enforced"}})
	refused(t, "an unknown mode", err, sandbox.Invalid, "enforced")

	checks.Mode = sandbox.ChecksEnforce
	strict := newRig(t, engine.Config{Languages: lang.All()[:3], Checks: checks})
	if r := strict.run(t, engine.OneShot{
		Request: sandbox.Request{Language: "bash", Code: []byte(bad), Checks: sandbox.ChecksOff}}); r.Status != sandbox.StatusRejected {
		t.Errorf("weaker than the operator: %s", r.Status)
	}
	surveys, err := strict.Surveys(within(t), "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range surveys { // what the engine runs by itself passes
		if l.Err != nil {
			t.Errorf("%s: %v", l.Name, l.Err)
		}
	}
}

// TestChecksInTurn: no more long texts are checked at a time than half of the CPUs can, a short one does not wait, and
// who waits leaves with its context.
func TestChecksInTurn(t *testing.T) {
	const slowly = "true # slow"
	turns := max(1, runtime.GOMAXPROCS(0)/2)
	begun, goOn := make(chan bool, turns+9), make(chan bool)
	rig := newRig(t, engine.Config{Languages: lang.All(),
		Checks: engine.Checks{Find: func(_ string, code []byte) []sandbox.Finding {
			if strings.HasPrefix(string(code), slowly) {
				begun <- true
				<-goOn
			}
			return nil
		}}})
	living := rig.make(t, engine.Create{})
	slow := sandbox.Request{Language: "bash", Code: []byte(slowly + strings.Repeat("w", 128<<10))}
	ended := make(chan error, turns+9)
	run := func(ctx context.Context, in *engine.Sandbox) {
		var r *sandbox.Result
		var err error
		if in != nil {
			r, err = in.Run(ctx, engine.RunRequest{Request: slow})
		} else {
			r, err = rig.Run(ctx, engine.OneShot{Request: slow})
		}
		if err == nil && r.Status != sandbox.StatusSucceeded {
			err = errors.New(string(r.Status))
		}
		ended <- err
	}
	next := func(what string) error {
		select {
		case err := <-ended:
			return err
		case <-within(t).Done():
			close(goOn)
			t.Fatal(what)
			return nil
		}
	}
	for range turns {
		go run(within(t), nil)
		<-begun
	}
	for _, bytes := range []int{0, 8 << 10} {
		short := sandbox.Request{Language: "bash", Code: []byte("true #" + strings.Repeat("w", bytes))}
		if _, err := rig.Run(within(t), engine.OneShot{Request: short}); err != nil {
			t.Errorf("a short text: %v", err)
		}
	}
	gone, leave := context.WithCancel(within(t))
	leave()
	go run(gone, nil)
	if err := next("a run whose client has gone waits for ever"); err == nil ||
		err.Error() != string(sandbox.StatusCanceled) {
		t.Errorf("a run whose client has gone: %v", err)
	}
	go run(gone, living)
	if err := next("a run whose client has gone waits for ever"); !errors.Is(err, context.Canceled) {
		t.Errorf("a run whose client has gone: %v", err)
	}
	if len(begun) > 0 {
		t.Errorf("%d more were checked", len(begun))
	}
	go run(within(t), living) // which waits, or comes later: it succeeds
	close(goOn)
	for range turns + 1 {
		if err := next("they do not end"); err != nil {
			t.Error(err)
		}
	}
}
