package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood"
	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// livingFigures are compared with the targets of living sandboxes; zero means not measured.
type livingFigures struct {
	overHTTP, inGo    time.Duration // p50 of a run in a context
	plain, piped      time.Duration // p50 of the same request to a bare handler, without and with a bare Python
	perSecond         float64       // of such runs, with livingClients clients
	newContext        float64       // minimum of its start over minimum of bare Python's: other load only adds
	idlePrivate       int64         // bytes of an idle sandbox with a context, in all processes
	live              int           // concurrent idle sandboxes with a context
	firstByte         time.Duration // p50, from the write to the client
	goSpeed, sseSpeed float64       // MB/s of output
}

const (
	livingClients = 16
	livingProgram = "x = 1"
	manyLive      = 300
	outputMB      = 100
)

// living measures sandboxes that keep their state, over HTTP and through the Go package.
func (r *report) living(ctx context.Context, s *liveserver.Server) (err error) {
	c, err := client.New(client.Config{Server: s.URL})
	if err != nil {
		return err
	}
	defer c.Close()
	defer func() { err = errors.Join(err, removeAll(context.WithoutCancel(ctx), c)) }()
	f := &r.figures.living
	for _, part := range []func(context.Context, *client.Client, *livingFigures) error{
		r.contextRuns, r.contextClients, r.firstBytes, r.eventSpeed,
	} {
		if err := part(ctx, c, f); err != nil {
			return err
		}
	}
	private, live, err := r.idleMemory(ctx, c, s, r.most(manyLive), api.SandboxRequest{Name: "idle"})
	if err != nil {
		return err
	}
	f.idlePrivate, f.live = private, live
	if err := r.livingInGo(ctx, f); err != nil {
		return err
	}
	t := newTable(r.w, "Living sandboxes on native", "figure", "measured")
	t.line("a run in a Python context over HTTP, p50 ms", ms(f.overHTTP))
	t.line("the same answered by a bare Go handler, p50 ms", ms(f.plain))
	t.line("the same, with a bare Python behind pipes, p50 ms", ms(f.piped))
	t.line("the same through the Go package, p50 ms", ms(f.inGo))
	t.line(fmt.Sprintf("runs a second with %d clients, over HTTP", livingClients), fmt.Sprintf("%.0f", f.perSecond))
	t.line("a new Python context / python3 -c pass, shortest of each", times(f.newContext))
	t.line(fmt.Sprintf("private memory of an idle sandbox with a context, of %d", f.live), mib(f.idlePrivate)+" MiB")
	t.line("first byte of output at the client, p50 ms after its write", ms(f.firstByte))
	t.line("output as events, MB/s", fmt.Sprintf("%.0f", f.sseSpeed))
	t.line("output through the Go package, MB/s", fmt.Sprintf("%.0f", f.goSpeed))
	t.Flush()
	return nil
}

// runOf returns a request to run Python in a context.
func runOf(code string) api.SandboxRunRequest {
	return api.SandboxRunRequest{Program: api.Program{Code: &code, Language: python}}
}

// inContext runs Python in a context and checks how it ended.
func inContext(ctx context.Context, c *client.Client, name, code string) error {
	a, err := c.Run(ctx, name, runOf(code))
	if err == nil && a.Status != "succeeded" {
		err = fmt.Errorf("%s: %s", a.Status, a.Stderr)
	}
	return err
}

// removeAll removes all sandboxes. They would outlive their server and slow the next one's clean-up.
func removeAll(ctx context.Context, c *client.Client) error {
	all, err := c.Sandboxes(ctx, nil)
	for _, s := range all {
		err = errors.Join(err, c.Remove(ctx, string(s.ID)))
	}
	return err
}

// createReady creates a sandbox and runs code once in its context.
func createReady(ctx context.Context, c *client.Client, request api.SandboxRequest) error {
	if _, _, err := c.Create(ctx, request); err != nil {
		return err
	}
	return inContext(ctx, c, request.Name, livingProgram)
}

func (r *report) timed(n int, row string, run func() error) (samples []time.Duration, err error) {
	for i := range warmups + n {
		began := time.Now()
		if err := run(); err != nil {
			return nil, err
		}
		if took := time.Since(began); i >= warmups {
			samples = append(samples, took)
			if err := r.raw.add(newSample("living", row, began, took, nil)); err != nil {
				return nil, err
			}
		}
	}
	return samples, nil
}

