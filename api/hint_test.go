package api_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestHints: a hint of every code survives JSON with its facts; one of an unknown code survives unchanged.
func TestHints(t *testing.T) {
	hints := []sandbox.Hint{
		sandbox.HintTimeout{Bound: sandbox.Bound{Limit: sandbox.LimitTimeout, Value: 1e9, Raise: 1 << 50}},
		sandbox.HintNoModule{Name: "yaml", Offer: sandbox.Offer{Packages: true, Package: "pyyaml"}},
		sandbox.HintRefused{Refusals: []sandbox.NetworkRefusal{{Target: "a:1", Reason: "b", Allow: "a:1"}}, Living: true},
		sandbox.FixText{Text: "words"},
	}
	for _, h := range sandbox.Hints {
		hints = append(hints, h)
	}
	for _, h := range hints {
		text := "words"
		if _, fix := h.(sandbox.FixText); fix {
			h = sandbox.FixText{Text: text}
		}
		encoded, err := json.Marshal(api.NewHint(h, text))
		if err != nil {
			t.Fatal(err)
		}
		var decoded api.Hint
		err = json.Unmarshal(encoded, &decoded)
		if err != nil || !reflect.DeepEqual(decoded.Typed(), h) || decoded.Text != text {
			t.Errorf("%s became %#v, %v, not %#v", encoded, decoded.Typed(), err, h)
		}
	}
	bound := sandbox.Bound{Limit: sandbox.LimitTimeout, Value: 1.5e9, Raise: 60e9}
	encoded, _ := json.Marshal(api.NewHint(sandbox.HintWaited{Bound: bound, NoNetwork: true}, ""))
	const want = `{"code":"waited","facts":{"limit":"timeout_s","no_network":true,"raise":60,"value":1.5}}`
	if string(encoded) != want {
		t.Errorf("%s, not in the units of the API: %s", encoded, want)
	}
	for _, h := range []api.Hint{
		{Code: "of the future", Text: "words", Facts: map[string]any{"limit": 1.0}},
		{Code: "of the future", Text: "words"},
		{Code: sandbox.HintTimeout{}.Code(), Text: "words", Facts: "other facts"},
	} {
		typed := h.Typed()
		if again := api.NewHint(typed, "other words"); typed.Code() != h.Code || !reflect.DeepEqual(again, h) {
			t.Errorf("%#v became %#v", h, again)
		}
	}
}
