package httpd

import (
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The CPU time that the server needs for a client besides runs, on a virtual machine with 2 CPUs (AMD EPYC). It is
// spread over goroutines of net/http and of handlers, so it is estimated first. Measure corrects it.
const (
	requestTime = 200 * time.Microsecond // to receive, check and answer a request
	flushTime   = 20 * time.Microsecond  // to send a small piece of an answer
	readTime    = 40 * time.Microsecond  // to read a small piece of a body, of up to chunkedRead bytes of chunks
	encodeTime  = 400 * time.Microsecond // to decode paceBytes of JSON, or to make and send them
	eventTime   = 200 * time.Microsecond // to make and send paceBytes of events or messages
	copyTime    = 80 * time.Microsecond  // to pass on paceBytes of a file or of a program's answer
	valueTime   = 600 * time.Nanosecond  // to decode a value of JSON, besides its bytes
	stepTime    = 4 * time.Microsecond   // for an entry of a list, besides its bytes
	ruleTime    = 80 * time.Nanosecond   // to check a byte of a rule or a secret of a network, some three times
	wideTime    = 300 * time.Nanosecond  // the same, of one beyond ASCII
	routeTime   = 15 * time.Microsecond  // to ask the kernel for the route to an address that a rule allows
)

// chunkedRead is the most bytes of small chunks that net/http parses for one read of a body.
const chunkedRead = 4 << 10

const (
	// All clients together may have this part of the CPUs of this process: 1/2. The rest is for runs and the gates.
	sharesPart  = 2
	sharesBurst = 25 * time.Millisecond // of CPU time, that a client may take at once
	sharesWait  = time.Second           // the longest wait of a request; new ones are refused where it is not enough
	sharesDebt  = 10 * time.Second      // the most unpaid work that is noted of a client
	sharesSweep = 10 * time.Millisecond // after which clients without work are forgotten
)

// shares bounds the CPU time that the server spends on requests and answers. Without it, a hundred streams of one
// client keep all processors busy until their connections are full, and each step of another client's run waits behind
// them. Clients that together want more than all may have get equal parts. All addresses of clients without a key
// together are one client beside those with keys: otherwise a thousand addresses would leave little to a key.
type shares struct {
	total float64                  // CPU seconds a second
	ahead map[string]time.Duration // by which the last estimate of an owner was too high; only Measure uses it

	mu     sync.Mutex // guards all below
	each   map[string]*account
	due    time.Time // when all of their work would be paid for
	swept  time.Time
	active [2]int // accounts that had recent work when they were swept: of keys, of addresses
	noted  time.Duration

	counted   map[string]time.Duration // what was noted of each owner during a measurement; else nil
	corrected time.Duration            // measured CPU time above the estimates, of all owners
}

// account is the work of a client.
type account struct {
	due    time.Time // when it is paid for
	active bool      // when the accounts were swept
}

// kinds of accounts
const (
	ofKeys = iota
	ofAddresses
)

func newShares() *shares {
	return &shares{total: float64(runtime.GOMAXPROCS(0)) / sharesPart, each: map[string]*account{}}
}

// use notes work for an owner, and returns how long the owner must wait before more; at most 0 is not at all.
func (s *shares) use(owner string, work time.Duration, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted += work
	if s.counted != nil {
		s.counted[owner] += work
	}
	return s.charge(owner, work, now)
}

// charge is use without counting. The caller holds mu.
func (s *shares) charge(owner string, work time.Duration, now time.Time) time.Duration {
	if now.Sub(s.swept) > sharesSweep {
		s.sweep(now)
	}
	a := s.each[owner]
	if a == nil {
		a = &account{}
		s.each[owner] = a
	}
	a.due, s.due = later(a.due, now), later(s.due, now)
	parts := 1
	if s.due.Sub(now) > sharesBurst { // all together want more than they may have
		parts = s.parts(owner, a)
	}
	work = time.Duration(float64(work) / s.total)
	if a.due = a.due.Add(work * time.Duration(parts)); a.due.Sub(now) > sharesDebt {
		a.due = now.Add(sharesDebt)
	}
	if s.due.Sub(now) < sharesWait {
		s.due = s.due.Add(work)
	}
	return a.due.Sub(now) - sharesBurst
}

// seconds returns a sum of all clients.
func (s *shares) seconds(sum *time.Duration) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sum.Seconds()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sweep forgets the accounts without recent work, and counts the others. The caller holds mu.
func (s *shares) sweep(now time.Time) {
	s.swept, s.active = now, [2]int{}
	for owner, a := range s.each {
		if now.Sub(a.due) > sharesSweep {
			delete(s.each, owner)
			continue
		}
		a.active = true
		s.active[kindOf(owner)]++
	}
}

// parts returns in how many equal parts the total is divided for an owner. The caller holds mu.
func (s *shares) parts(owner string, a *account) int {
	active, kind := s.active, kindOf(owner)
	if !a.active {
		active[kind]++
	}
	if kind == ofAddresses {
		return active[ofAddresses] * (active[ofKeys] + 1)
	}
	return active[ofKeys] + min(active[ofAddresses], 1)
}

// addressOwner begins the names of owners without a key. All clients of a Unix socket are "address " alone, which has
// a part as a key has.
const addressOwner = "address "

func kindOf(owner string) int {
	if len(owner) > len(addressOwner) && strings.HasPrefix(owner, addressOwner) {
		return ofAddresses
	}
	return ofKeys
}

// cost is the work of one request that its owner has not paid for. Its methods wait until the owner may have more.
// Copies, for other goroutines that work for the request, share the unpaid work.
type cost struct {
	shares *shares // nil in tests
	owner  string
	unpaid *atomic.Int64 // nanoseconds of work
	piece  time.Duration // for paceBytes of the answer
	gone   gone          // ends waits
	sends  func(n int)   // notes bytes of the answer before they are sent, in HTTP/2; or nil

	headOnly bool // net/http does not send the body of the answer
}

// sendHead notes the bytes of the head of the answer before they are sent.
func (c *cost) sendHead(n int) {
	if c.sends != nil {
		c.sends(n)
	}
}

// sendBody notes n bytes of the body of the answer before they are sent; less than 0: they were not.
func (c *cost) sendBody(n int) {
	if c.sends != nil && !c.headOnly {
		c.sends(n)
	}
}

func newCost() cost { return cost{unpaid: new(atomic.Int64)} }

// begin notes a request, which is not paid for yet.
func (c *cost) begin(shares *shares, owner string) {
	c.shares, c.owner = shares, owner
	c.unpaid.Add(int64(requestTime))
}

// add notes work, and pays for it once there is enough of it.
func (c *cost) add(work time.Duration) {
	if c.unpaid.Add(int64(work)) >= int64(encodeTime) {
		c.pay()
	}
}

// read notes work for one read of a body, of n bytes. If they are few, net/http may have parsed 4 KiB of chunks.
func (c *cost) read(n int, piece time.Duration) {
	if n < chunkedRead {
		c.add(readTime)
	}
	c.addBytes(n, piece)
}

// addBytes notes work for n bytes.
func (c *cost) addBytes(n int, piece time.Duration) { c.add(piece * time.Duration(n) / paceBytes) }

func (c *cost) pay() {
	pause(min(c.settle(), sharesWait), c.gone)
}

// pause waits so long, or until nobody waits for the request.
func pause(wait time.Duration, g gone) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g[0]:
	case <-g[1]:
	}
}

