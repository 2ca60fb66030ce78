package egress

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// The CPU time of the gate's work, for pace. The work of one packet is spread over goroutines of this package, of the
// stack and of the runtime, so it is estimated, not measured. The figures are those of a virtual machine with 2 CPUs
// (AMD EPYC), for the gate and the host's kernel together. TestGateCost compares them with the truth.
const (
	frameTime      = 20 * time.Microsecond
	frameBytes     = 1000                   // of a frame: each takes another microsecond
	routeTime      = 10 * time.Microsecond  // to ask the kernel for a route
	attemptTime    = 30 * time.Microsecond  // to decide and to log
	nameTime       = 5 * time.Microsecond   // to decide about a name of an address
	recordTime     = 16 * time.Microsecond  // of an address that the host's resolver returns: package net sorts them
	connectionTime = 700 * time.Microsecond // to dial, and to end
	handshakeTime  = 2 * time.Millisecond   // of TLS, with both sides
	requestTime    = 200 * time.Microsecond // in TLS that ends in the gate
	parseTime      = 100 * time.Nanosecond  // for a byte of a head or of a chunk's size in HTTP/1
	scanTime       = 2 * time.Nanosecond    // for a byte of the beginning, at each packet until the kind is known
	helloTime      = 30 * time.Microsecond  // to parse a TLS hello
)

// frameCost is the CPU time of a frame of n bytes.
func frameCost(n int) time.Duration { return frameTime + time.Duration(n/frameBytes)*time.Microsecond }

const (
	// All gates may have this part of the CPUs of this process: 1/2. One may have as much CPU time as its sandbox.
	paceShare = 2

	paceBurst  = 5 * time.Millisecond   // of CPU time, that a gate may take at once
	paceResume = paceBurst / 4          // a gate that has to wait waits for so much
	paceWindow = 100 * time.Millisecond // after which all gates' shares are computed anew
	paceNap    = 50 * time.Millisecond  // the longest wait before the share is looked at again
)

// pace bounds the CPU time of a gate. A gate in debt reads nothing, neither from its sandbox nor from outside. So the
// sandbox waits, or its packets are lost, as on a slow link.
type pace struct {
	of            *processor
	own           float64      // the most CPU seconds a second; of.mu guards it
	credit, spent atomic.Int64 // ns; spent is that of the window
	waited        atomic.Bool  // in the window

	mu     sync.Mutex // guards all below
	rate   float64    // own, or less while gates together want too much
	filled time.Time
	wake   chan struct{} // closed by a refund, if somebody waits
}

// spend notes that work is done, or will be. A negative time is a refund: of it no more is kept than a gate may take at
// once, or a sandbox could save up for seconds of work on all CPUs, by bodies that it reads late.
func (p *pace) spend(d time.Duration) {
	p.spent.Add(int64(d))
	credit := p.credit.Add(-int64(d))
	if d >= 0 {
		return
	}
	for credit > int64(paceBurst) && !p.credit.CompareAndSwap(credit, int64(paceBurst)) {
		credit = p.credit.Load()
	}
	if p.inDebt() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wake != nil {
		close(p.wake)
		p.wake = nil
	}
}

// inDebt reports whether the gate must wait.
func (p *pace) inDebt() bool { return p.credit.Load() < 0 }

// wait waits until the gate may work. It returns an error if ctx ends first.
func (p *pace) wait(ctx context.Context) error {
	for {
		rest, wake := p.rest(time.Now())
		if rest == 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(min(rest, paceNap))
		select {
		case <-timer.C:
		case <-wake:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// rest returns how long the gate must wait, and what a refund closes before; 0 means that it may work.
func (p *pace) rest(now time.Time) (time.Duration, <-chan struct{}) {
	if !p.inDebt() {
		return 0, nil
	}
	p.of.share(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	gain := min(now.Sub(p.filled).Seconds()*p.rate*float64(time.Second), float64(paceBurst)-float64(p.credit.Load()))
	p.filled = now
	credit := p.credit.Add(int64(gain))
	if credit >= 0 {
		return 0, nil
	}
	p.waited.Store(true)
	if p.wake == nil {
		p.wake = make(chan struct{})
	}
	return max(time.Duration(float64(int64(paceResume)-credit)/p.rate), time.Microsecond), p.wake
}

// processor shares the CPU time that gates may have among owners, and each owner's part among its sandboxes.
type processor struct {
	total float64 // CPU seconds a second

	mu    sync.Mutex // guards all below
	gates map[*pace]string
	began time.Time // of the window
}

func newProcessor() *processor {
	return &processor{total: float64(runtime.GOMAXPROCS(0)) / paceShare, gates: map[*pace]string{}}
}

// join returns the pace of a new gate, for a sandbox with this limit.
func (c *processor) join(owner string, cpuMillis int64, now time.Time) *pace {
	p := &pace{of: c, filled: now}
	p.credit.Store(int64(paceBurst))
	c.setCPU(p, cpuMillis)
	c.setOwner(p, owner)
	return p
}

// setCPU sets the limit of a sandbox; 0 is the default.
func (c *processor) setCPU(p *pace, millis int64) {
	if millis <= 0 {
		millis = sandbox.DefaultLimits.CPUMillis
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.own = float64(millis) / 1000
	p.setRate(p.own)
}

func (c *processor) setOwner(p *pace, owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gates[p] = owner
}

func (c *processor) leave(p *pace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.gates, p)
}

// share ends the window if it has lasted long enough, and sets the rates of all gates for the next one. A gate wants
// what it has used, or all that it may have if it had to wait. If all together want too much, owners get equal parts,
// and the gates of an owner get parts in proportion to their limits. What one does not want is for the others.
func (c *processor) share(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	window := now.Sub(c.began)
	if window < paceWindow {
		return
	}
	c.began = now
	gates, owners := map[string][]demand{}, []demand{}
	sums := map[string]float64{}
	for p, owner := range c.gates {
		wants := max(0, min(p.own, float64(p.spent.Swap(0))/float64(window))) // refunds may be of an earlier window
		if p.waited.Swap(false) {
			wants = p.own
		}
		gates[owner] = append(gates[owner], demand{wants, p.own})
		sums[owner] += wants
	}
	for _, wants := range sums {
		owners = append(owners, demand{wants, 1})
	}
	each := level(c.total, owners)
	for p, owner := range c.gates {
		p.setRate(min(1, level(each, gates[owner])) * p.own)
	}
}

func (p *pace) setRate(rate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = rate
}

// demand is what one of several wants of a total, and its weight.
type demand struct{ wants, weight float64 }

// level returns the level at which each gets what it wants, but at most the level times its weight, so that all
// together get the total. It is infinite if they want less.
func level(total float64, all []demand) float64 {
	// Those that want least for their weight are satisfied first.
	slices.SortFunc(all, func(a, b demand) int { return cmp.Compare(a.wants/a.weight, b.wants/b.weight) })
	weights := 0.0
	for _, d := range all {
		weights += d.weight
	}
	for _, d := range all {
		if d.wants*weights >= total*d.weight {
			return total / weights
		}
		total -= d.wants
		weights -= d.weight
	}
	return math.Inf(1)
}
