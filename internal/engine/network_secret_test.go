package engine

import (
	"reflect"
	"slices"
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

// TestKeepAllValues: a change of a network gives all values of secrets or keeps all. A lost value is not kept.
func TestKeepAllValues(t *testing.T) {
	for _, c := range []struct{ had, gives, refused string }{
		{"ab", "--", ""}, {"ab", "cd", ""}, {"-b", "c-", "secrets[1].value"}, {"ab", "-d", "secrets[0].value"},
		{"a-", "-d", "secrets[0].value"}, {"a-", "c-", ""}, {"--", "-d", ""},
	} {
		policy := func(values string) (p sandbox.NetworkPolicy) {
			for i, name := range []string{"A", "B"} {
				p.Secrets = append(p.Secrets, sandbox.Secret{Name: name, Hosts: []string{"a.test"},
					Value: strings.Trim(values[i:i+1], "-")})
			}
			return p
		}
		s, next := &Sandbox{}, policy(c.gives)
		s.record.Spec.Network = policy(c.had)
		s.record.Spec.Network.Authority = &sandbox.Authority{}
		err := s.keepSecrets(&next)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused+": ") {
			t.Errorf("%s by %s: %v, want %q", c.had, c.gives, err, c.refused)
		}
	}
}

// TestFormerSecrets: what a sandbox's secrets were stays hidden, in bounds.
func TestFormerSecrets(t *testing.T) {
	secret := func(value string, hosts ...string) sandbox.Secret {
		return sandbox.Secret{Name: "A", Value: value, Hosts: hosts}
	}
	policy := func(former ...sandbox.Secret) *sandbox.NetworkPolicy {
		last := len(former) - 1
		return &sandbox.NetworkPolicy{Secrets: former[last:], Former: former[:last]}
	}
	many := slices.Repeat([]string{"b"}, maxFormerHosts)
	long := strings.Repeat("x", maxFormerBytes-1)
	one, two, both := secret("1", "a"), secret("2", "a"), secret("1", "a", "b")
	for name, c := range map[string]struct {
		old  *sandbox.NetworkPolicy
		next sandbox.Secret
		want []sandbox.Secret
	}{
		"the same":          {policy(one), both, nil},
		"another value":     {policy(one), two, []sandbox.Secret{one}},
		"another host":      {policy(both), one, []sandbox.Secret{both}},
		"a third":           {policy(one, two), secret("3", "a"), []sandbox.Secret{one, two}},
		"back":              {policy(one, two), one, []sandbox.Secret{two}},
		"lost at a restart": {policy(secret("", "a")), two, nil},
		"over the bound of hosts": {policy(one, sandbox.Secret{Name: "A", Value: "1", Hosts: many}), two,
			[]sandbox.Secret{{Name: "A", Value: "1", Hosts: many}}},
		"over the bound": {policy(secret("12", "a"), secret(long, "a")), two, []sandbox.Secret{secret(long, "a")}},
	} {
		got := formerSecrets(c.old, &sandbox.NetworkPolicy{Secrets: []sandbox.Secret{c.next}})
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, not %+v", name, got, c.want)
		}
	}
}
