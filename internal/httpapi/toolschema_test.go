package httpapi_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/mcp"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestToolSchema: the arguments of run_code, as `fumehood tools` describes them, are bodies of runs, fresh and living.
func TestToolSchema(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	r.ok(201, "POST", "/v1/sandboxes", `{"name":"work"}`)
	text, err := mcp.Function("anthropic")
	if err != nil {
		t.Fatal(err)
	}
	schema := parse[struct {
		Input struct {
			Properties map[string]struct{ Enum []string }
			Examples   []map[string]any
		} `json:"input_schema"`
	}](t, string(text)).Input
	calls := schema.Examples
	for _, language := range schema.Properties["language"].Enum {
		calls = append(calls, map[string]any{"code": "1", "language": language})
	}
	used := map[string]bool{"packages": true} // this server installs none
	for _, arguments := range calls {
		for name := range arguments {
			used[name] = true
		}
		body, _ := json.Marshal(arguments)
		for _, path := range []string{"/v1/run", "/v1/sandboxes/work/run"} {
			a := parse[api.Answer](t, r.ok(200, "POST", path, string(body)))
			if a.Text == "" || a.Status != sandbox.StatusSucceeded && arguments["code"] != "1" {
				t.Errorf("%s: %+v", body, a)
			}
		}
	}
	if len(used) != len(schema.Properties) || len(schema.Examples) < 2 {
		t.Errorf("the examples have %v of %v", slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(schema.Properties)))
	}
	a := parse[api.Answer](t, r.ok(200, "POST", "/v1/sandboxes/work/run", jsonOf(schema.Examples[0])))
	if a.Text != "=> 42" {
		t.Errorf("%+v", a)
	}
}
