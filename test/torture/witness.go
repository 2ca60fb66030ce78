package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

const (
	witnessBoxes = 2 // concurrent short-lived sandboxes
	appearance   = 10 * time.Second
)

// witness is a server that is never killed. One of its sandboxes lives from beginning to end. Others live for about a
// second, so that at every moment one is starting, running or ending.
type witness struct {
	server   *liveserver.Server
	instance liveserver.Instance
	stays    []string // folders of the long-lived boxes

	cancel  context.CancelFunc
	wg      sync.WaitGroup
	stopped bool

	mu     sync.Mutex // guards the fields below
	done   int
	errors []error
}

func startWitness(ctx context.Context, c config) (*witness, error) {
	// No warm boxes, so that the only box is the long-lived one.
	s, err := liveserver.Start(ctx, c.server("--warm", "0"))
	if err != nil {
		return nil, err
	}
	w := &witness{server: s}
	ctx, w.cancel = context.WithCancel(ctx)
	w.wg.Go(func() { w.stay(ctx) })
	if err := w.awaitBox(c.runDir); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	for i := range witnessBoxes {
		w.wg.Go(func() { w.comeAndGo(ctx, i) })
	}
	return w, nil
}

// awaitBox waits for the first box, which identifies the instance.
func (w *witness) awaitBox(runDir string) (err error) {
	for deadline := time.Now().Add(appearance); time.Now().Before(deadline); time.Sleep(checkPoll) {
		if w.instance, err = liveserver.InstanceOf(runDir, w.server.PID()); err == nil {
			if w.stays = w.instance.Boxes(); len(w.stays) == 1 {
				return nil
			}
		}
	}
	return errors.Join(errors.New("no sandbox appeared"), err)
}

// stay runs a program that must not end before its request is canceled.
func (w *witness) stay(ctx context.Context) {
	a, err := w.server.Run(ctx, &liveserver.Request{Language: "bash", Code: "sleep 86000",
		Env: map[string]string{mark: "witness"}, Limits: &liveserver.Limits{TimeoutS: 86400}})
	if ctx.Err() == nil {
		w.note(errors.Join(fmt.Errorf("the long-lived sandbox has ended: %+v", a), err))
	}
}

func (w *witness) comeAndGo(ctx context.Context, i int) {
	code := fmt.Sprintf("echo begin; echo kept >f; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1; done; cat f; echo %d", i)
	want := fmt.Sprintf("begin\nkept\n%d\n", i)
	for ctx.Err() == nil {
		r := liveserver.Request{Language: "bash", Code: code, Env: map[string]string{mark: "witness"}}
		a, err := w.server.Run(ctx, &r)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.note(err)
			return
		case a.Status != "succeeded" || a.Stdout != want:
			w.note(fmt.Errorf("status %s, stdout %q, stderr %q, hint %s", a.Status, a.Stdout, a.Stderr, a.Hint))
		}
		w.mu.Lock()
		w.done++
		w.mu.Unlock()
	}
}

func (w *witness) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errors = append(w.errors, err)
}

func (w *witness) runs() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done + 1
}

// check returns an error if any of the witness's sandboxes was disturbed.
func (w *witness) check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errors) > 0 {
		return fmt.Errorf("a sandbox of the witness was disturbed: %w", errors.Join(w.errors...))
	}
	return nil
}

// stop ends the witness normally. Further calls do nothing.
func (w *witness) stop() error {
	if w.stopped {
		return nil
	}
	w.stopped = true
	w.cancel()
	w.wg.Wait()
	return errors.Join(w.check(), w.server.Stop())
}
