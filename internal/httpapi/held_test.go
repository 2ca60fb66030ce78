package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// newTwoClients is a server with keys, for two clients.
func newTwoClients(t *testing.T, config httpd.Config) (r *rig, alice, bob header) {
	var keys []httpd.Key
	for _, name := range []string{"alice", "bob"} {
		secret := httpd.NewSecret()
		key, err := httpd.NewKey(name, secret)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
		alice, bob = bob, header{"X-API-Key": secret}
	}
	config.Keys = httpd.NewKeyring(keys...)
	return newRig(t, engine.Config{}, config), alice, bob
}

// hold sends a request from an address of this host, and reads the first line of what comes back. The rest stays with
// the server.
func (r *rig) hold(from, request string) (net.Conn, string) {
	r.t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	conn.(*net.TCPConn).SetReadBuffer(4096)
	conn.SetDeadline(time.Now().Add(stepTimeout))
	io.WriteString(conn, request)
	line, _ := bufio.NewReaderSize(conn, 16).ReadString('\n')
	return conn, line
}

// Answers that nobody reads take their client's half of the room. Its further runs keep their slot for a while, or
// until it leaves, and then fail; small answers, and those of others, are given as ever.
func TestUnreadAnswers(t *testing.T) {
	for _, accept := range []string{"application/json", "text/event-stream"} {
		t.Run(accept, func(t *testing.T) {
			const room = 16 << 20
			r, alice, bob := newTwoClients(t, httpd.Config{MaxAnswers: room, WriteTimeout: stepTimeout})
			large := jsonOf(object{"language": "bash", "code": "head -c 5000000 /dev/zero | tr '\\0' x > f",
				"return_files": []string{"f"}})
			r.server.SetWaits(stepTimeout, time.Millisecond)
			held, line := r.hold("127.0.0.1", fmt.Sprintf("POST /v1/run HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nAccept: %s\r\nContent-Length: %d\r\n\r\n%s",
				alice["X-API-Key"], accept, len(large), large))
			if !strings.Contains(line, "200") {
				t.Fatal(line)
			}
			eventually(t, "its answer is held", func() bool {
				_, answers := r.server.Held()
				return answers > 4_900_000 && answers <= room/2
			})
			if p := r.refused("POST", "/v1/run", large, alice, 429); !strings.Contains(p.Detail, "answer was dropped") {
				t.Error(p.Detail)
			}
			if res, text := r.do("POST", "/v1/run", large, bob); res.StatusCode != 200 || len(text) < 5_000_000 {
				t.Errorf("another client: %s", res.Status)
			}
			if res, _ := r.do("POST", "/v1/run", bash("echo 1"), alice); res.StatusCode != 200 {
				t.Errorf("a small answer: %s", res.Status)
			}
			r.server.SetWaits(stepTimeout, stepTimeout)
			ctx, leave := context.WithCancel(t.Context())
			runs := strings.Count(r.log.String(), `"msg":"run"`)
			waits := func(ctx context.Context) <-chan int { // has a run wait for room
				status := make(chan int, 1)
				go func() {
					req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+r.addr+"/v1/run", strings.NewReader(large))
					req.Header.Set("X-API-Key", alice["X-API-Key"])
					res, err := http.DefaultClient.Do(req)
					if err != nil {
						status <- 0
						return
					}
					defer res.Body.Close()
					io.Copy(io.Discard, res.Body)
					status <- res.StatusCode
				}()
				runs++
				eventually(t, "the run ends", func() bool { return strings.Count(r.log.String(), `"msg":"run"`) == runs })
				return status
			}
			first := waits(ctx)
			if n := r.engine.Stats().Running; n != 1 {
				t.Errorf("%d slots are held", n)
			}
			leave()
			<-first
			eventually(t, "who left holds no slot", func() bool { return r.engine.Stats().Running == 0 })
			second := waits(t.Context())
			held.Close()
			if got := <-second; got != 200 {
				t.Errorf("once there is room: %d", got)
			}
			eventually(t, "all is given back", func() bool {
				bodies, answers := r.server.Held()
				return bodies == 0 && answers == 0
			})
			r.refused("POST", "/v1/run", strings.Replace(large, "5", "9", 1), alice, 413)
		})
	}
}

// Bodies are held before a slot is taken, so they have a room of their own, of which one client gets half.
func TestBodiesTogether(t *testing.T) {
	r, alice, bob := newTwoClients(t, httpd.Config{MaxBody: 1 << 20, MaxBodies: 3 << 20})
	r.server.SetWaits(stepTimeout, stepTimeout)
	large := python("#" + strings.Repeat("y", 900<<10))
	conn, _ := r.hold("127.0.0.1", fmt.Sprintf("POST /v1/run HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
		alice["X-API-Key"], len(large)))
	io.WriteString(conn, large[:len(large)-1]) // nearly whole
	eventually(t, "it is held", func() bool {
		bodies, _ := r.server.Held()
		return bodies > 800<<10
	})
	if bodies, _ := r.server.Held(); bodies > int64(len(large)) {
		t.Errorf("%d bytes are held for %d", bodies, len(large))
	}
	if res, _ := r.do("POST", "/v1/run", large, alice); res.StatusCode != 429 || res.Header.Get("Retry-After") == "" {
		t.Errorf("more than its half: %s", res.Status)
	}
	if res, _ := r.do("POST", "/v1/run", large, bob); res.StatusCode != 200 {
		t.Errorf("another client: %s", res.Status)
	}
	if res, _ := r.do("POST", "/v1/run", bash("true"), alice); res.StatusCode != 200 {
		t.Errorf("a small body: %s", res.Status)
	}
	conn.Close()
	eventually(t, "what it held is given back", func() bool {
		res, _ := r.do("POST", "/v1/run", large, alice)
		return res.StatusCode == 200
	})
}

// A large event that nobody reads takes its client's half of the room, so its other followers wait for it, and then
// fail; small events pass.
func TestUnreadEvents(t *testing.T) {
	r, alice, _ := newTwoClients(t, httpd.Config{MaxAnswers: 8 << 20, WriteTimeout: stepTimeout})
	r.server.SetWaits(stepTimeout, time.Millisecond)
	if res, text := r.do("POST", "/v1/sandboxes", `{"name":"work"}`, alice); res.StatusCode != 201 {
		t.Fatal(text)
	}
	_, text := r.do("POST", "/v1/sandboxes/work/run",
		`{"code":"print('small')\nclass Large:\n  def _repr_html_(self): return 'x' * 6_000_000\nLarge()","background":true}`, alice)
	path := "/v1/sandboxes/work/runs/" + parse[api.Run](t, text).ID + "/events"
	read := func() (names []string) {
		r.follow(string(path), alice, func(e event) bool {
			names = append(names, e.name)
			return true
		})
		return names
	}
	if names := read(); !slices.Equal(names, []string{"started", "stdout", "result", "done"}) {
		t.Fatalf("%v of %s", names, text)
	}
	conn, _ := r.hold("127.0.0.1", fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\n\r\n", path,
		alice["X-API-Key"]))
	eventually(t, "the event is held", func() bool {
		_, answers := r.server.Held()
		return answers == 4<<20
	})
	if names := read(); !slices.Equal(names, []string{"started", "stdout", "problem"}) {
		t.Errorf("beside it: %v", names)
	}
	conn.Close()
	eventually(t, "its room is free", func() bool {
		_, answers := r.server.Held()
		return answers == 0
	})
}
