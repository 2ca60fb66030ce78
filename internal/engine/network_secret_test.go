package engine

import (
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestCheckWithoutValue: a change of a network sends a secret to no new host and in no new header without its value.
func TestCheckWithoutValue(t *testing.T) {
	usual := sandbox.Secret{Name: "A", Hosts: []string{"a.test", "b.test:8443"}}
	named := sandbox.Secret{Name: "A", Hosts: []string{"a.test"}, Headers: []string{"X-Key", "X-Other"}}
	for _, c := range []struct {
		before, after sandbox.Secret
		refused       string
	}{
		{usual, usual, ""}, {named, named, ""},
		{usual, sandbox.Secret{Hosts: []string{"b.test:8443"}}, ""},
		{named, sandbox.Secret{Hosts: named.Hosts, Headers: []string{"X-Key"}}, ""},
		{usual, sandbox.Secret{Hosts: []string{"a.test", "evil.test"}}, "secrets[7].hosts[1]"},
		{usual, sandbox.Secret{Hosts: []string{"b.test"}}, "secrets[7].hosts[0]"},
		{usual, sandbox.Secret{Hosts: []string{"*.a.test"}}, "secrets[7].hosts[0]"},
		{usual, sandbox.Secret{Hosts: usual.Hosts, Headers: []string{"X-Goog-Meta-K"}}, "secrets[7].headers[0]"},
		{named, sandbox.Secret{Hosts: named.Hosts}, "secrets[7].headers"},
		{named, sandbox.Secret{Hosts: named.Hosts, Headers: []string{"X-Key", "Cookie"}}, "secrets[7].headers[1]"},
	} {
		err := checkWithoutValue(7, &c.before, &c.after)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused+": ") {
			t.Errorf("%v %v to %v %v: %v, want %q", c.before.Hosts, c.before.Headers, c.after.Hosts, c.after.Headers,
				err, c.refused)
		}
	}
}
