package server

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/nowait"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// stdin is the guest's end of a process's stdin.
type stdin struct {
	taken atomic.Uint64 // bytes handed over
	turn  chan struct{} // holds one token, for the writer; nil if stdin is not a pipe

	tty bool

	mu     sync.Mutex   // guards file
	file   *os.File     // nil once it is closed
	direct *nowait.File // the same; nil without

	// For a terminal; guarded by the token.
	eofAt  uint64 // offset of the typed end of file
	eofSet bool
}

// endOfFile is typed on a terminal to end a program's input (VEOF).
const endOfFile = 4

func (in *stdin) open(file *os.File, tty bool) {
	in.turn = make(chan struct{}, 1)
	in.turn <- struct{}{}
	in.file, in.direct, in.tty = file, nowait.New(file), tty
}

func (in *stdin) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.file != nil {
		in.file.Close() // wakes a writer
		in.file = nil
	}
}

func (s *Server) input(c *call, m *guest.Input) error {
	p, err := s.table.find(m.ID)
	if err != nil {
		return err
	}
	in := &p.stdin
	if in.turn == nil {
		return invalid("stdin of "+m.ID, "it is not a pipe")
	}
	select {
	case <-in.turn:
		defer func() { in.turn <- struct{}{} }()
	case <-c.canceled():
		return errCanceled
	}
	taken := in.taken.Load()
	if m.Offset > taken {
		return &guest.Failed{Kind: sandbox.Invalid, Op: "stdin of " + m.ID, Msg: "bytes before this offset are missing",
			Value: taken}
	}
	if skip := taken - m.Offset; skip < uint64(len(m.Data)) {
		n, err := in.write(c, m.Data[skip:])
		in.taken.Add(uint64(n))
		if err != nil {
			return err
		}
	}
	if m.EOF && m.Offset+uint64(len(m.Data)) >= in.taken.Load() {
		if err := in.finish(c); err != nil {
			return err
		}
	}
	accepted := &guest.Accepted{Offset: in.taken.Load()}
	if p.outputs[2] != nil && len(m.Data) < guest.MaxData { // an interpreter reports the end of most code at once
		return c.answerLater(accepted)
	}
	return c.answer(accepted)
}

// write passes data on. For a process that no longer reads, it discards everything.
func (in *stdin) write(c *call, data []byte) (int, error) {
	in.mu.Lock()
	file, direct := in.file, in.direct
	in.mu.Unlock()
	if file == nil {
		return len(data), nil
	}
	n := 0
	if direct != nil {
		var err error
		if n, err = direct.TryWrite(data); err == nil && n == len(data) {
			return n, nil
		}
	}
	stop := c.OnCancel(func() { file.SetWriteDeadline(time.Unix(1, 0)) })
	more, err := file.Write(data[n:])
	n += more
	if !stop() {
		file.SetWriteDeadline(time.Time{}) // for the next call
	}
	if err == nil {
		return n, nil
	}
	if os.IsTimeout(err) {
		return n, errCanceled
	}
	if !in.tty {
		in.close() // EPIPE, or the process is gone
	}
	return len(data), nil
}

// finish ends the input once: it closes the pipe, or types the end-of-file character. Called with the token.
func (in *stdin) finish(c *call) error {
	if !in.tty {
		in.close()
		return nil
	}
	at := in.taken.Load()
	if in.eofSet && in.eofAt == at {
		return nil
	}
	if _, err := in.write(c, []byte{endOfFile}); err != nil {
		return err
	}
	in.eofSet, in.eofAt = true, at
	return nil
}
