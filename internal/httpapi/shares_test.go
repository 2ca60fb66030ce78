package httpapi_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestSharesOfKeys: whichever endpoint one client's sleeping runs come by, they leave slots and places for another's.
func TestSharesOfKeys(t *testing.T) {
	var keys []httpd.Key
	var headers []header
	for _, name := range []string{"hog", "other"} {
		secret := httpd.NewSecret()
		key, err := httpd.NewKey(name, secret)
		if err != nil {
			t.Fatal(err)
		}
		keys, headers = append(keys, key), append(headers, header{"X-API-Key": secret})
	}
	g := newGate(t)
	r := newRig(t, engine.Config{Backends: []sandbox.Backend{g}, Slots: 4, Queue: 20,
		Shares: engine.Shares{OwnerSlots: 3, OwnerQueue: 5}}, httpd.Config{Keys: httpd.NewKeyring(keys...)})
	var all sync.WaitGroup
	defer all.Wait()
	defer g.open(t, "end")
	var mu sync.Mutex // guards refused
	var refused []string
	program := g.program("await end")
	old := jsonOf(object{"language": "bash", "code": parse[map[string]any](t, program)["code"]})
	for i := range 12 {
		path, body, h := "/v1/run", program, header{"X-API-Key": headers[0]["X-API-Key"]}
		switch i % 3 {
		case 1:
			h["Accept"] = "text/event-stream"
		case 2:
			path, body = "/execute", old
		}
		all.Go(func() {
			res, err := r.ask("POST", path, body, h)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			text, _ := io.ReadAll(res.Body)
			if res.StatusCode == http.StatusTooManyRequests {
				mu.Lock()
				refused = append(refused, string(text))
				mu.Unlock()
			}
		})
	}
	eventually(t, "the rest is refused", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(refused) >= 4
	})
	if s := r.engine.Stats(); s.Running != 3 || s.Queued != 5 {
		t.Errorf("it holds %d slots and %d places, want 3 and 5", s.Running, s.Queued)
	}
	if !strings.Contains(refused[0], `the share of \"hog\" is full`) {
		t.Errorf("the problem is %s", refused[0])
	}
	if res, text := r.do("POST", "/v1/run", bash("true"), headers[1]); res.StatusCode != http.StatusOK {
		t.Errorf("another client gets %s: %s", res.Status, text)
	}
}