// contextRuns measures runs in a context, and the same requests to bare handlers, in turns.
func (r *report) contextRuns(ctx context.Context, c *client.Client, f *livingFigures) error {
	if err := createReady(ctx, c, api.SandboxRequest{Name: "runs"}); err != nil {
		return err
	}
	answer, err := c.Run(ctx, "runs", runOf(livingProgram))
	if err != nil {
		return err
	}
	floor, err := startStepFloor(ctx, answer)
	if err != nil {
		return err
	}
	ways := []struct {
		row    string
		client *client.Client
		name   string
		p50    *time.Duration
	}{{"run over HTTP", c, "runs", &f.overHTTP}, {"bare handler", floor.client, floorPlain, &f.plain},
		{"bare handler and Python", floor.client, floorPiped, &f.piped}}
	samples := make([][]time.Duration, len(ways))
	for i := range warmups + r.Runs {
		for k, way := range ways {
			began := time.Now()
			if err := inContext(ctx, way.client, way.name, livingProgram); err != nil {
				return errors.Join(err, floor.stop())
			}
			took := time.Since(began)
			if i < warmups {
				continue
			}
			samples[k] = append(samples[k], took)
			if err := r.raw.add(newSample("living", way.row, began, took, nil)); err != nil {
				return errors.Join(err, floor.stop())
			}
		}
	}
	for k, way := range ways {
		*way.p50 = summarize(samples[k]).p50
	}
	return floor.stop()
}

