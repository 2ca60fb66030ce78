package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// guestName is argv[0] of pid 1 of a native sandbox.
const guestName = "fumehood-guest"

const (
	guestAge     = 20 * time.Millisecond // of a sandbox when its guest is measured: the program sleeps
	guestTimeout = 10 * time.Second
)

// guest measures the cost of isolation: how long a sandbox takes to be ready, by the server's clock, and the memory of
// pid 1 while a program runs.
func (r *report) guest(ctx context.Context, s *liveserver.Server) error {
	quick := (&liveserver.Request{Language: bash, Code: bashProgram}).Encode()
	var create, run []time.Duration
	for i := range warmups + max(r.Runs/5, 20) {
		began := time.Now()
		a, err := s.Post(ctx, quick)
		if err != nil {
			return err
		}
		if i < warmups {
			continue
		}
		made := fromMillis(a.Timings.Create)
		create, run = append(create, made), append(run, fromMillis(a.Timings.Run))
		if err := r.raw.add(newSample("guest", "create", began, made, nil)); err != nil {
			return err
		}
	}
	t := newTable(r.w, "Inside the server's answer, Bash; milliseconds", "step", "n", "p50", "p90", "p99", "max")
	for _, x := range []struct {
		name    string
		samples []time.Duration
	}{{"create: until the guest is ready", create}, {"run: from the start message to the end of the program", run}} {
		sum := summarize(x.samples)
		t.line(x.name, fmt.Sprint(sum.n), ms(sum.p50), ms(sum.p90), ms(sum.p99), ms(sum.max))
	}
	t.Flush()
	m, err := guestMemory(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.w, "guest while a program sleeps: resident %s MiB, peak %s MiB, of which private %s MiB\n",
		mib(m.RSS), mib(m.Peak), mib(m.Private))
	return nil
}

// guestMemory measures the guest of a sandbox whose program sleeps.
func guestMemory(ctx context.Context, s *liveserver.Server) (liveserver.Memory, error) {
	if err := awaitIdle(s); err != nil {
		return liveserver.Memory{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, guestTimeout)
	defer cancel()
	var sleepers sync.WaitGroup
	for range 2 { // the pages of a single guest's program would count as private
		sleepers.Go(func() { // ends with ctx
			_, _ = s.Run(ctx, &liveserver.Request{Language: bash, Code: "sleep 60"})
		})
	}
	defer sleepers.Wait()
	defer cancel()
	for ctx.Err() == nil {
		guests := liveserver.Sandboxes(s.PID())
		for _, pid := range guests {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			started := len(guests) == 2 && len(liveserver.Children(pid)) > 0
			if err != nil || !started || !strings.HasPrefix(string(line), guestName+"\x00") {
				continue
			}
			time.Sleep(guestAge)
			return liveserver.ReadMemory(pid)
		}
		time.Sleep(idlePoll)
	}
	return liveserver.Memory{}, errors.New("no guest found")
}

func fromMillis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
