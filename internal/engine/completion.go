package engine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/fumehood-dev/fumehood/internal/driver"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	completeTimeout = 5 * time.Second
	maxCompleted    = 1 << 20 // bytes of code
	maxMatches      = 100
	maxMatch        = 1 << 10 // bytes of a name; longer ones are left out
)

// Complete returns names that fit at the cursor, an offset in bytes of the code. Each replaces the code from start to
// the cursor.
func (c *Context) Complete(ctx context.Context, code string, cursor int) (start int, names []string, err error) {
	if len(code) > maxCompleted {
		return 0, nil, &sandbox.Error{Kind: sandbox.TooLarge, Op: "code",
			Msg: "it has more than " + sandbox.FormatBytes(maxCompleted)}
	}
	if cursor < 0 || cursor > len(code) {
		return 0, nil, sandbox.Invalidf("cursor", "%d is not an offset in %d bytes of code", cursor, len(code))
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	fields, err := c.ask(ctx, driver.Complete, []byte(code), []byte(strconv.Itoa(cursor)))
	if err != nil {
		return 0, nil, err
	}
	return parseMatches(fields, cursor)
}

// ask sends a request to the driver that is no run, waits for its answer in the context's turn, and returns its fields
// after the id. When ctx ends, it interrupts the driver: code of the sandbox may run for the answer.
func (c *Context) ask(ctx context.Context, kind driver.Kind, fields ...[]byte) ([][]byte, error) {
	used, err := c.sandbox.use()
	if err != nil {
		return nil, err
	}
	defer used()
	done, err := c.wait(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	in, err := c.alive(ctx)
	if err != nil {
		return nil, err
	}
	id := sandbox.NewID()
	answers := in.expectAnswer(id)
	defer in.dropAnswer()
	request := driver.Frame{Kind: kind, Fields: append([][]byte{[]byte(id)}, fields...)}
	if err := in.sendQuestion(ctx, request.Append(nil)); err != nil {
		return nil, err
	}
	select {
	case fields := <-answers:
		in.forgetSplit()
		return fields[1:], nil
	case <-in.gone:
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: string(kind), Msg: "the interpreter ended"}
	case <-ctx.Done():
		stopping, cancel := context.WithTimeout(c.sandbox.life, interruptTimeout)
		defer cancel()
		_ = in.interrupt(stopping, guest.ScopeProcess) // not the commands of earlier runs
		return nil, context.Cause(ctx)
	}
}

func parseMatches(fields [][]byte, cursor int) (start int, names []string, err error) {
	if len(fields) == 0 {
		return 0, nil, fmt.Errorf("matches without a start")
	}
	if start, err = strconv.Atoi(string(fields[0])); err != nil || start < 0 || start > cursor {
		return 0, nil, fmt.Errorf("%.20q is not the start of a name", fields[0])
	}
	for _, name := range fields[1:min(len(fields), 1+maxMatches)] {
		if len(name) <= maxMatch {
			names = append(names, string(name))
		}
	}
	return start, names, nil
}

// asked is the question whose caller waits.
type asked struct {
	id     sandbox.ID
	answer chan [][]byte // nil without
}

func (in *interpreter) expectAnswer(id sandbox.ID) <-chan [][]byte {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.asked, in.stray = asked{id, make(chan [][]byte, 1)}, 0
	return in.asked.answer
}

func (in *interpreter) dropAnswer() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.asked = asked{}
}

// isAsked reports whether a caller waits for an answer.
func (in *interpreter) isAsked() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.asked.answer != nil
}

// answer passes an answer, which ends at an offset of the channel, to the caller that waits. A second answer is forged,
// and one to another question is that of a caller that has left.
func (in *interpreter) answer(fields [][]byte, end uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.at.ended = end; string(fields[0]) != string(in.asked.id) {
		return
	}
	select {
	case in.asked.answer <- fields:
	default:
	}
}
