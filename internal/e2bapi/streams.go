package e2bapi

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// endedWith reports whether an event is the end of a run because its sandbox ended. The stream of such a run is cut:
// SDKs take a broken connection, and no error in the stream, for the end of a sandbox.
func endedWith(s *engine.Sandbox, e engine.Event) bool {
	return e.Kind == eventlog.Done && s.Ended() != nil &&
		(e.Ended.Failure != "" || e.Ended.Status == sandbox.StatusCanceled || e.Ended.Status == sandbox.StatusLost)
}

// headerKeepAlive is how many seconds a stream may be silent.
const headerKeepAlive = "Keepalive-Ping-Interval"

// keepAliveOf returns how long the stream of a request may be silent.
func keepAliveOf(h http.Header) time.Duration {
	const standard, most = 90, 3600
	seconds, err := strconv.Atoi(h.Get(headerKeepAlive))
	if err != nil || seconds < 1 || seconds > most {
		seconds = standard
	}
	return time.Duration(seconds) * time.Second
}

// outgoing is a stream to a client, which sends something at least so often.
type outgoing struct {
	every time.Duration
	beat  func() error // sends a message without a meaning

	mu   sync.Mutex // guards all below, and is held while something is sent
	err  error
	sent time.Time
}

// send sends one message. An error ends the stream.
func (o *outgoing) send(message func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = message()
		o.sent = time.Now()
	}
	return o.err
}

// keep begins to send messages whenever the stream was silent. The caller calls stop before its handler returns.
func (o *outgoing) keep() (stop func()) {
	done := make(chan struct{})
	var beating sync.WaitGroup
	o.sent = time.Now()
	beating.Go(func() {
		ticks := time.NewTicker(o.every)
		defer ticks.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticks.C:
			}
			o.mu.Lock()
			if o.err == nil && time.Since(o.sent) >= o.every {
				o.err = o.beat()
				o.sent = time.Now()
			}
			o.mu.Unlock()
		}
	})
	return func() {
		close(done)
		beating.Wait()
	}
}