// isGone reports whether nobody waits for the request.
func (c *cost) isGone() bool {
	select {
	case <-c.gone[0]:
		return true
	case <-c.gone[1]:
		return true
	default:
		return false
	}
}

// afford pays before work begins, and notes it. It refuses the request if one wait is not enough for what its owner has
// not paid: however long each of many requests waits, what they begin at a time may be beyond the share.
func (c *cost) afford(work time.Duration) error {
	rest := c.settle()
	if rest > sharesWait {
		pause(sharesWait, c.gone)
		return &sandbox.Error{Kind: sandbox.Busy, RetryAfter: rest - sharesWait,
			Msg: "requests of this client take more CPU time of the server than its share",
			Fix: "send fewer at once, and try again later"}
	}
	if work > 0 { // before the wait, so that the next request waits for it
		c.unpaid.Add(int64(work))
		c.settle()
	}
	pause(rest, c.gone)
	return nil
}

// settle charges the owner for the unpaid work, and returns how long it must wait before more. Without a wait here, its
// next request waits.
func (c *cost) settle() (rest time.Duration) {
	if c.shares == nil {
		return 0
	}
	return c.shares.use(c.owner, time.Duration(c.unpaid.Swap(0)), time.Now())
}

// pieceTime returns the CPU time for paceBytes of an answer with this Content-Type.
func pieceTime(contentType string) time.Duration {
	switch {
	case strings.HasPrefix(contentType, api.MediaEvents), strings.HasPrefix(contentType, "application/connect"):
		return eventTime
	case strings.Contains(contentType, "json"), contentType == "application/proto":
		return encodeTime
	}
	return copyTime
}

