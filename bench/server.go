package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// serverRow requests a fresh sandbox each time, from its own server over one keep-alive connection. The server is not
// shared, so that its CPU time, including that of its sandboxes, is this row's.
func serverRow(name, language, program string, s *liveserver.Server) *row {
	body := (&liveserver.Request{Language: language, Code: program}).Encode()
	return &row{name: name, class: native, language: language, want: answer,
		run: func(ctx context.Context) (string, time.Duration, error) {
			stdout, err := post(ctx, s, body)
			return stdout, 0, err
		},
		total: func() (time.Duration, error) {
			if err := awaitIdle(s); err != nil {
				return 0, err
			}
			return liveserver.CPU(s.PID())
		},
		// Tear-down and preparation must not slow the next row's run.
		after: func() (time.Duration, error) { return 0, awaitIdle(s) }}
}

func post(ctx context.Context, s *liveserver.Server, body []byte) (string, error) {
	a, err := s.Post(ctx, body)
	if err != nil {
		return "", err
	}
	if a.Status != "succeeded" {
		return a.Stdout, fmt.Errorf("status %s: %s %s", a.Status, a.Hint, a.Stderr)
	}
	return a.Stdout, nil
}

const (
	idleTimeout = 30 * time.Second
	idlePoll    = 5 * time.Millisecond // not measured
)

// awaitIdle waits until all sandboxes of the server are torn down, except warm ones.
func awaitIdle(s *liveserver.Server) error {
	for deadline := time.Now().Add(idleTimeout); time.Now().Before(deadline); time.Sleep(idlePoll) {
		if _, idle := s.Idle(context.Background()); idle {
			return nil
		}
	}
	return fmt.Errorf("the server still has sandboxes %v after the last answer", idleTimeout)
}
