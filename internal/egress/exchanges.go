package egress

import (
	"errors"
	"slices"
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
)

// maxPending is how many requests of one connection may wait for their answers.
const maxPending = 64

// exchange is one request and its answer.
type exchange struct {
	attempt Attempt
	upgrade bool
}

// exchanges pairs the answers of a connection with its requests, for the log. An answer is the server's own claim: it
// decides only whether an upgrade happened.
type exchanges struct {
	log      func(Attempt)
	upgraded chan<- int // gets the status of the answer to an upgrade, 0 if the answer cannot be read

	waiting []exchange
	answers sniff.Framer
	interim bool // the answer being read is not the final one (1xx)
	lost    bool // the answers can no longer be read
}

func newExchanges(log func(Attempt), upgraded chan<- int) *exchanges {
	x := &exchanges{log: log, upgraded: upgraded}
	x.answers.OnHead, x.answers.OnBodyEnd = x.head, x.end
	return x
}

// begin notes a request. It returns false if too many wait.
func (x *exchanges) begin(e exchange) bool {
	if x.lost {
		x.abandon(&e)
		return true
	}
	x.waiting = append(x.waiting, e)
	return len(x.waiting) <= maxPending
}

// names returns the names of the requests that wait for their answers, without those that repeat.
func (x *exchanges) names() (list []string) {
	for i := range x.waiting {
		if name := x.waiting[i].attempt.Name; name != "" && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// waiting returns the names of the requests that wait for their answers.
func (i *inspector) waiting() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.exchanges == nil {
		return nil
	}
	return i.exchanges.names()
}

// feed follows the bytes that the server sends.
func (x *exchanges) feed(b []byte) {
	if x.lost {
		return
	}
	if len(x.waiting) > 0 {
		x.waiting[0].attempt.Received += int64(len(b)) // of pipelined ones the first counts all that comes at once
	}
	if _, _, err := x.answers.Feed(b); err != nil {
		x.stop()
	}
}

// stop ends the pairing, and logs the waiting requests without an answer.
func (x *exchanges) stop() {
	if x.lost {
		return
	}
	x.lost = true
	for i := range x.waiting {
		x.abandon(&x.waiting[i])
	}
	x.waiting, x.answers = nil, sniff.Framer{}
}

// abandon logs an exchange whose answer cannot be read.
func (x *exchanges) abandon(e *exchange) {
	x.answerUpgrade(e, 0)
	x.finish(e)
}

// answerUpgrade passes the status on to the inspector. Only one upgrade waits at a time.
func (x *exchanges) answerUpgrade(e *exchange, status int) {
	if e.upgrade {
		select {
		case x.upgraded <- status:
		default:
		}
	}
}

func (x *exchanges) finish(e *exchange) {
	e.attempt.Duration = time.Since(e.attempt.Time)
	x.log(e.attempt)
}

// head notes the status of an answer and returns the framing of its body.
func (x *exchanges) head(b []byte) (sniff.Body, error) {
	if len(x.waiting) == 0 {
		return sniff.Body{}, errors.New("an answer without a request")
	}
	e := &x.waiting[0]
	status, body, err := sniff.ParseResponse(b, e.attempt.Method)
	if x.interim = status < 200 && status != 101; err == nil && !x.interim {
		e.attempt.Status = status
		x.answerUpgrade(e, status)
	}
	return body, err
}

// end logs an exchange at the end of its answer.
func (x *exchanges) end() {
	if !x.interim {
		x.finish(&x.waiting[0])
		x.waiting = x.waiting[1:]
	}
}
