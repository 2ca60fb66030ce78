package e2bapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestNetworkPolicy: a policy allows what E2B's rules allow, and never more.
func TestNetworkPolicy(t *testing.T) {
	const on, some = sandbox.NetworkFull, sandbox.NetworkRestricted
	full := sandbox.NetworkPolicy{Mode: sandbox.NetworkFull}
	for rules, want := range map[string]sandbox.NetworkPolicy{
		`{}`:                                                    full,
		`{"egressProxy":null,"rules":{}}`:                       full,
		`{"allowOut":["a.example"]}`:                            full, // nothing is denied
		`{"allowOut":["10.0.0.0/8"]}`:                           {Mode: on, Allow: []string{"10.0.0.0/8"}},
		`{"denyOut":["1.1.1.1"]}`:                               {Mode: on, Deny: []string{"1.1.1.1"}},
		`{"denyOut":["1.1.1.1"],"allowOut":["1.1.1.1"]}`:        {Mode: on, Allow: []string{"1.1.1.1"}},
		`{"allow_internet_access":false}`:                       {},
		`{"allow_internet_access":false,"allowOut":["b.test"]}`: {Mode: some, Allow: []string{"b.test"}},
		`{"denyOut":["0.0.0.0/0"],"allowOut":["b.test"]}`:       {Mode: some, Allow: []string{"b.test"}},
	} {
		var n network
		if err := json.Unmarshal([]byte(rules), &n); err != nil {
			t.Errorf("%s: %v", rules, err)
			continue
		}
		if got, err := n.policy(nil); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %v, not %+v", rules, got, err, want)
		}
	}
	// Comparing each with each of so many takes minutes.
	many := `{"denyOut":["1.1.1.1"` + strings.Repeat(`,"1.1.1.1"`, 40_000) + `],"allowOut":["2.2.2.2"` +
		strings.Repeat(`,"2.2.2.2"`, 40_000) + `]}`
	for rules, want := range map[string]string{
		`{"denyOut":["1.0.0.0/8"],"allowOut":["1.1.1.1"]}`: "is within the denied",
		`{"denyOut":["1.0.0.0/8"],"allowOut":["a.test"]}`:  "is within the denied",
		`{"dnsServers":["1.1.1.1"]}`:                       "not supported",
		`{"egressProxy":{"address":"a:1"}}`:                "not supported",
		`{"rules":{"a.test":[]}}`:                          "not supported",
		`{"newRule":1}`:                                    "unknown field",
		many:                                               "more than 1000",
	} {
		var n network
		err := json.Unmarshal([]byte(rules), &n)
		if err == nil {
			_, err = n.policy(nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %q", rules, err, want)
		}
	}
}
