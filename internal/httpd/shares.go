package httpd

import (
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/duplex"
)

// The CPU time that the server needs for a client besides runs, on a virtual machine with 2 CPUs (AMD EPYC). It is
// spread over goroutines of net/http and of handlers, so it is estimated, not measured.
const (
	requestTime = 100 * time.Microsecond // to receive, check and answer a request
	flushTime   = 20 * time.Microsecond  // to send a small piece of an answer
	encodeTime  = 400 * time.Microsecond // to decode paceBytes of JSON, or to make and send them
	copyTime    = 80 * time.Microsecond  // to pass on paceBytes of a file or of a program's answer
)

const (
	// All clients together may have this part of the CPUs of this process: 1/2. The rest is for runs and the gates.
	sharesPart  = 2
	sharesBurst = 25 * time.Millisecond // of CPU time, that a client may take at once
	sharesWait  = time.Second           // the longest wait of a request that has to wait
	sharesSweep = time.Second           // after which clients without debt are forgotten
)

// shares bounds the CPU time that the server spends on requests and answers. Without it, a hundred streams of one
// client keep all processors busy until their connections are full, and each step of another client's run waits behind
// them. Clients that together want more than all may have get equal parts.
type shares struct {
	total float64 // CPU seconds a second

	mu    sync.Mutex           // guards all below
	due   map[string]time.Time // when the client's work so far is paid for
	swept time.Time
}

func newShares() *shares {
	return &shares{total: float64(runtime.GOMAXPROCS(0)) / sharesPart, due: map[string]time.Time{}}
}

// use notes work for an owner, and returns how long the owner must wait before more; at most 0 is not at all.
func (s *shares) use(owner string, work time.Duration, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.swept) > sharesSweep {
		s.swept = now
		for other, due := range s.due {
			if due.Before(now) {
				delete(s.due, other)
			}
		}
	}
	waiting := 1
	for other, due := range s.due {
		if other != owner && due.Sub(now) > sharesBurst {
			waiting++
		}
	}
	due := s.due[owner]
	if due.Before(now) {
		due = now
	}
	if rest := due.Sub(now) - sharesBurst; rest > sharesWait { // its requests wait that long already
		return rest
	}
	due = due.Add(time.Duration(float64(work) / s.total * float64(waiting)))
	s.due[owner] = due
	return due.Sub(now) - sharesBurst
}

// cost is the work of one request that its owner has not paid for. Its methods wait until the owner may have more.
type cost struct {
	shares *shares // nil in tests
	owner  string
	unpaid time.Duration
	piece  time.Duration // for paceBytes of the answer
}

// another returns one for another goroutine that works for the request.
func (c *cost) another() cost { return cost{shares: c.shares, owner: c.owner} }

// begin notes a request.
func (c *cost) begin(shares *shares, owner string) {
	c.shares, c.owner, c.unpaid = shares, owner, requestTime
	c.pay()
}

// add notes work, and pays for it once there is enough of it.
func (c *cost) add(work time.Duration) {
	if c.unpaid += work; c.unpaid >= encodeTime {
		c.pay()
	}
}

// addBytes notes work for n bytes.
func (c *cost) addBytes(n int, piece time.Duration) { c.add(piece * time.Duration(n) / paceBytes) }

func (c *cost) pay() {
	if c.shares == nil {
		return
	}
	rest := c.shares.use(c.owner, c.unpaid, time.Now())
	c.unpaid = 0
	if rest > 0 {
		time.Sleep(min(rest, sharesWait))
	}
}

// pieceTime returns the CPU time for paceBytes of an answer with this Content-Type.
func pieceTime(contentType string) time.Duration {
	if strings.Contains(contentType, "json") || strings.HasPrefix(contentType, api.MediaEvents) ||
		strings.HasPrefix(contentType, "application/connect") {
		return encodeTime
	}
	return copyTime
}

// Work notes n bytes that a handler has decoded or searched, besides those of the body and of the answer.
func (w *Response) Work(n int) { w.cost.addBytes(n, encodeTime) }

// Working returns a reader whose bytes are work for the client, as those that unpacking makes are.
func (w *Response) Working(r io.Reader) io.Reader { return &paidReader{r, w.cost.another()} }

type paidReader struct {
	io.Reader
	cost cost
}

func (r *paidReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.cost.addBytes(n, encodeTime)
	return n, err
}

// paidConn is a connection that a handler took over. Its bytes are work for the client.
type paidConn struct {
	duplex.Conn
	in, out cost
}

func (c *paidConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.add(flushTime)
	c.in.addBytes(n, copyTime)
	return n, err
}

func (c *paidConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.out.add(flushTime)
	c.out.addBytes(n, copyTime)
	return n, err
}