// Work notes n bytes that a handler has decoded or searched, besides those of the body and of the answer.
func (w *Response) Work(n int) { w.cost.addBytes(n, encodeTime) }

// Charge notes CPU time of the server as work. Several goroutines may call it until the request ends.
func (w *Response) Charge(used time.Duration) { w.cost.add(used) }

// Values notes n values of JSON that are decoded, besides their bytes.
func (w *Response) Values(n int) { w.cost.add(time.Duration(n) * valueTime) }

// The work of saving the record of a sandbox.
const (
	recordSteps = 100 // to replace the file
	recordWork  = 5   // how often its bytes count: it is encoded, decoded again and compared
)

// InSandbox handles a request to a living sandbox.
type InSandbox = func(*Response, *http.Request, *engine.Sandbox) error

// Saving returns a handler of requests that save the record of their sandbox. The last record is the estimate of the
// work, which is noted before h. The rest is noted after h: a longer or another record, and the time in which open
// connections were compared with new rules.
func Saving(h InSandbox) InSandbox {
	return func(w *Response, r *http.Request, s *engine.Sandbox) error {
		saved, last := s.Saved()
		compared := s.Compared()
		estimate := recordSteps*stepTime + recordWork*time.Duration(last)*encodeTime/paceBytes
		if err := w.cost.afford(estimate); err != nil {
			return err
		}
		err := h(w, r, s)
		now, _ := s.Saved()
		w.Work(recordWork * int(max(now-saved-last, 0)))
		w.cost.add(s.Compared() - compared)
		return err
	}
}

// Afford is Steps for work that has not begun. It refuses the request if its owner has more unpaid work than it may.
func (w *Response) Afford(steps int) error { return w.cost.afford(time.Duration(steps) * stepTime) }

// InputSteps is the work of passing on a message of input, however short it is, and its echo.
const InputSteps = 40

// StepRuns is the number of runs that one step visits in a search.
const StepRuns = 8

// Steps notes n steps of work, each as costly as an entry of a list.
func (w *Response) Steps(n int) { w.cost.add(time.Duration(n) * stepTime) }

// Rules notes the texts of a network as work. Names beyond ASCII cost many times what their bytes do.
func (w *Response) Rules(p *sandbox.NetworkPolicy) {
	texts := slices.Concat(p.Allow, p.Deny, p.Inspect)
	for i := range p.Secrets {
		texts = append(append(texts, p.Secrets[i].Hosts...), p.Secrets[i].Value)
	}
	if len(texts) > 2*sandbox.MaxNetworkRules { // it is refused at once
		return
	}
	work := time.Duration(0)
	for _, text := range texts {
		each := ruleTime
		if strings.ContainsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf }) {
			each = wideTime
		}
		work += time.Duration(len(text)) * each
	}
	for _, rule := range p.Allow {
		work += time.Duration(routesOf(rule)) * routeTime
	}
	w.cost.add(work)
}

// routesOf returns how many routes a check of a rule asks for at most.
func routesOf(rule string) int {
	switch {
	case strings.Count(rule, ":") > 1: // IPv6, perhaps with an address behind NAT64
		return 2
	case strings.Trim(rule, "0123456789.:/-") == "":
		return 1
	}
	return 0 // a name
}

// Working returns a reader whose bytes are work for the client, as those that unpacking makes are.
func (w *Response) Working(r io.Reader) io.Reader { return &paidReader{r, w.cost} }

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
	cost cost
}

func (c *paidConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.cost.read(n, copyTime)
	return n, err
}

func (c *paidConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.cost.add(flushTime)
	c.cost.addBytes(n, copyTime)
	return n, err
}
