package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/test/liveserver"
)

const ownerlessSandboxes = 100

// ownerless measures `fumehood run` without and beside living sandboxes whose server was killed.
func (r *report) ownerless(ctx context.Context) (err error) {
	n := max(r.Runs/10, 10)
	run := func(name string) (summary, error) {
		samples, err := r.timed(n, name, func() error {
			stdout, _, err := runCommand(ctx, []string{r.binary, "run", "-c", pythonProgram})
			if err == nil && stdout != answer {
				err = fmt.Errorf("its output is %.100q", stdout)
			}
			return err
		})
		return summarize(samples), err
	}
	alone, err := run("run alone")
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "fumehood-ownerless-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(state)) }()
	options := liveserver.Options{Binary: r.binary, State: state, Args: []string{"--backend", "native", "--warm", "0"}}
	if err := abandon(ctx, options); err != nil {
		return err
	}
	beside, err := run("run beside ownerless")
	s, startErr := liveserver.Start(ctx, options) // takes them over
	if startErr != nil {
		return errors.Join(err, startErr)
	}
	err = errors.Join(err, withClient(s, func(c *client.Client) error { return removeAll(ctx, c) }), s.Stop())
	if err != nil {
		return err
	}
	t := newTable(r.w, fmt.Sprintf("fumehood run -c beside %d living sandboxes without a server; milliseconds",
		ownerlessSandboxes), "sandboxes", "n", "p50", "p90", "max")
	for i, s := range []summary{alone, beside} {
		t.line(fmt.Sprint(i*ownerlessSandboxes), fmt.Sprint(s.n), ms(s.p50), ms(s.p90), ms(s.max))
	}
	t.Flush()
	r.figures.ownerless = ratio(beside.p50, alone.p50)
	return nil
}

// abandon creates living sandboxes and kills their server.
func abandon(ctx context.Context, o liveserver.Options) error {
	s, err := liveserver.Start(ctx, o)
	if err != nil {
		return err
	}
	defer s.Kill()
	return withClient(s, func(c *client.Client) error {
		for i := range ownerlessSandboxes {
			if _, _, err := c.Create(ctx, api.SandboxRequest{Name: fmt.Sprintf("ownerless-%d", i)}); err != nil {
				return err
			}
		}
		return nil
	})
}

func withClient(s *liveserver.Server, do func(*client.Client) error) error {
	c, err := client.New(client.Config{Server: s.URL})
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// ownerlessTarget allows 10 % between two series of runs.
func (f *figures) ownerlessTarget() target {
	x := atMost("fumehood run beside 100 sandboxes without a server / alone", math.NaN(), 1.1, "x")
	if f.ownerless > 0 {
		x.measured = f.ownerless
	}
	return x
}
