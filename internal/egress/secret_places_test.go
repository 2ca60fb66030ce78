//go:build linux

package egress

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestSecretPlaces: a value goes into queries and bodies whose encoding is known, if the secret permits it, and never
// comes back. Placeholders elsewhere stay, and are reported.
func TestSecretPlaces(t *testing.T) {
	const value = `s"cr+t/\ v=1`
	policy := allow()
	policy.Secrets = []sandbox.Secret{
		{Name: "OPEN", Hosts: []string{"api.test"}, Value: value,
			Places: []sandbox.SecretPlace{sandbox.InBody, sandbox.InQuery, sandbox.InPath}},
		{Name: "SHUT", Hosts: []string{"api.test"}, Value: "shut-" + token},
		{Name: "OTHER", Hosts: []string{"other.test"}, Value: "other-" + token}}
	complete(t, &policy)
	open, shut := policy.Secrets[0].Placeholder, policy.Secrets[1].Placeholder
	var mu sync.Mutex
	var seen string
	at, _, trust := openPlace(t, policy, func(_ *Host, v *vault) {
		echo := func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			seen = r.URL.RawQuery + "|" + string(body)
			if r.ContentLength != int64(len(body)) {
				seen += fmt.Sprintf(" with the length %d, %v", r.ContentLength, err)
			}
			fmt.Fprint(w, seen, r.RequestURI)
		}
		v.knows = map[string]http.HandlerFunc{"/x": echo, "/bot" + value + "/y": echo}
	})
	quoted, _ := json.Marshal(value)
	form := url.QueryEscape(value)
	large := `"{\"k\":\"` + open + `\",\"x\":\"$(head -c 1100000 /dev/zero | tr '\0' x)\"}"`
	for _, c := range []struct{ args, seen, why string }{
		{"'https://api.test/x?a=1&k=" + open + "'", "a=1&k=" + form + "|", ""},
		{"https://api.test/bot" + open + "/y?1", "1|", ""},
		{"-d k=" + open + "b https://api.test/x", "|k=" + form + "b", ""},
		{"--http1.1 --json '{\"k\":\"" + open + "\"}' https://api.test/x", `|{"k":` + string(quoted) + "}", ""},
		{"-H 'Content-Type: text/plain' -d " + open + " https://api.test/x", "|" + open, "OPEN body content"},
		{"-d k=" + shut + " https://api.test/x", "|k=" + shut, "SHUT body place"},
		{"'https://api.test/x?k=" + shut + "'", "k=" + shut + "|", "SHUT query place"},
		{"-d k=" + policy.Secrets[2].Placeholder + " https://api.test/x",
			"|k=" + policy.Secrets[2].Placeholder, "OTHER body host"},
		{"https://api.test/x/" + shut, "", "SHUT path place"},
	} {
		mu.Lock()
		seen = ""
		mu.Unlock()
		got := at.run("curl -sS --cacert " + trust + " " + c.args)
		mu.Lock()
		if seen != c.seen {
			t.Errorf("%s: the server saw %q, want %q", c.args, seen, c.seen)
		}
		mu.Unlock()
		for _, hidden := range []string{value, form, url.PathEscape(value), string(quoted[1 : len(quoted)-1])} {
			if strings.Contains(got, hidden) {
				t.Errorf("%s: %q came back", c.args, got)
			}
		}
		var told []string
		for _, m := range at.gate.Misplaced(0, 10) {
			told = append(told, fmt.Sprint(m.Secret, " ", m.Place, " ", m.Reason))
		}
		if c.why != "" && !slices.Contains(told, c.why) || c.why == "" && len(told) > 0 {
			t.Errorf("%s: reported %q, want %q", c.args, told, c.why)
		}
	}
	got := at.run("echo " + large + " | curl -sS --cacert " + trust + " --json @- https://api.test/x | head -c 100")
	if !strings.HasPrefix(got, `|{"k":"`+open) {
		t.Errorf("a large body: %q", got)
	}
}
