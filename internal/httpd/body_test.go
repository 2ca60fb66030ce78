package httpd

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/room"
)

// H04: a body that drips is given up. One that came whole leaves no deadline behind, which would end a long run as if
// the client had gone away.
func TestBodyTimes(t *testing.T) {
	const brief, long = 200 * time.Millisecond, 5 * time.Minute
	bounds := map[string]bodyBounds{
		"/whole": {most: 1 << 20, pace: pace{rate: leastRate, timeout: brief}, total: brief},
		"/half":  {most: 1 << 20, pace: pace{rate: leastRate, timeout: brief}, total: long},
		"/drip":  {most: 1 << 20, pace: pace{rate: leastRate, timeout: brief}, total: long},
		"/late":  {most: 1 << 20, pace: pace{rate: 1, timeout: long}, total: brief},
	}
	for path, b := range bounds {
		c := newCost()
		b.cost = &c
		bounds[path] = b
	}
	bodies := room.New(4<<20, 2<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := readBody(http.NewResponseController(w), r, bounds[r.URL.Path], bodies, "me")
		defer b.Release()
		if err != nil {
			writeProblem(w, problemOf(err, "x"))
			return
		}
		select {
		case <-r.Context().Done():
			w.WriteHeader(http.StatusTeapot)
		case <-time.After(2 * brief):
		}
	}))
	defer server.Close()
	// What the server says to a request, whose body begins in the same write: a whole one is there when it is read,
	// however late that is.
	send := func(path string, length int, body string, more func(io.Writer)) string {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", path,
			length, body)
		more(conn)
		out, _ := io.ReadAll(conn)
		return string(out)
	}
	nothing := func(io.Writer) {}
	if out := send("/whole", 10, "1234567890", nothing); !strings.HasPrefix(out, "HTTP/1.1 200") {
		t.Errorf("a whole body: %s", out)
	}
	if out := send("/half", 10, "12345", nothing); !strings.HasPrefix(out, "HTTP/1.1 408") {
		t.Errorf("half a body: %s", out)
	}
	drip := func(to io.Writer) { // until the server has given up
		for err := error(nil); err == nil; time.Sleep(brief / 20) {
			_, err = io.WriteString(to, "x")
		}
	}
	for _, path := range []string{"/drip", "/late"} {
		// 900 KiB at once buy nothing. It says "" where the connection was reset before the answer was read.
		if out := send(path, 1<<20, strings.Repeat("x", 900<<10), drip); out != "" && !strings.HasPrefix(out,
			"HTTP/1.1 408") {
			t.Errorf("%s: %s", path, out)
		}
	}
	if held := bodies.Held(); held != 0 {
		t.Errorf("%d bytes are still counted", held)
	}
}
