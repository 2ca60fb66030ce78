package image

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/fumehood-dev/fumehood/internal/egress/egresstest"
)

// TestRedirects: no answer of a registry leads to this machine, whatever makes an address this machine's, nor to a
// metadata service; also not by its own name, without TLS.
func TestRedirects(t *testing.T) {
	if !egresstest.Inside(t) {
		return
	}
	w := egresstest.New(t)
	w.Host("route add local 11.22.40.0/24 dev lo")
	w.Name("registry.test", "127.0.0.1")
	l, err := net.Listen("tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			t.Errorf("%s was reached", r.Host)
			_, _ = io.WriteString(w, "{}")
		}))
	}()
	ref, err := name.ParseReference("registry.test/app:a")
	if err != nil {
		t.Fatal(err)
	}
	_, guard := openStore(t).registryOptions(t.Context(), ref)
	for _, host := range []string{"registry.test", "11.22.40.9", "127.0.0.1", egresstest.HostAddress,
		"169.254.169.254", "100.100.100.200", "[::ffff:127.0.0.1]", "[64:ff9b::a9fe:a9fe]"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := guard.RoundTrip(r); err == nil {
			a.Body.Close()
			t.Errorf("%s answers", host)
		}
	}
	for addr, want := range map[string]bool{"8.8.8.8:443": true, "10.1.2.3:443": true, "[fd00:ec2::254]:80": false} {
		if err := refuseOwn(addr); (err == nil) != want {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
