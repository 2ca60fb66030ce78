package packages

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/javascript"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestPasswordOfIndex: only the gate of the installer gets the password of an index. A survey never gets its address.
func TestPasswordOfIndex(t *testing.T) {
	const password = "canary-password"
	r := newRig(t)
	r.p.config.Indexes = map[string]Index{"": {URL: "https://reader:" + password + "@index.test/simple"}}
	var steps []string
	s, err := r.p.Supply(t.Context(), r.need(sandbox.Packages{Requirements: []string{"a"}}),
		func(ctx context.Context, w sandbox.Work) (*sandbox.Result, error) {
			steps = append(steps, fmt.Sprintf("%s %+v", w.Stdin, w.Network))
			return r.work(ctx, w)
		})
	if err != nil {
		t.Fatal(err)
	}
	s.Release()
	if len(steps) != 2 || strings.Contains(steps[0], "index.test") ||
		!strings.Contains(steps[1], `"https://reader@index.test/simple"`) ||
		strings.Contains(strings.Join(steps, ""), password) {
		t.Errorf("%q", steps)
	}
	want := []sandbox.Secret{{Name: secretName, Hosts: []string{"index.test:443"},
		Headers: []string{"Authorization"}, Value: password}}
	if !reflect.DeepEqual(r.network.Secrets, want) || !slices.Equal(r.network.Allow, want[0].Hosts) ||
		!slices.Equal(r.network.Trusted, want[0].Hosts) {
		t.Errorf("%+v", r.network)
	}
	for name, text := range filesOf(t, r.p.cache.dir) {
		if strings.Contains(text, password) {
			t.Errorf("%s has the password", name)
		}
	}
	if text := fmt.Sprintf("%+v", s); strings.Contains(text, password) {
		t.Errorf("%s", text)
	}
}

// TestRefusals: each reason of an installer has a fix.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	need := r.need(sandbox.Packages{})
	need.Language.Installer.Popular = []string{"requests"}
	j := &job{need: &need}
	for _, c := range []struct {
		receipt sandbox.PackageReceipt
		hints   []sandbox.Hint
		kind    sandbox.Kind
		fix     string
	}{
		{sandbox.PackageReceipt{Down: true}, nil, sandbox.Unavailable, "the index does not answer; try again"},
		{sandbox.PackageReceipt{Denied: true}, nil, sandbox.Invalid, "give the name and the password that the index requires: --package-index "},
		{sandbox.PackageReceipt{Unbuilt: "a"}, nil, sandbox.Invalid,
			"build an archive of a, as none is built for this interpreter: --allow-build"},
		{sandbox.PackageReceipt{Unfit: "a"}, nil, sandbox.Invalid, "a has no archive for this interpreter and system; "},
		{sandbox.PackageReceipt{Full: true}, nil, sandbox.TooLarge,
			"the packages need more disk space than an installer has; "},
		{sandbox.PackageReceipt{Unknown: "requestss"}, nil, sandbox.Invalid, "did you mean requests?"},
		{sandbox.PackageReceipt{Unknown: "zzz"}, nil, sandbox.Invalid, "the index has no package of this name"},
		{sandbox.PackageReceipt{Down: true}, []sandbox.Hint{sandbox.HintRefused{Refusals: []sandbox.NetworkRefusal{{
			Target: "f.test", Reason: "its address 10.1.2.3 is a private address", Allow: "10.1.2.3"},
			{Target: "g.test:443", Reason: sandbox.NetworkNoRule, Allow: "g.test:443"}}}}, sandbox.Unavailable,
			"allow the host, if it serves the index or its files: --package-host 10.1.2.3,g.test:443"},
	} {
		c.receipt.Error = "words"
		result := &sandbox.Result{Hints: c.hints}
		var e *sandbox.Error
		if err := j.refusal(&c.receipt, result); !errors.As(err, &e) || e.Kind != c.kind ||
			!strings.HasPrefix(wording.CommandLine.Fix(err), c.fix) {
			t.Errorf("%+v: %v", c.receipt, err)
		}
	}
}

