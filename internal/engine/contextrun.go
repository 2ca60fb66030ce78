package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/diagnose"
	"github.com/fumehood-dev/fumehood/internal/driver"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of what one run shows, beyond which a driver breaks the protocol.
const (
	maxResults     = 256      // values
	maxResultBytes = 64 << 20 // of all of them
)

// runInContext runs code in its context. The caller has the context's turn.
func (x *Run) runInContext(ctx context.Context) (guest.Exited, error) {
	in, request, err := x.beginInContext(ctx)
	if err != nil {
		return guest.Exited{}, err
	}
	sending, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	answer := in.beginSend(sending, request)
	send := func() { x.sentCode(in, answer()) }
	if answer == nil {
		send = func() { x.passCode(sending, in, request) }
	}
	sent := sync.OnceFunc(send)
	var passed sync.WaitGroup
	pass := func() {
		passed.Go(func() {
			sent()
			x.passAnswers(sending, in)
		})
	}
	if answer == nil { // it may take long
		pass()
		pass = nil
	}
	exited, err := x.follow(ctx, in, pass)
	x.calls.close()
	late := time.AfterFunc(interruptTimeout, cut) // the guest's answer may come after the end of short code
	defer late.Stop()
	defer context.AfterFunc(x.sandbox.life, cut)()
	passed.Wait()
	sent()
	return exited, err
}

// countRun counts the run as one of its context.
func (x *Run) countRun() {
	n := x.context.count()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs = n
}

// beginInContext makes the run the current one of its interpreter, and returns what is to be sent. The log then tells
// the next server which bytes of stdin the interpreter must get.
func (x *Run) beginInContext(ctx context.Context) (in *interpreter, request []byte, err error) {
	if x.resumed != nil {
		return x.resumed.interpreter, x.resumed.rest, nil
	}
	if in, err = x.context.alive(ctx); err != nil {
		return nil, nil, err
	}
	request = x.forDriver()
	x.countRun()
	x.beginNow()
	in.begin(x, len(request))
	x.freeBegun()
	if len(request) > guest.MaxData && x.log.Log != nil && !x.kept {
		err = x.saveRequest()
	}
	if err = errors.Join(err, x.log.Sync()); err != nil {
		in.leave(x)
		return nil, nil, err
	}
	return in, request, nil
}

// forDriver is the request that makes the driver run the code.
func (x *Run) forDriver() []byte {
	var tools []byte
	if stubs := x.stubs(); stubs != nil {
		tools = driver.Frame{Kind: driver.Tools, Fields: [][]byte{stubs}}.Append(nil)
	}
	f := driver.Frame{Kind: driver.Run, Fields: [][]byte{[]byte(x.id), x.Request.Code}}
	for _, variable := range x.Request.Env {
		name, value, _ := strings.Cut(variable, "=")
		f.Fields = append(f.Fields, []byte(name), []byte(value))
	}
	return f.Append(tools)
}

// passCode sends a request to the interpreter.
func (x *Run) passCode(ctx context.Context, in *interpreter, request []byte) {
	x.sentCode(in, in.send(ctx, request))
}

// sentCode ends an interpreter that did not take all of a request: it may read no more, and half a request is none.
func (x *Run) sentCode(in *interpreter, err error) {
	if err != nil && !in.isGone() {
		x.sandbox.engine.log.Debug("could not send code to a context", "sandbox", x.sandbox.id, "err", err)
		in.kill()
	}
}

// follow follows code in its context to its end. Unless pass is nil, it is called once there is an answer for the code.
func (x *Run) follow(ctx context.Context, in *interpreter, pass func()) (guest.Exited, error) {
	defer func() {
		in.leave(x)
		if x.late = in.cutBackground(); len(x.late.Head) > 0 {
			in.forgetBackground()
		}
		if x.log.Sync() == nil {
			in.forgetSplit()
		}
	}()
	stop := make(chan cause, 1)
	end := func(c cause) {
		if x.verdict.claim(c) {
			stop <- c
		}
	}
	limit := newClock(0)
	if x.calls != nil {
		limit = x.calls.clock
	}
	limit.begin(x.began.Add(x.Spec.Limits.Timeout), func() { end(causeDeadline) })
	defer limit.close()
	defer context.AfterFunc(ctx, func() { x.canceledBy(end) })()
	var answers chan struct{}
	if x.calls != nil && pass != nil {
		answers = x.calls.outbox
	}
	for {
		select {
		case <-answers:
			answers = nil
			x.calls.wake()
			pass()
		case <-x.ran:
			x.verdict.claim(causeExit)
			if x.code != 0 && x.wasSignaled() && !x.sandbox.oneShot {
				x.found = append(x.found, sandbox.HintStateKept)
			}
			return guest.Exited{Code: int32(x.code)}, nil
		case <-in.gone:
			return x.withoutInterpreter(in)
		case <-x.sandbox.life.Done():
			x.lifeOver(func() {})
			<-in.gone // nothing writes to x any more
			return guest.Exited{}, nil
		case <-x.runaway:
			end(causeOutput)
		case <-stop:
			if answers != nil {
				pass()
			}
			return x.interrupt(in)
		}
	}
}

// interrupt ends code: by an interrupt, after which the state of the context stays, or with its
// interpreter.
func (x *Run) interrupt(in *interpreter) (guest.Exited, error) {
	ctx, cancel := context.WithTimeout(x.sandbox.life, interruptTimeout)
	defer cancel()
	for ctx.Err() == nil && !in.isGone() {
		// An interpreter may miss a signal that comes just before a blocking system call, so the signal is repeated.
		_ = in.interrupt(ctx, guest.ScopeGroup)
		select {
		case <-x.ran:
			if !x.sandbox.oneShot {
				x.found = append(x.found, sandbox.HintStateKept)
			}
			return guest.Exited{}, nil
		case <-in.gone:
		case <-ctx.Done():
		case <-time.After(interruptPause):
		}
	}
	in.kill()
	return x.withoutInterpreter(in)
}

