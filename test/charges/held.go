package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// heldMost is the live heap, in MB, that fails. One client may occupy 256 MiB each with bodies and answers, but no
// operation occupies both; a server with the sandboxes of this test needs some 20 MB.
const heldMost = 400

// crowd is how many connections ask for an operation at once, and crowdFor how long they stay or follow each other.
const (
	crowd    = 600
	crowdFor = 1500 * time.Millisecond
)

// heldAll measures the most memory that a server holds for clients which do not take part in their requests as usual
// ones do.
func heldAll(ctx context.Context, c config, out io.Writer) (err error) {
	log, to := io.Pipe()
	var memory heap
	var following sync.WaitGroup
	following.Go(func() { memory.follow(log) })
	defer func() {
		err = errors.Join(err, to.Close())
		following.Wait()
	}()
	client, list, err := start(ctx, c, liveserver.Options{Log: to, Env: []string{"GODEBUG=gctrace=1"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.server.Stop()) }()
	bad := 0
	for _, o := range list {
		text := client.text(&o)
		for _, m := range manners {
			memory.peak.Store(memory.live.Load())
			m.ask(ctx, client.server, text)
			peak := memory.peak.Load()
			fmt.Fprintf(out, "%4d MB  %s, by clients that %s\n", peak, o.name(), m.name)
			if peak > heldMost {
				bad++
			}
			if err := client.settle(ctx); err != nil {
				return fmt.Errorf("%s, by clients that %s: %w", o.name(), m.name, err)
			}
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d times the server held more than %d MB", bad, heldMost)
	}
	return nil
}

// heap is the live heap of a server, by the lines of GODEBUG=gctrace=1: "gc 1 @0.01s ..., 4->4->1 MB, ...".
type heap struct{ live, peak atomic.Int64 }

var collection = regexp.MustCompile(`^gc \d+ .* \d+->\d+->(\d+) MB,`)

func (h *heap) follow(log io.Reader) {
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadString('\n')
		if m := collection.FindStringSubmatch(line); m != nil {
			live, _ := strconv.ParseInt(m[1], 10, 64)
			h.live.Store(live)
			h.peak.Store(max(h.peak.Load(), live))
		}
		if err != nil {
			return
		}
	}
}

// manners are what clients do with the text of a request.
var manners = []struct {
	name string
	ask  func(ctx context.Context, server *liveserver.Server, text []byte)
}{
	{"read no answer", stay},
	{"send no last byte", func(ctx context.Context, server *liveserver.Server, text []byte) {
		stay(ctx, server, text[:len(text)-1])
	}},
	{"leave", leave},
}

// stay sends the text over many connections, which read nothing, and closes them after a while.
func stay(ctx context.Context, server *liveserver.Server, text []byte) {
	until, cancel := context.WithTimeout(ctx, 2*crowdFor)
	defer cancel()
	var all sync.WaitGroup
	for range crowd {
		all.Go(func() {
			if conn := send(until, server, text); conn != nil {
				<-until.Done()
				_ = conn.Close()
			}
		})
	}
	all.Wait()
}

// leave sends the text over one connection after another, and resets each at once.
func leave(ctx context.Context, server *liveserver.Server, text []byte) {
	until, cancel := context.WithTimeout(ctx, crowdFor)
	defer cancel()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for until.Err() == nil {
				if conn := send(until, server, text); conn != nil {
					_ = conn.Close()
				}
			}
		})
	}
	all.Wait()
}

// send opens a connection with a small buffer, and sends as much of the text as the server takes; nil is no connection.
func send(until context.Context, server *liveserver.Server, text []byte) net.Conn {
	var dialer net.Dialer
	conn, err := dialer.DialContext(until, "tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		return nil
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	_ = conn.(*net.TCPConn).SetLinger(0)
	if end, ok := until.Deadline(); ok {
		_ = conn.SetWriteDeadline(end)
	}
	_, _ = conn.Write(text)
	return conn
}

// text is the request as it is sent.
func (c *caller) text(o *operation) []byte {
	var text bytes.Buffer
	request, err := c.request(context.Background(), o)
	if err == nil {
		err = request.Write(&text)
	}
	if err != nil {
		panic(err) // call has sent such requests
	}
	return text.Bytes()
}

// settle waits until the server has ended all requests but the one that asks.
func (c *caller) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if n, ok := c.server.Metric(ctx, "fumehood_http_requests_in_flight"); ok && n <= 1 {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return errors.New("requests of clients that left did not end")
		}
	}
}
