package main

import (
	"slices"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestSecretFlags: --secret-header names the headers of a secret of the same command.
func TestSecretFlags(t *testing.T) {
	a := &app{Main: testApp(t).Main}
	a.LookupEnv = func(string) (string, bool) { return "a long value", true }
	p, err := a.policy(&networkFlags{secrets: []string{"A@a.test,b.test", "B@b.test"},
		headers: []string{"B=X-Mine", "B=Cookie"}})
	if err != nil || p.Secrets[0].Headers != nil || !slices.Equal(p.Secrets[1].Headers, []string{"X-Mine", "Cookie"}) {
		t.Errorf("%+v, %v", p.Secrets, err)
	}
	p, err = a.policy(&networkFlags{secrets: []string{"A@a.test:8443,b.test:body,query", "B@b.test:444",
		"C@c.test:path"}})
	if err != nil || !slices.Equal(p.Secrets[0].Hosts, []string{"a.test:8443", "b.test"}) ||
		!slices.Equal(p.Secrets[0].Places, []sandbox.SecretPlace{"body", "query"}) || p.Secrets[1].Places != nil ||
		!slices.Equal(p.Secrets[2].Places, []sandbox.SecretPlace{"path"}) {
		t.Errorf("%+v, %v", p.Secrets, err)
	}
	if _, err := a.policy(&networkFlags{secrets: []string{"A@a.test:body,cookie"}}); err == nil {
		t.Error("an unknown place is accepted")
	}
	for _, wrong := range []string{"C=X-Mine", "B", "B=", "=X-Mine", "B=Content-Length", "B=a b"} {
		if _, err := a.policy(&networkFlags{secrets: []string{"B@b.test"}, headers: []string{wrong}}); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
