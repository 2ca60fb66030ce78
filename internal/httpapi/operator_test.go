package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// TestOperator: the key of an operator lists, describes and ends the sandboxes of others, and does nothing else in
// them. Other keys see only their own.
func TestOperator(t *testing.T) {
	keys := map[string]header{}
	var ring []httpd.Key
	for _, name := range []string{"alice", "bob", "root"} {
		secret := httpd.NewSecret()
		key, err := httpd.NewKey(name, secret)
		if err != nil {
			t.Fatal(err)
		}
		key.Limits.Operator = name == "root"
		ring, keys[name] = append(ring, key), header{"Authorization": "Bearer " + secret}
	}
	r := newRig(t, engine.Config{}, httpd.Config{Keys: httpd.NewKeyring(ring...)})
	_, text := r.do("POST", "/v1/sandboxes", `{"name": "a"}`, keys["alice"])
	other := "/v1/sandboxes/" + string(parse[api.Sandbox](t, text).ID)
	r.do("POST", "/v1/sandboxes", `{"name": "r"}`, keys["root"])

	_, text = r.do("GET", "/v1/sandboxes?all=1", "", keys["root"])
	list := parse[api.SandboxList](t, text).Sandboxes
	if len(list) != 2 || list[0].Owner != "alice" || list[1].Owner != "root" {
		t.Errorf("all: %s", text)
	}
	if _, text = r.do("GET", "/v1/sandboxes", "", keys["root"]); len(parse[api.SandboxList](t, text).Sandboxes) != 1 {
		t.Errorf("the operator's own: %s", text)
	}
	r.refused("GET", "/v1/sandboxes?all=1", "", keys["bob"], http.StatusForbidden)
	for name, want := range map[string]bool{"alice": false, "root": true} {
		_, text = r.do("GET", "/v1/capabilities", "", keys[name])
		if parse[api.Capabilities](t, text).Operator != want {
			t.Errorf("capabilities of %s: operator %v", name, !want)
		}
	}
	for _, path := range []string{other, other + "/stats"} {
		if res, text := r.do("GET", path, "", keys["root"]); res.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s", path, text)
		}
		r.refused("GET", path, "", keys["bob"], http.StatusNotFound)
	}
	r.refused("GET", "/v1/sandboxes/a", "", keys["root"], http.StatusNotFound) // names are of their owner
	r.refused("GET", other+"/runs", "", keys["root"], http.StatusNotFound)
	r.refused("POST", other+"/run", `{"code": "1"}`, keys["root"], http.StatusNotFound)
	r.refused("DELETE", other, "", keys["bob"], http.StatusNotFound)
	if res, text := r.do("DELETE", other, "", keys["root"]); res.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", text)
	}
	r.refused("GET", other, "", keys["alice"], http.StatusNotFound)
}
