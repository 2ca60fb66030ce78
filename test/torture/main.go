// Command torture repeatedly kills a server with SIGKILL at random moments. After each start of the next server it
// looks for traces of the dead one: processes, control groups, mounts, namespaces, folders, locks. A second server, the
// witness, lives through all of it, and none of its sandboxes may be disturbed.
//
// With -restart, clients work in living sandboxes while their server is killed. After each start they compare what the
// next server reports with all that they were answered.
//
// It prints its seed; the same seed gives the same moments and programs, if not the same races. Run `make build`, then
// `go run ./test/torture` as root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

type config struct {
	rounds, clients int
	restart, busy   bool
	sandboxes       int
	seed            uint64
	binary, backend string
	runDir          string
	log             io.Writer
	temp            string // the servers' temporary folder
}

// server returns the options of a server to torture.
func (c config) server(args ...string) liveserver.Options {
	args = append(args, "--backend", c.backend, "--max-timeout", "24h")
	return liveserver.Options{Binary: c.binary, Args: args, Env: []string{"TMPDIR=" + c.temp}, Log: c.log}
}

func main() {
	var c config
	flag.IntVar(&c.rounds, "n", 1000, "servers to kill")
	flag.IntVar(&c.clients, "c", 12, "clients that keep each server busy")
	flag.BoolVar(&c.restart, "restart", false, "compare what the next server knows with what clients were answered")
	flag.BoolVar(&c.busy, "busy", true, "use all processors, with -restart")
	flag.IntVar(&c.sandboxes, "sandboxes", 4, "living sandboxes, with -restart")
	flag.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "seed of moments and programs")
	flag.StringVar(&c.binary, "fumehood", liveserver.DefaultBinary, "the program to test")
	flag.StringVar(&c.backend, "backend", "native", "the backend of the servers")
	flag.StringVar(&c.runDir, "run-dir", "", "the run folder of that program (default: that of the backend)")
	output := flag.String("log", "", "a file for the output of the servers")
	flag.Parse()
	if *output != "" {
		file, err := os.Create(*output)
		if err != nil {
			fmt.Fprintln(os.Stderr, "torture:", err)
			os.Exit(1)
		}
		c.log = file // until the process ends
	}
	if c.runDir == "" {
		c.runDir = liveserver.DefaultRunDir
		if c.backend != "native" {
			c.runDir += "/" + c.backend
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := torture
	if c.restart {
		run = restart
	}
	if err := run(ctx, c, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "torture: %v (seed %d)\n", err, c.seed)
		os.Exit(1)
	}
}

const progressEvery = 10 * time.Second

func torture(ctx context.Context, c config, w io.Writer) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("run it as root: only root sees the processes and descriptors of all users")
	}
	fmt.Fprintf(w, "seed %d, %d kills, %d clients\n", c.seed, c.rounds, c.clients)
	if c.temp, err = os.MkdirTemp("", "torture-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.temp)) }()
	witness, err := startWitness(ctx, c)
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	defer func() { err = errors.Join(err, witness.stop()) }()
	random := rand.New(rand.NewPCG(c.seed, c.seed))
	t := &tormentor{config: c, witness: witness, random: random, counts: map[moment]int{}}
	reported := time.Now()
	for i := range c.rounds {
		if err := t.round(ctx, i); err != nil {
			return fmt.Errorf("round %d, server killed %s: %w", i, t.last, err)
		}
		if time.Since(reported) > progressEvery {
			reported = time.Now()
			fmt.Fprintf(w, "%d of %d\n", i+1, c.rounds)
		}
	}
	if err := t.finish(ctx); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d kills:", c.rounds)
	for m := range moments {
		fmt.Fprintf(w, " %d %s;", t.counts[m], m)
	}
	fmt.Fprintf(w, "\n%d sandboxes were alive when their server died; the slowest clean-up after a start took %v\n",
		t.orphans, t.slowest.Round(time.Millisecond))
	fmt.Fprintf(w, "the witness ran %d sandboxes undisturbed; nothing remains\n", witness.runs())
	return nil
}
