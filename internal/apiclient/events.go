package apiclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/glovebox-dev/glovebox/internal/answer"
)

// Event is one event of an execution. One of the pointers is set, or Name is of an event that this client does not know.
type Event struct {
	ID     string
	Name   string
	Piece  *Piece
	Value  *answer.Shown
	Done   *answer.Answer
	Failed error  // Glovebox failed; it ends the stream like Done
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
// those of
// the server: what a sandbox wrote is JSON within them.
func events(r io.Reader, take func(Event) error) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	var id, name string
	var data []byte
	for {
		line, err := readLine(lines)
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
			event, err := parseEvent(id, name, data)
			if err != nil {
				return err
			}
			if err := take(event); err != nil {
				return err
			}
			name, data = "", nil
		case string(field) == "id":
			id = string(value)
		case string(field) == "event":
			name = string(value)
		case string(field) == "data":
			data = append(data, value...)
		}
	}
}

// readLine returns the next whole line without its end. The end of the stream within a line drops the line.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxAnswer {
			return nil, fmt.Errorf("an event is longer than %d bytes", maxAnswer)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimRight(line, "\r\n"), err
	}
}

func parseEvent(id, name string, data []byte) (Event, error) {
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
		e.Value = &answer.Shown{}
		err = json.Unmarshal(data, e.Value)
	case "done":
		e.Done = &answer.Answer{}
		err = json.Unmarshal(data, e.Done)
	case "problem":
		var p answer.Problem
		err = json.Unmarshal(data, &p)
		e.Failed = problemError(p, 0)
	}
	if err != nil {
		return e, fmt.Errorf("event %q: %w", name, err)
	}
	return e, nil
}
