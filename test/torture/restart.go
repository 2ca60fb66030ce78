package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

const (
	longestWork  = 800 * time.Millisecond // from the comparison to the kill
	orderlyEvery = 8                      // rounds, on average, between servers that are stopped and not killed
	againEvery   = 3                      // rounds, on average, between servers that are killed while they start
	// from the start of a server to its kill: it takes the sandboxes over meanwhile
	longestTakeover = 400 * time.Millisecond
	endTimeout      = 15 * time.Second // of the removal of the sandboxes, less than scripts/steps.sh waits
)

// restarts kills a server while clients work in living sandboxes. The next server starts at once, with the same state
// and address. Each client then compares all that answers have reported with what the next server reports.
type restarts struct {
	config
	options  liveserver.Options
	server   *liveserver.Server
	subjects []*subject
	random   *rand.Rand

	acts, doubts int
	facts        int
}

func restart(ctx context.Context, c config, w io.Writer) (err error) {
	fmt.Fprintf(w, "seed %d, %d restarts, %d sandboxes\n", c.seed, c.rounds, c.sandboxes)
	if c.temp, err = os.MkdirTemp("", "torture-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.temp)) }()
	r := &restarts{config: c, random: rand.New(rand.NewPCG(c.seed, c.seed))}
	if c.busy {
		defer keepBusy()()
	}
	wheels, err := serveWheels()
	if err != nil {
		fmt.Fprintf(w, "no packages are added: %v\n", err)
	} else {
		defer func() { err = errors.Join(err, wheels.Close()) }()
	}
	if err := r.begin(ctx, wheels); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.end(ctx)) }()
	reported := time.Now()
	for i := range c.rounds {
		if err := r.round(ctx); err != nil {
			return fmt.Errorf("round %d: %w\noutput of the server: %q", i, err, r.server.Output())
		}
		if time.Since(reported) > progressEvery {
			reported = time.Now()
			fmt.Fprintf(w, "%d of %d\n", i+1, c.rounds)
		}
	}
	fmt.Fprintf(w, "%d restarts: %d answered acts and %d that a kill cut off; %d facts compared, none lost\n", c.rounds,
		r.acts, r.doubts, r.facts)
	return nil
}

// keepBusy uses all processors until the returned function is called.
func keepBusy() (stop func()) {
	var over atomic.Bool
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			for !over.Load() {
			}
		})
	}
	return func() {
		over.Store(true)
		all.Wait()
	}
}

func (r *restarts) begin(ctx context.Context, index *wheels) (err error) {
	r.options = r.config.server("--warm", "1")
	r.options.State = r.temp + "/state"
	r.options.Args = append(r.options.Args, "--package-cache", r.temp+"/packages")
	if index != nil {
		r.options.Args = append(r.options.Args, index.flags()...)
	}
	if r.options.Listen, err = liveserver.FreeAddress(); err != nil {
		return err
	}
	if r.server, err = liveserver.Start(ctx, r.options); err != nil {
		return err
	}
	for i := range r.sandboxes {
		s := newSubject(r.server.URL, fmt.Sprintf("torture%d", i), r.random.Uint64(), index != nil)
		if err := s.create(ctx); err != nil {
			return errors.Join(err, r.server.Stop())
		}
		r.subjects = append(r.subjects, s)
	}
	return nil
}

// round works until it kills the server, starts the next one, and compares.
func (r *restarts) round(ctx context.Context) error {
	var all sync.WaitGroup
	var dying atomic.Bool
	failures := make([]error, len(r.subjects))
	for i, s := range r.subjects {
		all.Go(func() { failures[i] = s.work(ctx, &dying) })
	}
	time.Sleep(time.Duration(r.random.Int64N(int64(longestWork))))
	dying.Store(true)
	stopped := r.endServer()
	next, err := r.launch()
	all.Wait()
	if err := errors.Join(stopped, err); err != nil {
		return err
	}
	r.server = next
	if err := errors.Join(append(failures, next.AwaitReady(ctx))...); err != nil {
		return err
	}
	for i, s := range r.subjects {
		all.Go(func() { failures[i] = s.compare(ctx) })
	}
	all.Wait()
	for _, s := range r.subjects {
		r.acts, r.doubts, r.facts = r.acts+s.acts, r.doubts+s.doubts, r.facts+len(s.known)
		s.acts, s.doubts = 0, 0
	}
	return errors.Join(failures...)
}

// endServer ends the server: most are killed, some of them while they stop.
func (r *restarts) endServer() error {
	switch r.random.IntN(orderlyEvery) {
	case 0:
		return r.server.Stop()
	case 1:
		r.server.Terminate()
		time.Sleep(time.Duration(r.random.Int64N(int64(longestDrain))))
	}
	r.server.Kill()
	return nil
}

// launch starts the next server. Some are killed while they take the sandboxes over, a few of them twice in a row.
func (r *restarts) launch() (*liveserver.Server, error) {
	for r.random.IntN(againEvery) == 0 {
		s, err := liveserver.Launch(r.options)
		if err != nil {
			return nil, err
		}
		time.Sleep(time.Duration(r.random.Int64N(int64(longestTakeover))))
		s.Kill()
	}
	return liveserver.Launch(r.options)
}

// end removes the sandboxes and stops the server, also after an interrupt. Then nothing may remain of any of the
// servers.
func (r *restarts) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	errs := []error{r.server.AwaitReady(ctx)}
	for _, s := range r.subjects {
		errs = append(errs, s.remove(ctx))
	}
	errs = append(errs, r.server.Stop())
	left, err := leftProcesses(nil, nil)
	if errs = append(errs, err); len(left) > 0 {
		errs = append(errs, fmt.Errorf("processes remain: %s", strings.Join(left, "; ")))
	}
	return errors.Join(errs...)
}
