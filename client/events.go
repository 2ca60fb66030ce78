package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Event is one event of a run. One of the pointers is set, unless this client does not know Name. Its bytes are valid
// until the receiver returns.
type Event struct {
	ID        string
	Name      string // a constant of package api
	Started   *api.Started
	Step      *string // a step before the program starts; "" ends it
	Output    *Output
	Result    *api.Result
	Exception *sandbox.Exception
	Call      *api.CallEvent // Answer answers it
	Answered  *api.AnsweredEvent
	Done      *api.Outcome
	Failed    error // Fumehood failed; like Done, it is the last event
	Data      json.RawMessage
}

// Output is the next bytes of stdout or stderr.
type Output struct {
	Stderr bool
	Offset int64 // of the first byte; output between the end of the last piece and a higher offset was dropped
	Data   []byte
}

// readEvents reads server-sent events (HTML Living Standard, section 9.2) and hands each to take, up to the end of the
// stream. Events are those of the server: what a sandbox wrote is JSON within them.
func readEvents(r io.Reader, take func(Event) error) error {
	lines := lineReader{r: bufio.NewReaderSize(r, 256<<10)} // several events of output
	var id, name string
	var data, text []byte
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && name != "":
			event, err := parseEvent(id, name, data, &text)
			if err != nil {
				return err
			}
			if err := take(event); err != nil {
				return err
			}
			name, data = "", emptied(data)
		case string(field) == "id":
			id = string(value)
		case string(field) == "event":
			name = string(value)
		case string(field) == "data":
			if len(data)+len(value) > maxAnswer {
				return errLongEvent
			}
			data = append(data, value...)
		}
	}
}

var errLongEvent = fmt.Errorf("an event is longer than %d bytes", maxAnswer)

// lineReader reads lines of any length, up to maxAnswer.
type lineReader struct {
	r    *bufio.Reader
	long []byte // a line that r has no room for
}

// keptMost is how large a buffer is kept for the next event.
const keptMost = 1 << 20

func emptied(b []byte) []byte {
	if cap(b) > keptMost {
		return nil
	}
	return b[:0]
}

// next returns the next whole line without its end, valid until the next call. The end of the stream within a line
// drops the line.
func (l *lineReader) next() ([]byte, error) {
	l.long = emptied(l.long)
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.long)+len(part) > maxAnswer {
			return nil, errLongEvent
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			l.long = append(l.long, part...)
			continue
		}
		if len(l.long) > 0 {
			part = append(l.long, part...)
			l.long = part
		}
		return bytes.TrimRight(part, "\r\n"), err
	}
}

// parseEvent parses an event. It appends output to text where it can.
func parseEvent(id, name string, data []byte, text *[]byte) (Event, error) {
	e := Event{ID: id, Name: name, Data: data}
	var err error
	switch name {
	case api.EventStarted:
		e.Started = &api.Started{}
		err = json.Unmarshal(data, e.Started)
	case api.EventProgress:
		var progress api.Progress
		err = json.Unmarshal(data, &progress)
		e.Step = &progress.Text
	case api.EventStdout, api.EventStderr:
		e.Output = &Output{Stderr: name == api.EventStderr}
		var ok bool
		if e.Output.Offset, e.Output.Data, ok = quickOutput(data, (*text)[:0]); ok {
			*text = e.Output.Data
			return e, nil
		}
		var piece api.OutputPiece
		err = json.Unmarshal(data, &piece)
		e.Output.Offset, e.Output.Data = piece.Offset, []byte(piece.Text)
		if piece.Base64 != nil {
			e.Output.Data = piece.Base64
		}
	case api.EventResult:
		e.Result = &api.Result{}
		err = json.Unmarshal(data, e.Result)
	case api.EventException:
		e.Exception = &sandbox.Exception{}
		err = json.Unmarshal(data, e.Exception)
	case api.EventCall:
		e.Call = &api.CallEvent{}
		err = json.Unmarshal(data, e.Call)
	case api.EventAnswered:
		e.Answered = &api.AnsweredEvent{}
		err = json.Unmarshal(data, e.Answered)
	case api.EventDone:
		e.Done = &api.Outcome{}
		err = json.Unmarshal(data, e.Done)
	case api.EventProblem:
		var p api.Problem
		err = json.Unmarshal(data, &p)
		e.Failed = problemError(p, 0)
	}
	if err != nil {
		return e, fmt.Errorf("event %q: %w", name, err)
	}
	return e, nil
}