// contextClients measures the throughput of clients that each use their own sandbox.
func (r *report) contextClients(ctx context.Context, c *client.Client, f *livingFigures) error {
	for i := range livingClients {
		if err := createReady(ctx, c, api.SandboxRequest{Name: fmt.Sprintf("client-%d", i)}); err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	errs := make([]error, livingClients)
	began := time.Now()
	for i := range livingClients {
		all.Go(func() {
			for range r.Runs {
				if errs[i] = inContext(ctx, c, fmt.Sprintf("client-%d", i), livingProgram); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	f.perSecond = float64(livingClients*r.Runs) / time.Since(began).Seconds()
	return errors.Join(errs...)
}

// firstBytes compares the time that the program prints with the time of its arrival. Sandbox and host share a clock.
func (r *report) firstBytes(ctx context.Context, c *client.Client, f *livingFigures) error {
	code := "import time; print(time.time_ns()); time.sleep(0.005)"
	var late []time.Duration
	for range max(r.Runs/20, 10) {
		seen := false
		err := c.Stream(ctx, "runs", runOf(code), func(e client.Event) error {
			if e.Output == nil || seen {
				return nil
			}
			seen = true
			now := time.Now().UnixNano()
			wrote, err := strconv.ParseInt(strings.TrimSpace(string(e.Output.Data)), 10, 64)
			late = append(late, time.Duration(now-wrote))
			return err
		})
		if err != nil {
			return err
		}
	}
	f.firstByte = summarize(late).p50
	return nil
}

var outputProgram = fmt.Sprintf("import os\nb = b'x' * 999_999 + b'\\n'\nfor i in range(%d): os.write(1, b)", outputMB)

func (r *report) eventSpeed(ctx context.Context, c *client.Client, f *livingFigures) error {
	ask := api.SandboxRequest{Name: "output"}
	kib := float64(1 << 19)
	ask.Limits.OutputKiB = &kib
	if _, _, err := c.Create(ctx, ask); err != nil {
		return err
	}
	var err error
	f.sseSpeed, err = r.speed("output as events", func(got *int) error {
		return c.Stream(ctx, "output", runOf(outputProgram), func(e client.Event) error {
			if e.Output != nil {
				*got += len(e.Output.Data)
			}
			return nil
		})
	})
	return err
}

// speed returns the median speed of the output program, in MB/s of received output. Warm-up runs are not counted, since
// both processes first get memory from the kernel.
func (r *report) speed(row string, run func(got *int) error) (float64, error) {
	var took []time.Duration
	got := 0
	for i := range warmups + r.Floods {
		began := time.Now()
		got = 0
		if err := run(&got); err != nil {
			return 0, err
		}
		if i < warmups {
			continue
		}
		took = append(took, time.Since(began))
		if err := r.raw.add(newSample("living", row, began, took[len(took)-1], nil)); err != nil {
			return 0, err
		}
	}
	return float64(got) / 1e6 / summarize(took).p50.Seconds(), nil
}

// idleMemory creates sandboxes with a context, adds numbers to their name, and measures their private memory, in bytes
// for each: guests, interpreters, and the growth of the server. It returns how many it found.
func (r *report) idleMemory(ctx context.Context, c *client.Client, s *liveserver.Server, most int,
	request api.SandboxRequest) (private int64, found int, err error) {
	name := request.Name
	before, err := liveserver.ReadMemory(s.PID())
	if err != nil {
		return 0, 0, err
	}
	known := map[int]bool{}
	for _, pid := range liveserver.Sandboxes(s.PID()) {
		known[pid] = true
	}
	for i := range most {
		request.Name = fmt.Sprintf("%s-%d", name, i)
		if err := createReady(ctx, c, request); err != nil {
			return 0, 0, fmt.Errorf("sandbox %d: %w", i, err)
		}
	}
	after, err := liveserver.ReadMemory(s.PID())
	if err != nil {
		return 0, 0, err
	}
	total := max(after.Private-before.Private, 0)
	for _, pid := range liveserver.Sandboxes(s.PID()) {
		if known[pid] {
			continue
		}
		for _, p := range append(liveserver.Children(pid), pid) {
			if m, err := liveserver.ReadMemory(p); err == nil {
				total += m.Private
			}
		}
		found++
	}
	if found < most*9/10 { // some were warm before, and are not counted
		return 0, found, fmt.Errorf("found %d of %d sandboxes", found, most)
	}
	return total / int64(found), found, nil
}

// most returns a number of sandboxes, 20 in a quick measurement.
func (r *report) most(n int) int {
	if r.Runs < fullPlan().Runs {
		return min(n, 20)
	}
	return n
}

// livingInGo measures the Go package, in this process.
func (r *report) livingInGo(ctx context.Context, f *livingFigures) error {
	g, err := fumehood.Open(fumehood.Config{Max: sandbox.Limits{OutputBytes: 1 << 30}})
	if err != nil {
		return err
	}
	defer g.Close()
	s, _, err := g.Create(ctx, fumehood.Create{Spec: sandbox.Spec{Limits: sandbox.Limits{OutputBytes: 512 << 20}}})
	if err != nil {
		return err
	}
	run := func(code string, output sandbox.OutputFunc) error {
		request := sandbox.Request{Language: python, Code: []byte(code), Output: output}
		result, err := s.Run(ctx, fumehood.Request{Request: request})
		if err == nil && result.Status != sandbox.StatusSucceeded {
			err = fmt.Errorf("%s: %s", result.Status, result.Stderr.Head)
		}
		return err
	}
	samples, err := r.timed(r.Runs, "run in Go", func() error { return run(livingProgram, nil) })
	if err != nil {
		return err
	}
	f.inGo = summarize(samples).p50
	if err := r.newContexts(ctx, s, f); err != nil {
		return err
	}
	f.goSpeed, err = r.speed("output in Go", func(got *int) error {
		return run(outputProgram, func(_ sandbox.Stream, data []byte) { *got += len(data) })
	})
	return err
}

// contextsAtOnce bounds the contexts between deletions. No context starts during a deletion.
const contextsAtOnce = 8

// newContexts compares a context's start with bare Python, in turn.
func (r *report) newContexts(ctx context.Context, box *fumehood.Sandbox, f *livingFigures) error {
	var ours, bare []time.Duration
	var made []*fumehood.Context
	for i := range warmups + max(r.Runs/20, 10) {
		if len(made) == contextsAtOnce {
			for _, c := range made {
				if err := c.Delete(ctx); err != nil {
					return err
				}
			}
			made = nil
			// Not measured: meanwhile the server writes the record of the last deletion.
			if err := exec.CommandContext(ctx, pythonPath, "-c", "pass").Run(); err != nil {
				return err
			}
		}
		began := time.Now()
		c, err := box.CreateContext(ctx, fmt.Sprintf("new-%d", i), python, "")
		if err != nil {
			return err
		}
		middle := time.Now()
		if err := exec.CommandContext(ctx, pythonPath, "-c", "pass").Run(); err != nil {
			return err
		}
		if i >= warmups {
			ours, bare = append(ours, middle.Sub(began)), append(bare, time.Since(middle))
		}
		made = append(made, c)
	}
	f.newContext = ratio(slices.Min(ours), slices.Min(bare))
	return nil
}

// targets are those of living sandboxes.
func (f *livingFigures) targets() []target {
	if f.live == 0 {
		return nil
	}
	return []target{
		atMost("a run in a Python context over HTTP, p50", milliseconds(f.overHTTP), 0.4, " ms"),
		atMost("a run in a Python context in Go, p50", milliseconds(f.inGo), 0.5, " ms"),
		atLeast("runs in contexts per second, 16 clients", f.perSecond, 3000, ""),
		atMost("a new Python context / bare Python", f.newContext, 1.3, "x"),
		atMost("private memory of an idle sandbox with a context", toMiB(f.idlePrivate), 14, " MiB"),
		atMost("first byte after its write, p50", milliseconds(f.firstByte), 2, " ms"),
		atLeast("output as events", f.sseSpeed, 100, " MB/s"),
		atLeast("output in Go", f.goSpeed, 400, " MB/s"),
	}
}
