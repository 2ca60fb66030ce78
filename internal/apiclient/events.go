package apiclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/fumehood-dev/fumehood/api"
)

// Event is one event of an execution. One of the pointers is set, or Name is of an event that this client does not know. Its bytes are valid
// until the receiver returns.
type Event struct {
	ID     string
	Name   string
	Piece  *Piece
	Value  *api.Result
	Step   *string // what is done before the execution begins; "" is its end
	Done   *api.Answer
	Failed error  // Fumehood failed; it ends the stream like Done
	RunID  string // of the first event of a stream that Stream began
	Data   json.RawMessage
}

// Piece is the next bytes of stdout or stderr.
type Piece struct {
	Stderr bool
	Offset int64 // of the first byte; one beyond the last piece's end means that output between them was dropped
	Data   []byte
}

// events reads server-sent events (HTML Living Standard, section 9.2) and hands each to take, up to the end of the stream. Events are
// those of the server: what a sandbox wrote is JSON within them.
func events(r io.Reader, take func(Event) error) error {
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
			data = append(data, value...)
		}
	}
}

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

// next returns the next whole line without its end, valid until the next call. The end of the stream within a line drops the line.
func (l *lineReader) next() ([]byte, error) {
	l.long = emptied(l.long)
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.long)+len(part) > maxAnswer {
			return nil, fmt.Errorf("an event is longer than %d bytes", maxAnswer)
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

// parseEvent parses an event. The text of output is put into text where that can be.
func parseEvent(id, name string, data []byte, text *[]byte) (Event, error) {
	e := Event{ID: id, Name: name, Data: data}
	var err error
	switch name {
	case "started":
		var started struct {
			ID string `json:"id"`
		}
		err = json.Unmarshal(data, &started)
		e.RunID = started.ID
	case "stdout", "stderr":
		offset, quick, ok := quickPiece(data, (*text)[:0])
		if ok {
			*text = quick
			e.Piece = &Piece{Stderr: name == "stderr", Offset: offset, Data: quick}
			return e, nil
		}
		var piece struct {
			Offset int64   `json:"offset"`
			Text   string  `json:"text"`
			Base64 *[]byte `json:"base64"`
		}
		err = json.Unmarshal(data, &piece)
		e.Piece = &Piece{Stderr: name == "stderr", Offset: piece.Offset, Data: []byte(piece.Text)}
		if piece.Base64 != nil {
			e.Piece.Data = *piece.Base64
		}
	case "result":
		e.Value = &api.Result{}
		err = json.Unmarshal(data, e.Value)
	case "progress":
		var progress struct {
			Text string `json:"text"`
		}
		err = json.Unmarshal(data, &progress)
		e.Step = &progress.Text
	case "done":
		e.Done = &api.Answer{}
		err = json.Unmarshal(data, e.Done)
	case "problem":
		var p api.Problem
		err = json.Unmarshal(data, &p)
		e.Failed = problemError(p, 0)
	}
	if err != nil {
		return e, fmt.Errorf("event %q: %w", name, err)
	}
	return e, nil
}
