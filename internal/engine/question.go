package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/fumehood-dev/fumehood/internal/driver"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// question is a request to the driver that is no run, and is sent in several pieces. While it is sent, a file beside
// the logs describes it: if its server is killed meanwhile, the next one sends as many spaces as are missing, or the
// driver would take the next request for the rest. The driver refuses the question then.
type question struct {
	Request uint64 `json:"request"` // its offset in the stdin of the interpreter
	Size    uint64 `json:"size"`
}

func (in *interpreter) questionFile() string {
	return filepath.Join(in.context.sandbox.logs.Dir(), string(in.id)+".question")
}

// sendQuestion sends a request that is no run, all of it, also if its caller leaves meanwhile: half a request would
// spoil the next. If it fails, it ends the interpreter.
func (in *interpreter) sendQuestion(ctx context.Context, request []byte) error {
	if len(request) > guest.MaxData {
		in.mu.Lock()
		text := encode(question{Request: in.at.sent, Size: uint64(len(request))})
		in.mu.Unlock()
		if err := os.WriteFile(in.questionFile(), text, 0o600); err != nil {
			return &sandbox.Error{Kind: sandbox.Unavailable, Op: "keep a request", Err: err,
				Fix: "free space in the state folder of Fumehood"}
		}
	}
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stateTimeout)
	defer cancel()
	defer context.AfterFunc(in.context.sandbox.life, cancel)()
	err := in.send(sending, request)
	if err != nil {
		in.kill()
	}
	if len(request) > guest.MaxData && in.context.sandbox.life.Err() == nil {
		_ = os.Remove(in.questionFile()) // its folder is removed with the sandbox
	}
	return err
}

// completeQuestion sends the rest of a question of an earlier server, in the turn of the context.
func (in *interpreter) completeQuestion() error {
	text, err := os.ReadFile(in.questionFile())
	var q question
	if err != nil || json.Unmarshal(text, &q) != nil {
		return nil // no question was under way, or its server was killed before it sent any of it
	}
	s, end := in.context.sandbox, q.Request+q.Size
	missing := end - min(in.at.sent, end)
	switch {
	case missing == 0 || missing >= q.Size:
		_ = os.Remove(in.questionFile())
		return nil
	case q.Size-missing < driver.MaxHeader:
		return errors.New("it got only the beginning of a request, which would spoil the next")
	}
	t := in.context.turns.join() // before any run
	s.work.Go(func() {
		defer t.leave()
		ctx, cancel := context.WithTimeout(s.life, stateTimeout)
		defer cancel()
		switch err := in.send(ctx, bytes.Repeat([]byte{' '}, int(missing))); {
		case err == nil:
			_ = os.Remove(in.questionFile())
		case s.life.Err() == nil:
			in.kill()
		}
	})
	return nil
}
