package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// mark is in the environment of every program that this torture starts, to find them among the host's processes.
var mark = fmt.Sprintf("TORTURE_MARK_%d", os.Getpid())

// victims are programs in various states when their server dies: just started, asleep, busy, forking, in their own
// sessions, filling the disk, writing output, reading files.
var victims = []liveserver.Request{
	{Language: "bash", Code: "echo $((6*7))"},
	{Language: "bash", Code: "sleep 100"},
	{Language: "bash", Code: "sleep 0.05"},
	{Language: "bash", ReturnFiles: []string{"*"},
		Code: "for i in 1 2 3 4; do (sleep 0.1; echo $i) & done; wait; seq 1000 | sort -R | tail -1 >out"},
	{Language: "bash", Code: "(setsid sleep 0.2 &); echo left behind"},
	{Language: "python", Code: "import threading, time\n" +
		"for _ in range(20): threading.Thread(target=time.sleep, args=(0.1,)).start()"},
	{Language: "bash", Code: "while :; do :; done"},
	{Language: "bash", Code: "for i in 1 2 3 4 5 6 7 8; do setsid sleep 100 & done; wait"},
	{Language: "bash", Code: "trap '' TERM HUP INT; " +
		"(setsid bash -c 'trap \"\" TERM HUP; sleep 100; sleep 100' &) ; sleep 100"},
	{Language: "bash", Code: "head -c 20000000 /dev/zero >f; sync; sleep 100"},
	{Language: "bash", Code: "yes"},
	{Language: "python", Code: "print(6*7)"},
	{Language: "python", Code: "import os\nfor _ in range(5):\n  os.fork()\nimport time; time.sleep(100)"},
	{Language: "python", Code: "import ctypes, os, time\nctypes.CDLL(None).prctl(4, 0)\n" +
		"os.setsid() if os.fork() == 0 else None\ntime.sleep(100)"},
	{Language: "python", Code: "x = bytearray(100_000_000)\nimport time; time.sleep(100)"},
	{Language: "bash", Code: "cat in/* | wc -c; sleep 100",
		Files: []liveserver.File{{Path: "in/a", Content: make([]byte, 1<<20)}}},
}

// load keeps a server busy until it dies.
type load struct {
	wg     sync.WaitGroup
	cancel context.CancelFunc
	dying  atomic.Bool // set before the server is stopped

	mu     sync.Mutex // guards errors
	errors []error
}

func startLoad(ctx context.Context, s *liveserver.Server, clients int, seed uint64) *load {
	l := new(load)
	ctx, l.cancel = context.WithCancel(ctx)
	var bodies [][]byte
	for _, v := range victims {
		v.Env = map[string]string{mark: "victim"}
		bodies = append(bodies, v.Encode())
	}
	for i := range clients {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		l.wg.Go(func() {
			for ctx.Err() == nil && !s.Ended() {
				a, err := s.Post(ctx, bodies[random.IntN(len(bodies))])
				if err != nil {
					l.note(err)
					return
				}
				l.check(a)
			}
		})
	}
	return l
}

// check records an unexpected answer. A draining server may cancel runs.
func (l *load) check(a *liveserver.Answer) {
	switch {
	case a.Status == "succeeded", a.Status == "output_limit", a.Status == "canceled" && l.dying.Load():
	default:
		l.note(fmt.Errorf("an answer under load was %s: %s %s", a.Status, a.Hint, a.Stderr))
	}
}

// note records a client's error, unless the server was dying. A dying server may refuse requests and break off answers.
func (l *load) note(err error) {
	if l.dying.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors = append(l.errors, err)
}

// wait ends the clients. It returns their unexpected errors from before the server died.
func (l *load) wait() error {
	l.cancel()
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.errors...)
}

// checkRun makes one run and checks its output.
func checkRun(ctx context.Context, s *liveserver.Server) error {
	r := liveserver.Request{Language: "python", Code: "print(6*7)", Env: map[string]string{mark: "check"}}
	a, err := s.Run(ctx, &r)
	if err != nil {
		return err
	}
	if a.Status != "succeeded" || a.Stdout != "42\n" {
		return fmt.Errorf("status %s, stdout %q, stderr %q, hint %s", a.Status, a.Stdout, a.Stderr, a.Hint)
	}
	return nil
}
