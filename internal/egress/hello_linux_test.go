package egress

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// renames states another name in each hello after the first one.
type renames struct {
	net.Conn
	name   string
	hellos int
}

func (r *renames) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("site.example")) {
		if r.hellos++; r.hellos > 1 {
			b = bytes.Replace(b, []byte("site.example"), []byte(r.name), 1)
		}
	}
	return r.Conn.Write(b)
}

// twoHellos makes a server for site.example that requests another hello, and returns a function that connects to it,
// and states a name in that hello.
func (p *place) twoHellos(t *testing.T) func(second string) *tls.Conn {
	server := httptest.NewUnstartedServer(nil)
	server.TLS = &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP384}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	p.world.at("tcp", site+":443", server.Listener.Addr().String())
	p.world.name("site.example", site)
	if _, err := p.look("ip4", "site.example"); err != nil {
		t.Fatal(err)
	}
	return func(second string) *tls.Conn {
		return tls.Client(&renames{Conn: p.mustDial("tcp", site+":443"), name: second}, &tls.Config{
			ServerName: "site.example", InsecureSkipVerify: true,
			CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP384}})
	}
}

// TestSecondHello: a server may request another hello, which must state the name that was checked.
func TestSecondHello(t *testing.T) {
	p := newPlace(t, allow("site.example"))
	dial := p.twoHellos(t)
	for name, reason := range map[string]string{"site.example": "", "evil.example": sniff.ErrRetry.Error()} {
		seq := p.gate.Position()
		c := dial(name)
		err := c.Handshake()
		again := c.ConnectionState().HelloRetryRequest
		c.Close()
		a := p.loggedAfter(seq, "is the connection", func(a Attempt) bool { return a.Port == 443 })
		if refused := reason != ""; a.Allowed == refused || refused && a.Reason != reason ||
			!refused && (err != nil || !again) {
			t.Errorf("%s: %v, %+v", name, err, a)
		}
	}
}

// TestSecondHelloUnchecked: where names do not matter yet, the name of a connection with two names is unknown.
func TestSecondHelloUnchecked(t *testing.T) {
	p := newPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull})
	dial := p.twoHellos(t)
	for name, want := range map[string]string{"site.example": "site.example", "evil.example": ""} {
		seq := p.gate.Position()
		c := dial(name)
		_ = c.Handshake() // the server of the test refuses another name, too
		c.Close()
		if a := p.loggedAfter(seq, "is the connection", func(a Attempt) bool { return a.Port == 443 }); a.Name != want {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
