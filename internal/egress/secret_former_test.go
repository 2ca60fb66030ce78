//go:build linux

package egress

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestFormerValue: after a change of a secret, no answer repeats its earlier value, also not one of a host that has no
// secret any more, and none that was being sent meanwhile repeats the new one.
func TestFormerValue(t *testing.T) {
	const next = "ghp_N3wValue01234567890"
	asked, changed := make(chan struct{}), make(chan struct{})
	policy := allow("other.test", "api.test")
	policy.Secrets = []sandbox.Secret{{Name: "TOKEN", Hosts: []string{"api.test"}, Value: token}}
	complete(t, &policy)
	p, outside, trust := openPlace(t, policy, func(_ *Host, v *vault) {
		v.knows = map[string]http.HandlerFunc{"/slow": func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			close(asked)
			<-changed
			fmt.Fprintln(w, "then", next)
		}, "/both": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, token, next) }}
	})
	curl := "curl -sS --cacert " + trust + " https://"
	slow := make(chan string, 1)
	go func() { slow <- p.run(curl + "api.test/slow") }()
	<-asked
	former := policy.Secrets[0]
	policy.Secrets = []sandbox.Secret{former}
	policy.Secrets[0].Value, policy.Former = next, []sandbox.Secret{former}
	p.setPolicy(policy)
	close(changed)
	held := former.Placeholder
	if got := <-slow; got != "then "+held+"\n" && got != "then "+held {
		t.Errorf("an answer of before the change: %q", got)
	}
	both := held + " " + held
	if got := p.run(curl + "api.test/both"); strings.TrimSpace(got) != both {
		t.Errorf("with the new value: %q", got)
	}
	policy.Secrets[0].Hosts = []string{"other.test"}
	p.setPolicy(policy)
	for _, name := range []string{"api.test", "other.test"} {
		if got := p.run(curl + name + "/both"); strings.TrimSpace(got) != both {
			t.Errorf("%s, for another host: %q", name, got)
		}
	}
	outside.mu.Lock()
	outside.seen = nil
	outside.mu.Unlock()
	p.run(strings.Replace(curl, "-sS", "-sS -H 'Authorization: "+held+"'", 1) + "api.test/")
	if got := outside.all(); got != "api.test "+held {
		t.Errorf("a former host saw %q", got)
	}
}

// TestForgottenValue: an answer that is being sent while its value drops out of the earlier ones breaks off.
func TestForgottenValue(t *testing.T) {
	asked, changed := make(chan struct{}), make(chan struct{})
	policy := allow()
	policy.Secrets = []sandbox.Secret{{Name: "TOKEN", Hosts: []string{"api.test"}, Value: token}}
	complete(t, &policy)
	p, _, trust := openPlace(t, policy, func(_ *Host, v *vault) {
		v.knows = map[string]http.HandlerFunc{"/slow": func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			close(asked)
			<-changed
			fmt.Fprintln(w, "then", r.Header.Get("Authorization"))
		}}
	})
	former := policy.Secrets[0]
	curl := "curl -sS -H 'Authorization: " + former.Placeholder + "' --cacert " + trust + " https://api.test/slow"
	slow := make(chan string, 1)
	go func() { slow <- p.run(curl) }()
	<-asked
	policy.Secrets = []sandbox.Secret{former}
	policy.Secrets[0].Value, policy.Former = "ghp_N3wValue01234567890", []sandbox.Secret{former}
	p.setPolicy(policy)
	policy.Former = nil
	p.setPolicy(policy)
	close(changed)
	// If the gate has passed on the head of the answer, it resets the stream and the connection: curl sees either first.
	// Else the gate answers itself.
	got := <-slow
	ended := strings.Contains(got, "[exit status") || strings.Contains(got, "api.test:443: it was canceled")
	if !ended || strings.Contains(got, "then") {
		t.Errorf("%q", got)
	}
}

// TestHiddenAgain: an answer that began while no value was removed from it breaks off once one is, also on a connection
// from whose answers values were removed before.
func TestHiddenAgain(t *testing.T) {
	asked, changed := make(chan struct{}), make(chan struct{})
	policy := allow("api.test")
	policy.Secrets = []sandbox.Secret{{Name: "TOKEN", Hosts: []string{"api.test"}, Value: token}}
	complete(t, &policy)
	known, lost := policy.Secrets, policy.Secrets[0]
	lost.Value = "" // as after a restart
	policy.Secrets = []sandbox.Secret{lost}
	p, _, trust := openPlace(t, policy, func(_ *Host, v *vault) {
		v.knows = map[string]http.HandlerFunc{"/slow": func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			close(asked)
			<-changed
			fmt.Fprintln(w, "then", token)
		}}
	})
	conn := p.secretClient(t, "93.184.216.40:443", "api.test", trust)
	in := bufio.NewReader(conn)
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
	if answer, err := http.ReadResponse(in, nil); err != nil || answer.StatusCode != http.StatusForbidden {
		t.Fatal(answer, err)
	} else if _, err = io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	lost.Hosts = []string{"other.test"}
	policy.Secrets = []sandbox.Secret{lost}
	p.setPolicy(policy)
	fmt.Fprint(conn, "GET /slow HTTP/1.1\r\nHost: api.test\r\n\r\n")
	<-asked
	policy.Secrets = known
	p.setPolicy(policy)
	close(changed)
	if got, _ := io.ReadAll(in); strings.Contains(string(got), token) {
		t.Errorf("%q", got)
	}
}

// TestWithdrawnHost: a request that was being read when a change took the host from the secret carries no value.
func TestWithdrawnHost(t *testing.T) {
	policy := allow("api.test", "other.test")
	policy.Secrets = []sandbox.Secret{{Name: "TOKEN", Hosts: []string{"api.test"}, Value: token,
		Places: []sandbox.SecretPlace{sandbox.InBody}}}
	complete(t, &policy)
	p, outside, trust := openPlace(t, policy)
	former := policy.Secrets[0]
	c := p.secretClient(t, "93.184.216.40:443", "api.test", trust)
	body := fmt.Sprintf(`{"k":%q}`, former.Placeholder)
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: api.test\r\nAuthorization: %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", former.Placeholder, len(body), body[:3])
	for s := p.gate.Current(); len(s) == 0 || s[0].Sent < int64(len(body)); s = p.gate.Current() {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond) // its head has been read
	policy.Secrets = []sandbox.Secret{former}
	policy.Secrets[0].Hosts, policy.Former = []string{"other.test"}, []sandbox.Secret{former}
	p.setPolicy(policy)
	fmt.Fprint(c, body[3:])
	if got, _ := io.ReadAll(c); len(got) > 0 {
		t.Errorf("it was answered: %q", got)
	}
	if got := outside.all(); strings.Contains(got, token) {
		t.Errorf("a former host saw %q", got)
	}
}
