package httpapi_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// shown is what a terminal has shown.
type shown struct {
	t    *testing.T
	conn *websocket.Conn
	text string
}

// dialTerminal opens a terminal of the sandbox "w".
func (r *rig) dialTerminal(t *testing.T, query string, protocols ...string) (*shown, *http.Response, error) {
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	t.Cleanup(cancel)
	conn, res, err := websocket.Dial(ctx, "ws://"+r.addr+"/v1/sandboxes/w/terminal"+query,
		&websocket.DialOptions{Subprotocols: append([]string{api.TerminalProtocol}, protocols...),
			HTTPHeader: http.Header{api.HeaderEnv: {"GREETING=he%6Clo"}}})
	if err == nil {
		t.Cleanup(func() { conn.CloseNow() })
	}
	return &shown{t: t, conn: conn}, res, err
}

func (s *shown) send(kind websocket.MessageType, text string) {
	s.t.Helper()
	if err := s.conn.Write(s.t.Context(), kind, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

// until reads until the terminal has shown a text, or until its end for "".
func (s *shown) until(text string) (end api.TerminalEnd) {
	s.t.Helper()
	for text == "" || !strings.Contains(s.text, text) {
		kind, data, err := s.conn.Read(s.t.Context())
		if err != nil {
			s.t.Fatalf("%v; it has shown %q", err, s.text)
		}
		if kind == websocket.MessageText {
			if err := json.Unmarshal(data, &end); err != nil || text != "" {
				s.t.Fatalf("the end %s (%v); it has shown %q", data, err, s.text)
			}
			return end
		}
		s.text += string(data)
	}
	s.text = s.text[strings.Index(s.text, text)+len(text):]
	return end
}

// TestTerminal: a shell with a size that changes, its end, and the end of its run with the connection.
func TestTerminal(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	r.do("POST", "/v1/sandboxes", `{"name": "w"}`, nil)
	s, res, err := r.dialTerminal(t, "?rows=33&columns=77&command=sh")
	if err != nil {
		t.Fatal(err)
	}
	s.send(websocket.MessageBinary, "stty size; echo $GREETING $TERM\n")
	s.until("33 77\r\n")
	s.until("hello xterm-256color\r\n")
	s.send(websocket.MessageText, `{"rows": 12, "columns": 34}`)
	s.send(websocket.MessageBinary, "stty size\n")
	s.until("12 34\r\n")
	s.send(websocket.MessageBinary, "exit 3\n")
	if end := s.until(""); end.ExitCode == nil || *end.ExitCode != 3 || end.Problem != nil {
		t.Errorf("the end: %+v", end)
	}
	if _, _, err := s.conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("after the end: %v", err)
	}
	if id := res.Header.Get(api.HeaderRun); id == "" {
		t.Error("the answer does not name the run")
	}

	s, res, err = r.dialTerminal(t, "?command=sleep&command=1000")
	if err != nil {
		t.Fatal(err)
	}
	s.conn.CloseNow()
	run := "/v1/sandboxes/w/runs/" + res.Header.Get(api.HeaderRun)
	eventually(t, "the run ends with its connection", func() bool {
		_, text := r.do("GET", run, "", nil)
		return parse[api.Run](t, text).Status == "canceled"
	})

	for _, size := range []string{`{"rows": 0}`, `{"rows": 9, "columns": 9}` + strings.Repeat(" ", 1<<10)} {
		if s, _, err = r.dialTerminal(t, "?command=sleep&command=1000"); err != nil {
			t.Fatal(err)
		}
		s.send(websocket.MessageText, size)
		if _, _, err := s.conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("after %.30q, of %d bytes: %v", size, len(size), err)
		}
	}
}

// TestTerminalRefused: refusals come before the switch of protocols.
func TestTerminalRefused(t *testing.T) {
	secret := httpd.NewSecret()
	r := newRig(t, engine.Config{}, httpd.Config{Keys: httpd.NewKeyring(mustKey(t, secret))})
	key := header{"Authorization": "Bearer " + secret}
	r.do("POST", "/v1/sandboxes", `{"name": "w"}`, key)
	offer := api.KeyProtocol + base64.RawURLEncoding.EncodeToString([]byte(secret))
	s, _, err := r.dialTerminal(t, "?command=true", offer)
	if err != nil {
		t.Fatal(err)
	}
	if s.conn.Subprotocol() != api.TerminalProtocol {
		t.Errorf("the server selected %q", s.conn.Subprotocol())
	}
	s.until("")
	for _, protocols := range [][]string{nil, {offer + "A"}, {offer, offer}, {api.KeyProtocol}} {
		if _, res, err := r.dialTerminal(t, "", protocols...); err == nil || res.StatusCode != http.StatusUnauthorized {
			t.Errorf("protocols %q: %v", protocols, err)
		}
	}
	upgrade := header{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "MDEyMzQ1Njc4OTAxMjM0NQ=="}
	for _, c := range []struct {
		path   string
		more   header
		status int
	}{
		{"/v1/sandboxes/w/terminal", header{"Upgrade": "tcp"}, http.StatusUpgradeRequired},
		{"/v1/sandboxes/w/terminal?rows=0", nil, http.StatusBadRequest},
		{"/v1/sandboxes/w/terminal", header{api.HeaderEnv: "x"}, http.StatusBadRequest},
		{"/v1/sandboxes/nobody/terminal", nil, http.StatusNotFound},
		{"/v1/sandboxes/w/terminal", header{"Origin": "https://evil.example"}, http.StatusForbidden},
		{"/v1/sandboxes", header{"Authorization": "", "Sec-WebSocket-Protocol": offer}, http.StatusUnauthorized},
	} {
		h := header{"Authorization": key["Authorization"]}
		for _, from := range []header{upgrade, c.more} {
			for name, value := range from {
				h[name] = value
			}
		}
		if h["Authorization"] == "" {
			delete(h, "Authorization")
		}
		r.refused("GET", c.path, "", h, c.status)
	}
}

// TestTerminalFrames: frames without input count as work, as does the answer to each.
func TestTerminalFrames(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	r.do("POST", "/v1/sandboxes", `{"name": "w"}`, nil)
	conn, answers := r.open("GET /v1/sandboxes/w/terminal?command=cat HTTP/1.1\r\nHost: localhost\r\n" +
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	if res, err := http.ReadResponse(answers, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(res, err)
	}
	worked := func(frame string, most int) float64 {
		before := r.work()
		conn.Write([]byte(strings.Repeat(frame, most) + "\x89\x81\x00\x00\x00\x00!"))
		for b := byte(0); b != '!'; { // of the last pong
			var err error
			if b, err = answers.ReadByte(); err != nil {
				t.Fatal(err)
			}
		}
		return r.work() - before
	}
	const most = 2000
	const step, flush = 4e-6, 20e-6
	if pongs := worked("\x8a\x80\x00\x00\x00\x00", most); pongs < most*step {
		t.Errorf("%d pongs are %f s of work", most, pongs)
	}
	if pings := worked("\x89\x80\x00\x00\x00\x00", most); pings < most*(step+flush) {
		t.Errorf("%d pings are %f s of work", most, pings)
	}
}
