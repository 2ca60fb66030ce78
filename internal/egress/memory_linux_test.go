package egress

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// stuffed fills a connection until the other side has taken nothing for a while.
func stuffed(c net.Conn) {
	b := make([]byte, copySize)
	for {
		_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// TestStuckConnections: connections of which neither side reads hold memory within the budget. Past it, connections are
// refused.
func TestStuckConnections(t *testing.T) {
	const most = 64 << 20
	n := newNeighbours(Limits{Bytes: most})
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	n.world.at("tcp", "9.9.9.9:25", listen(t, func(c net.Conn) { stuffed(c); <-hold }))
	p, other := n.place(t, allow("9.9.9.9"), "a"), n.place(t, allow("9.9.9.9"), "b")
	before := heapSize()
	var open []net.Conn
	done := make(chan struct{})
	for {
		c, err := p.dial("tcp", "9.9.9.9:25")
		if err != nil {
			break
		}
		open = append(open, c)
		go func() { stuffed(c); done <- struct{}{} }()
	}
	for range open {
		<-done
	}
	p.logged("says why", func(a Attempt) bool { return a.Reason == ownerBytes && !a.Allowed })
	grown := int(heapSize()) - int(before)
	t.Logf("%d connections hold %d KiB each, %d KiB of %d", len(open), grown/len(open)>>10, grown>>10, most/2>>10)
	if grown > most/2 {
		t.Errorf("they hold %d bytes, more than %d", grown, most/2)
	}
	if len(open) < most/2/(connectionMemory+2*maxBuffer) {
		t.Errorf("only %d connections", len(open))
	}
	if c, err := other.dial("tcp", "9.9.9.9:25"); err != nil {
		t.Errorf("another owner: %v", err)
	} else if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("another owner: %v", err)
	}
	for _, c := range open {
		c.Close()
	}
}

// crumbs is a server whose bytes come one at a time.
type crumbs struct {
	net.Conn
	left atomic.Int64
}

func (c *crumbs) Read(b []byte) (int, error) {
	if c.left.Add(-1) < 0 {
		return 0, io.EOF
	}
	b[0] = 'x'
	return 1, nil
}

// TestCrumbs: a server that sends its bytes one at a time, to a sandbox that does not read, costs no more memory than
// another: the stack has some 600 bytes for each piece.
func TestCrumbs(t *testing.T) {
	n := newNeighbours(Limits{})
	server := &crumbs{}
	server.left.Store(1 << 20)
	n.host.Options.Dial = func(context.Context, string, string) (net.Conn, error) {
		near, _ := net.Pipe()
		server.Conn = near
		return server, nil
	}
	p := n.place(t, allow("9.9.9.9"), "a")
	before := heapSize()
	var c net.Conn
	var err error
	p.do(func() {
		d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
			return raw.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
			})
		}}
		if err == nil {
			c, err = d.Dial("tcp", "9.9.9.9:25")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for left := int64(-1); left != server.left.Load(); time.Sleep(300 * time.Millisecond) {
		left = server.left.Load()
	}
	grown := int(heapSize()) - int(before)
	t.Logf("%d KiB for %d bytes", grown>>10, 1<<20-server.left.Load())
	if grown > connectionMemory+2*maxBuffer {
		t.Errorf("the connection holds %d bytes", grown)
	}
	c.Close()
}

// TestMessages: a WebSocket in TLS that ends in the gate, whose server sends a byte at a time, holds no more than is
// counted.
func TestMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("ten thousand messages take some seconds")
	}
	p, _, trust := openPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Inspect: []string{"api.test"}},
		func(_ *Host, v *vault) {
			v.knows = map[string]http.HandlerFunc{"/endless": func(w http.ResponseWriter, _ *http.Request) {
				c, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				_, err = io.WriteString(c, "HTTP/1.1 101 \r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				for err == nil {
					_, err = c.Write([]byte("x"))
				}
			}}
		})
	claimed := func() int64 {
		p.gate.meter.mu.Lock()
		defer p.gate.meter.mu.Unlock()
		return p.gate.meter.bytes
	}
	before, counted := heapSize(), claimed()
	c := p.secretClient(t, "93.184.216.40:443", "api.test", trust)
	_, _ = io.WriteString(c, "GET /endless HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\n"+
		"Upgrade: websocket\r\n\r\n")
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	began := time.Now() // the sandbox's kernel takes few small pieces a second
	for last := int64(-1); last != p.gate.meter.received.Load() && time.Since(began) < 3*time.Second; {
		last = p.gate.meter.received.Load()
		time.Sleep(500 * time.Millisecond)
	}
	grown := int64(heapSize()) - int64(before)
	counted = claimed() - counted
	t.Logf("%d KiB for %d bytes, of %d KiB", grown>>10, p.gate.meter.received.Load(), counted>>10)
	if grown > counted {
		t.Errorf("the connection holds %d bytes", grown)
	}
	c.Close()
}

// TestUnreadAnswers: HTTP/2 answers that the sandbox does not read hold memory within the budget. Past it, requests are
// reset, with a reason in the log.
func TestUnreadAnswers(t *testing.T) {
	const most = 32 << 20
	endless := func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, 64<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	}
	p, _, trust := openPlace(t, sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, Inspect: []string{"api.test"}},
		func(h *Host, v *vault) {
			h.Limits.Bytes = 2 * most
			v.knows = map[string]http.HandlerFunc{"/endless": endless}
		})
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true,
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 16 << 10},
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			c := p.secretClient(t, "93.184.216.40:443", "api.test", trust, "h2")
			return c, c.Handshake()
		}}}
	before := heapSize()
	var open []*http.Response
	refused := 0
	for range 90 {
		answer, err := client.Get("https://api.test/endless")
		if err != nil { // an answer could wait for the sandbox without end
			refused++
			continue
		}
		open = append(open, answer)
	}
	time.Sleep(300 * time.Millisecond) // for what the host sends until its windows are full
	grown := int(heapSize()) - int(before)
	t.Logf("%d answers hold %d KiB of %d, %d were refused", len(open), grown>>10, most>>10, refused)
	if grown > most || refused == 0 || refused > 60 {
		t.Errorf("%d answers hold %d bytes, %d were refused", len(open), grown, refused)
	}
	p.logged("says why", func(a Attempt) bool {
		return a.Protocol == sandbox.ProtocolHTTPS && a.Reason == ownerBytes && !a.Allowed
	})
	for _, answer := range open {
		answer.Body.Close()
	}
	client.CloseIdleConnections()
}
