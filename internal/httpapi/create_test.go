package httpapi_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestExistingName: a creation with the name of a sandbox says so, and what the sandbox does not have of the request.
func TestExistingName(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	first := object{"name": "work", "limits": object{"timeout_s": 20}, "env": object{"A": "secret", "B": "b"},
		"metadata": object{"user": "u1"}, "lifetime": object{"idle_s": 600, "ends_in_s": 7200}, "backend": "fake"}
	r.ok(201, "POST", "/v1/sandboxes", jsonOf(first))
	again := parse[api.Sandbox](t, r.ok(200, "POST", "/v1/sandboxes", jsonOf(first)))
	if !again.Existing || len(again.Differences) > 0 {
		t.Errorf("the same request: %+v", again)
	}
	text := r.ok(200, "POST", "/v1/sandboxes", jsonOf(object{"name": "work",
		"limits": object{"timeout_s": 40, "disk_mib": 100}, "env": object{"A": "another", "C": "c"},
		"metadata": object{"user": "u2"}, "lifetime": object{"idle_s": 60, "ends_in_s": 60}}))
	var got []string
	for _, d := range parse[api.Sandbox](t, text).Differences {
		got = append(got, d.Name)
	}
	if want := "timeout env.A env.C metadata.user idle_s ends_at"; strings.Join(got, " ") != want ||
		strings.Contains(text, "secret") || strings.Contains(text, `"another"`) {
		t.Errorf("%v, want %s: %s", got, want, text)
	}
	p := r.refused("POST", "/v1/sandboxes", `{"name":"work","if_exists":"fail"}`, nil, 409)
	if p.Detail != "name: a sandbox named work exists already" {
		t.Errorf("%+v", p)
	}
	r.ok(201, "POST", "/v1/sandboxes", `{"name":"other","if_exists":"fail"}`)
	r.refused("POST", "/v1/sandboxes", `{"name":"work","if_exists":"replace"}`, nil, 400)
}

// TestUnnamedContext: a context without a name gets one; runs find it by its id.
func TestUnnamedContext(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	r.ok(201, "POST", "/v1/sandboxes", `{"name":"work"}`)
	first := parse[api.Context](t, r.ok(201, "POST", "/v1/sandboxes/work/contexts", `{"env":{"A":"1"}}`))
	second := parse[api.Context](t, r.ok(201, "POST", "/v1/sandboxes/work/contexts", `{}`))
	if first.ID == "" || first.Name == second.Name || first.ID == second.ID {
		t.Errorf("%+v, %+v", first, second)
	}
	a := parse[api.Answer](t, r.ok(200, "POST", "/v1/sandboxes/work/run", jsonOf(object{"context": first.ID,
		"code": "import os; os.environ['A'] + os.environ['B']", "env": object{"B": "2"}})))
	if a.Text != "=> '12'" {
		t.Errorf("%+v", a)
	}
}

// TestPatchLimits: the limits of later runs change, and others are refused by name.
func TestPatchLimits(t *testing.T) {
	r := newRig(t, engine.Config{Max: sandbox.Limits{Timeout: time.Hour}}, httpd.Config{})
	const work = "/v1/sandboxes/work"
	r.ok(201, "POST", "/v1/sandboxes", `{"name":"work"}`)
	s := parse[api.Sandbox](t, r.ok(200, "PATCH", work, `{"limits":{"timeout_s":0.2,"output_kib":1}}`))
	if s.Limits.TimeoutS == nil || *s.Limits.TimeoutS != 0.2 || *s.Limits.OutputKiB != 1 {
		t.Errorf("%+v", s.Limits)
	}
	a := parse[api.Answer](t, r.ok(200, "POST", work+"/run", `{"command":["sleep","60"]}`))
	if a.Status != sandbox.StatusTimeout {
		t.Errorf("%+v", a)
	}
	for limits, want := range map[string]string{
		`{"pids":200}`: "limits.pids: is fixed when", `{"memory_mib":1024}`: "limits.memory_mib: the backend fake",
		`{"timeout_s":7200}`: "limits.timeout_s: 2h0m0s is over the server's maximum"} {
		res, text := r.do("PATCH", work, `{"limits":`+limits+`}`, nil)
		if p := parse[api.Problem](t, text); res.StatusCode/100 != 4 || !strings.HasPrefix(p.Detail, want) {
			t.Errorf("%s: %s, %s", limits, res.Status, p.Detail)
		}
	}
	if s := parse[api.Sandbox](t, r.ok(200, "GET", work, "")); *s.Limits.TimeoutS != 0.2 {
		t.Errorf("%+v", s.Limits)
	}
}

// TestRunText: the text of a run in the background is that of one whose answer was waited for; lists of runs are
// filtered by metadata.
func TestRunText(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	const work = "/v1/sandboxes/work"
	r.ok(201, "POST", "/v1/sandboxes", `{"name":"work"}`)
	for i, code := range []string{"print('a\\rb' * 3)\n6*7", "1/0",
		"import sys; sys.stderr.write('e'); print('x' * 600_000)",
		"pass"} {
		body := object{"code": code, "metadata": object{"n": fmt.Sprint(i)}}
		want := parse[api.Answer](t, r.ok(200, "POST", work+"/run", jsonOf(body))).Text
		body["background"] = true
		x := parse[api.Run](t, r.ok(202, "POST", work+"/run", jsonOf(body)))
		path := work + "/runs/" + string(x.ID)
		eventually(t, "it ends", func() bool {
			return parse[api.Run](t, r.ok(200, "GET", path,
				"")).Status != "running"
		})
		got := parse[api.Run](t, r.ok(200, "GET", path+"?text=1", ""))
		if cell := regexp.MustCompile(`cell \d+`); cell.ReplaceAllString(got.Text, "") != cell.ReplaceAllString(want,
			"") {
			t.Errorf("%s: %.500q, want %.500q", code, got.Text, want)
		}
		list := parse[api.RunList](t, r.ok(200, "GET", work+"/runs?metadata=n:"+fmt.Sprint(i), "")).Runs
		if len(list) != 2 || list[0].Metadata["n"] != fmt.Sprint(i) || list[0].Text != "" {
			t.Errorf("%+v", list)
		}
	}
	r.refused("GET", work+"/runs?metadata=n", "", nil, 400)
}
