package egress

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// TestDeniedBehindOther: new rules end an answer of a name that they deny, also if the connection has stated another
// name since.
func TestDeniedBehindOther(t *testing.T) {
	for _, more := range []string{"", "GET / HTTP/1.1\r\nHost: other.example\r\n\r\n"} {
		p := newPlace(t, allow("site.example", "other.example"))
		asked, changed := make(chan struct{}), make(chan struct{})
		p.web(func(w http.ResponseWriter, r *http.Request) {
			if r.Host == "site.example" {
				_ = http.NewResponseController(w).Flush()
				close(asked)
				<-changed
			}
			fmt.Fprint(w, r.Host)
		}, site)
		for _, name := range []string{"site.example", "other.example"} {
			p.world.name(name, site)
			if _, err := p.look("ip4", name); err != nil {
				t.Fatal(err)
			}
		}
		c := p.mustDial("tcp", site+":80")
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: site.example\r\n\r\n"+more)
		<-asked
		p.setPolicy(allow("other.example"))
		close(changed)
		if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
			if b, err := io.ReadAll(answer.Body); err == nil || len(b) > 0 {
				t.Errorf("behind %q: %q, %v", more, b, err)
			}
		}
	}
}