// TestIndexAddress: an index on this machine, and one that a root names by its address, are refused with the flag that
// names them right.
func TestIndexAddress(t *testing.T) {
	need := (&rig{}).need(sandbox.Packages{})
	need.Language.Installer.Name = "python"
	for _, c := range []struct{ named, root, fix string }{
		{"http://127.0.0.1:3141/root/", "", "python=http://host:3141/root/"},
		{"http://[::1]/x", "", "python=http://host:80/x"},
		{"https://u:secret@localhost/simple", "", "python=https://host:443/simple"},
		{"", "http://10.0.0.5:8081/simple", "python=http://10.0.0.5:8081/simple"},
		{"http://10.0.0.5:8081/simple", "", ""}, {"https://nexus.corp/simple", "", ""},
		{"", "https://nexus.corp/simple", ""},
	} {
		j := &job{need: &need, index: Index{URL: c.named}}
		index, fix := c.named+c.root, ""
		if c.fix != "" {
			fix = "name it: --package-index " + c.fix
		}
		p, _, err := j.network(&sandbox.PackageSurvey{}, index)
		if got := wording.CommandLine.Fix(err); got != fix || err == nil && len(p.Trusted) == 0 {
			t.Errorf("%s: %q, %v, want %q", index, got, err, fix)
		}
	}
}

// TestOtherSpelling: a version in the syntax of another language's installer is refused with the right spelling.
func TestOtherSpelling(t *testing.T) {
	for requirement, fix := range map[string]string{"lodash==4.17.21": "ask for lodash@4.17.21",
		"@s/a==1": "ask for @s/a@1", "a=1": "",
		"../a==1": "send the files with the code, which can import them from the workspace"} {
		need := &sandbox.PackageNeed{Packages: sandbox.Packages{Requirements: []string{requirement}},
			Language: javascript.Language}
		if err := check(need); sandbox.KindOf(err) != sandbox.Invalid || sandbox.FixOf(err) != fix {
			t.Errorf("%s: %v", requirement, err)
		}
	}
}

// FuzzAnswers: any answer of the sandboxes of a need is refused, or becomes plain text within limits.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"platform": "p", "installer": "i", "index": "https://index.test/", "hosts": ["a.test"], `+
		`"requirements": ["a", "-r x"], "found": [{"name": "b"}]}`),
		[]byte(`{"packages": [{"name": "a", "version": "1"}], "lock": "a\u001b", "missing": ["b", "c"], `+
			`"error": "", "unknown": "x", "unbuilt": "y", "down": true}`))
	f.Fuzz(func(t *testing.T, survey, receipt []byte) {
		need := (&rig{}).need(sandbox.Packages{Auto: true})
		j := &job{need: &need, work: func(context.Context, sandbox.Work) (*sandbox.Result, error) {
			return &sandbox.Result{Status: sandbox.StatusSucceeded, Stdout: sandbox.Captured{Head: survey}}, nil
		}}
		s, err := j.survey(t.Context())
		if err != nil {
			return
		}
		o, dropped, optional := j.order(s)
		texts := append(slices.Concat(dropped, optional), summary(o))
		if policy, _, err := j.network(s, o.Index); err == nil &&
			(len(policy.Allow) > 17 || strings.ContainsAny(strings.Join(policy.Allow, ""), "*/[")) {
			t.Errorf("an installer may reach %q", policy.Allow)
		}
		var got sandbox.PackageReceipt
		result := &sandbox.Result{Stdout: sandbox.Captured{Head: receipt}}
		if parse(result, &got) != nil {
			return
		}
		if err := j.refusal(&got, result); err != nil {
			texts = append(texts, err.Error())
		} else if j.check(&got, &o) == nil {
			texts = slices.Concat(texts, got.Missing, []string{got.Lock})
		}
		for _, text := range texts {
			if plainText(text) != text || len(text) > 2*maxWords && text != got.Lock {
				t.Errorf("%d bytes: %.200q", len(text), text)
			}
		}
	})
}
