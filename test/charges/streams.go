package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// sink is a server that reads what its clients send.
const sink = `
import socketserver
class Sink(socketserver.BaseRequestHandler):
    def handle(self):
        while self.request.recv(65536): pass
socketserver.ThreadingTCPServer(("127.0.0.1", 8001), Sink).serve_forever()`

// streams are connections that switch to another protocol.
func (c *caller) streams() []operation {
	terminal := func(note string, kind byte, payload string, count int) operation {
		o := get(inside + "/terminal")
		o.query, o.note = "?command=sh&command=-c&command=exec+cat+>/dev/null", note
		o.header = map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
			"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "fumehood.terminal"}
		o.stream = append(bytes.Repeat(frame(kind, payload), count), frame(closing, "")...)
		return o
	}
	tunnel := get(inside + "/ports/8001")
	tunnel.header = map[string]string{"Connection": "Upgrade", "Upgrade": "tcp"}
	tunnel.stream = make([]byte, 5_000_000)
	return []operation{tunnel,
		terminal("(pings)", ping, "", 5000),
		terminal("(pongs)", pong, "", 20_000),
		terminal("(empty input)", binary, "", 2000),
		terminal("(a line at a time)", binary, "\n", 2000),
		terminal("(sizes)", text, `{"rows":24,"columns":80}`, 2000),
		terminal("(wrong messages)", text, `{}`, 1000),
	}
}

// The kinds of frames of a WebSocket (RFC 6455, section 5.2), each the last of its message.
const (
	text    = 0x81
	binary  = 0x82
	closing = 0x88
	ping    = 0x89
	pong    = 0x8a
)

// frame is one of a client, with a mask of zeros. The payload has fewer than 126 bytes.
func frame(kind byte, payload string) []byte {
	return append([]byte{kind, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)
}

// converse sends a request to switch protocols and its stream, and reads until the server ends the connection.
func (c *caller) converse(ctx context.Context, o *operation) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(c.server.URL, "http://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write(c.text(o)); err != nil {
		return err
	}
	answers := bufio.NewReader(conn)
	answer, err := http.ReadResponse(answers, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols {
		rest, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s: %d: %.300s", o.name(), answer.StatusCode, rest)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = conn.Write(o.stream) // the server may end the connection before
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(io.Discard, answers)
	_ = conn.Close()
	<-sent
	return nil
}