// withoutInterpreter ends a run whose interpreter has ended: by the code, or with it.
func (x *Run) withoutInterpreter(in *interpreter) (guest.Exited, error) {
	if x.sandbox.life.Err() == nil && !x.sandbox.oneShot {
		x.found = append(x.found, sandbox.HintStateLost{Context: x.context.name})
	}
	if in.isGone() && in.err == nil {
		x.verdict.claim(causeExit)
		return in.exited, nil
	}
	if x.sandbox.life.Err() != nil { // it ended first
		x.lifeOver(func() {})
	}
	x.verdict.claim(causeLost)
	return guest.Exited{}, nil
}

// takeOutput receives output of the interpreter while this is its run.
func (x *Run) takeOutput(m guest.Output) error {
	base := x.base.Stdout
	if m.Stream == sandbox.Stderr {
		base = x.base.Stderr
	}
	if m.Offset < base {
		return nil // it was seen under an earlier server
	}
	m.Offset -= base
	err := x.output.take(m)
	if errors.Is(err, errRunaway) {
		select {
		case x.runaway <- struct{}{}:
		default:
		}
		return nil
	}
	return err
}

// report takes a value or an exception.
func (x *Run) report(f driver.Frame, end uint64) error {
	if x.resumed != nil && end <= x.resumed.reported {
		return nil // the log has it
	}
	switch f.Kind {
	case driver.Result:
		value, err := parseResult(f)
		if err != nil {
			return err
		}
		return x.addResult(value, end)
	case driver.Exception:
		raised, err := parseException(f)
		if err != nil {
			return err
		}
		x.raise(raised, end)
		return nil
	case driver.Call:
		return x.takeCall(f, end)
	}
	return fmt.Errorf("an unknown report %.20q", f.Kind)
}

func (x *Run) addResult(value sandbox.Value, end uint64) error {
	size := 0
	for _, form := range value.Forms {
		size += len(form.Data)
	}
	x.mu.Lock()
	x.resultBytes += size
	x.resultCount++
	over := x.resultCount > maxResults || x.resultBytes > maxResultBytes
	if !over && !x.isLeft() {
		x.results = append(x.results, value)
	}
	x.mu.Unlock()
	if over {
		return fmt.Errorf("more than %d values, or %d bytes of them", maxResults, maxResultBytes)
	}
	x.logValue(eventlog.Result, end, encode(value))
	return nil
}

func (x *Run) raise(raised *sandbox.Exception, end uint64) {
	x.mu.Lock()
	first := x.exception == nil
	if first {
		if x.exception = raised; x.slotless() {
			x.exception = shortException(raised, maxKeptException) // its log has all of it
		}
	}
	x.mu.Unlock()
	if first {
		x.logValue(eventlog.Exception, end, encode(raised))
	}
}

// resultTypes are the media types of forms, besides those of vendorType; others are refused.
var resultTypes = []string{"text/plain", "text/html", "text/markdown", "text/latex", "image/svg+xml", "image/png",
	"image/jpeg", "application/json"}

// vendorType reports whether a media type is JSON of a library, such as application/vnd.plotly.v1+json (RFC 6838).
func vendorType(name string) bool {
	const most = 100 // bytes
	name, vendor := strings.CutPrefix(name, "application/vnd.")
	name, isJSON := strings.CutSuffix(name, "+json")
	return vendor && isJSON && len(name) <= most && diagnose.PlainName(name) != ""
}

func parseResult(f driver.Frame) (value sandbox.Value, err error) {
	if len(f.Fields) < 4 || len(f.Fields)%2 != 0 {
		return value, fmt.Errorf("a result of %d fields", len(f.Fields))
	}
	value.Main = string(f.Fields[1]) == "1"
	for i := 2; i < len(f.Fields); i += 2 {
		if form := string(f.Fields[i]); slices.Contains(resultTypes, form) || vendorType(form) {
			// a copy, or it would keep the bytes of all other fields
			value.Forms = append(value.Forms, sandbox.Form{Type: form, Data: bytes.Clone(f.Fields[i+1])})
		}
	}
	if len(value.Forms) == 0 {
		return value, fmt.Errorf("a result without a known form")
	}
	return value, nil
}

func parseException(f driver.Frame) (*sandbox.Exception, error) {
	if len(f.Fields) != 4 {
		return nil, fmt.Errorf("an exception of %d fields", len(f.Fields))
	}
	return &sandbox.Exception{Name: string(f.Fields[1]), Value: string(f.Fields[2]),
		Traceback: string(f.Fields[3])}, nil
}

func exitCode(f driver.Frame) (int, error) {
	if len(f.Fields) != 2 {
		return 0, fmt.Errorf("an end of %d fields", len(f.Fields))
	}
	code, err := strconv.ParseUint(string(f.Fields[1]), 10, 8)
	if err != nil {
		return 0, fmt.Errorf("%.20q is not an exit code", f.Fields[1])
	}
	return int(code), nil
}

// count counts a run that begins, and returns the runs so far.
func (c *Context) count() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	return c.runs
}

// hasRun reports whether the interpreter of the context, if it has one, has run code.
func (c *Context) hasRun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.interpreter != nil && c.runs > 0
}
