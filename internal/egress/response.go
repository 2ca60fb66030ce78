package egress

import (
	"strconv"
	"strings"
	"time"
)

// maxPending is how many requests of one connection may wait for their answers.
const maxPending = 256

// exchange is one request and its answer.
type exchange struct {
	attempt Attempt
	upgrade bool
}

// exchanges pairs the answers of a connection with its requests, for the log. What a server sends is its own claim and decides nothing but
// whether an upgrade happened.
type exchanges struct {
	waiting []exchange
	answers framer
	interim bool // the answer being read is not the final one (1xx)
	lost    bool // the answers can no longer be read
	log     func(Attempt)
	// answered is called with the status of the answer to an upgrade, 0 if there is none.
	answered func(status int)
}

func (x *exchanges) init() {
	x.answers.ends = x.head
	x.answers.over = x.over
}

// sent notes a request. It fails if too many wait.
func (x *exchanges) sent(e exchange) bool {
	if x.lost {
		x.abandon(&e)
		return true
	}
	x.waiting = append(x.waiting, e)
	return len(x.waiting) <= maxPending
}

// feed follows what the server sends.
func (x *exchanges) feed(b []byte) {
	if x.lost {
		return
	}
	if len(x.waiting) > 0 {
		x.waiting[0].attempt.Received += int64(len(b)) // of pipelined ones the first counts all that comes at once
	}
	if _, _, err := x.answers.feed(b); err != nil {
		x.stop()
	}
}

// stop ends the pairing; what waits is logged as it is.
func (x *exchanges) stop() {
	if x.lost {
		return
	}
	x.lost = true
	for i := range x.waiting {
		x.abandon(&x.waiting[i])
	}
	x.waiting, x.answers.head = nil, nil
}

// abandon logs an exchange whose answer cannot be read.
func (x *exchanges) abandon(e *exchange) {
	if e.upgrade {
		x.answered(0)
	}
	x.finish(e)
}

func (x *exchanges) finish(e *exchange) {
	e.attempt.Duration = time.Since(e.attempt.Time)
	x.log(e.attempt)
}

// head reads the status of an answer and how its body is framed (RFC 9112, section 6.3).
func (x *exchanges) head(b []byte) (body, error) {
	first, fields, err := splitHead(b)
	if err != nil {
		return body{}, err
	}
	version, rest, _ := strings.Cut(first, " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if err != nil || len(code) != 3 || !strings.HasPrefix(version, "HTTP/1.") || status < 100 || len(x.waiting) == 0 {
		return body{}, errHead
	}
	e := &x.waiting[0]
	if x.interim = status < 200 && status != 101; x.interim {
		return body{}, nil
	}
	e.attempt.Status = status
	if e.upgrade {
		x.answered(status)
	}
	if status == 101 {
		return body{length: -1}, nil
	}
	if e.attempt.Method == "HEAD" || status == 204 || status == 304 {
		return body{}, nil
	}
	framed, err := framing(fields, "HTTP/1.1")
	if err == nil && !framed.chunked && !has(fields, "content-length") {
		framed.length = -1
	}
	return framed, err
}

func has(fields []field, name string) bool {
	for _, f := range fields {
		if f.name == name {
			return true
		}
	}
	return false
}

// over logs an exchange at the end of its answer.
func (x *exchanges) over() {
	if x.interim {
		return
	}
	x.finish(&x.waiting[0])
	x.waiting = x.waiting[1:]
}
