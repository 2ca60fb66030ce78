package e2bapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestCreateOnce: requests with one Idempotency-Key make one sandbox, also while the first is being answered.
func TestCreateOnce(t *testing.T) {
	r := newRig(t, httpd.Config{})
	create := func(key, metadata string) (id, failure string) {
		body := `{"allow_internet_access":false,"metadata":{"a":"` + metadata + `"}}`
		_, text := r.do("POST", "/v2/sandboxes", "application/json", []byte(body),
			http.Header{"Idempotency-Key": {key}})
		var out struct {
			SandboxID string
			ErrorCode string `json:"error_code"`
			Message   string
		}
		if err := json.Unmarshal(text, &out); err != nil {
			t.Errorf("%s", text)
		}
		if out.SandboxID == "" && out.ErrorCode == "" {
			out.ErrorCode = out.Message
		}
		return out.SandboxID, out.ErrorCode
	}
	ids := make([]string, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i], _ = create("k", "1") })
	}
	all.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Errorf("%q", ids)
			break
		}
	}
	if id, failure := create("k", "2"); id != "" || failure != "idempotency_request_mismatch" {
		t.Errorf("another request: %q, %s", id, failure)
	}
	if id, failure := create("other", "1"); id == "" || id == ids[0] {
		t.Errorf("another key: %q, %s", id, failure)
	}
	if id, failure := create(strings.Repeat("k", 256), "1"); id != "" || !strings.Contains(failure, "255") {
		t.Errorf("a long key: %q, %s", id, failure)
	}
	if status, text := r.do("DELETE", "/sandboxes/"+ids[0], "", nil, nil); status != 204 {
		t.Fatalf("%d: %s", status, text)
	}
	if id, failure := create("k", "1"); id == "" || id == ids[0] {
		t.Errorf("after the end: %q, %s", id, failure)
	}
}

// TestCeiling: where the operator does not open the whole internet, the error of a client that names no network has the
// options of the SDK.
func TestCeiling(t *testing.T) {
	r := newRig(t, httpd.Config{})
	for mode, want := range map[sandbox.NetworkMode]string{
		sandbox.NetworkNone:       "the whole internet (set allow_internet_access=False)",
		sandbox.NetworkRestricted: "(set allow_internet_access=False, or deny ALL_TRAFFIC and allow hosts: a.test)"} {
		err := r.engine.SetLimits(engine.Config{Max: sandbox.Limits{Timeout: time.Hour},
			Ceiling: &sandbox.NetworkCeiling{Mode: mode, Allow: []string{"a.test"}}})
		if err != nil {
			t.Fatal(err)
		}
		status, text := r.do("POST", "/sandboxes", "application/json", []byte(`{}`), r.key())
		if status != http.StatusBadRequest || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d %s", mode, status, text)
		}
		r.create()
	}
}

// TestUpdatePorts: an update that would close the ports of a sandbox, which it cannot, is refused.
func TestUpdatePorts(t *testing.T) {
	r := newRig(t, httpd.Config{})
	id, _ := r.create()
	for _, body := range []string{`{"allowPublicTraffic":false}`, `{"maskRequestHost":"a.test"}`} {
		status, text := r.do("PUT", "/sandboxes/"+id+"/network", "application/json", []byte(body), r.key())
		if status < 400 || !strings.Contains(string(text), "fixed when a sandbox is created") {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}
