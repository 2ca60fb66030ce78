// Command bench compares the cost of a run in Fumehood with bare interpreters, bubblewrap and, if an engine runs,
// Docker. It prints tables, writes every sample to a JSON-lines file, and reports which of the project's targets this
// run met.
// A missed target is no failure: the figures of a busy machine prove nothing, and only ratios within one run are
// compared.
//
// It measures the built program from outside: `make build`, then `go run ./bench`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// plan selects what is measured, and how often.
type plan struct {
	binary   string
	rows     *regexp.Regexp
	sections *regexp.Regexp
	seed     uint64
	out      string
	image    string

	Seed     uint64        `json:"seed"`
	Runs     int           `json:"runs"`      // of each row with one client
	SlowRuns int           `json:"slow_runs"` // of rows that take a quarter of a second
	Loop     int           `json:"loop"`      // runs at each number of clients
	Burst    int           `json:"burst"`     // runs at 32 clients, against bare loops
	Open     time.Duration `json:"open"`      // length of each open loop
	Floods   int           `json:"floods"`    // runs that write 100 MB
	Prints   int           `json:"prints"`    // runs that print 20,000 lines
}

const warmups = 5 // uncounted first runs of each row

func fullPlan() plan {
	return plan{Runs: 1000, SlowRuns: 200, Loop: 600, Burst: 1000, Open: 15 * time.Second, Floods: 5, Prints: 40}
}

func quickPlan() plan {
	return plan{Runs: 20, SlowRuns: 3, Loop: 64, Burst: 64, Open: time.Second, Floods: 1, Prints: 3}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == peerRole {
		servePeer()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == floorRole {
		if err := serveFloor(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	p, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = bench(ctx, p, os.Stdout)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (plan, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "make few runs: a functional test, not a measurement")
	runs := flags.Int("n", 0, "runs of each row with one client (default 1000)")
	rows := flags.String("rows", "", "measure only rows whose name matches this regular expression")
	sections := flags.String("sections", "", "measure only sections whose name matches: one client, closed loop, "+
		"burst, open loop, flood, large, guest, prints, ownerless, living, python client, e2b client, "+
		"packages, volumes, images, network")
	binary := flags.String("fumehood", liveserver.DefaultBinary, "the program to measure")
	image := flags.String("image", "python:3-slim", "the image of containers; DOCKER_HOST names their engine")
	seed := flags.Uint64("seed", 1, "seed of the order of runs and of arrivals")
	out := flags.String("out", "bench/out", "folder of the raw samples")
	if err := flags.Parse(args); err != nil {
		return plan{}, err
	}
	p := fullPlan()
	if *quick {
		p = quickPlan()
	}
	if *runs < 0 || flags.NArg() > 0 {
		return plan{}, errors.New("bench takes no arguments but flags; see bench -help")
	}
	if *runs > 0 {
		p.Runs, p.SlowRuns = *runs, min(*runs, p.SlowRuns)
	}
	p.Seed, p.seed, p.out, p.image = *seed, *seed, *out, *image
	var err error
	if p.rows, err = regexp.Compile(*rows); err != nil {
		return plan{}, err
	}
	if p.sections, err = regexp.Compile(*sections); err != nil {
		return plan{}, err
	}
	p.binary, err = liveserver.Binary(*binary)
	return p, err
}

// report is a running bench: its output, its samples, and the figures for the targets.
type report struct {
	plan
	w       io.Writer
	raw     *rawFile
	figures figures
	failed  int // runs
}

func bench(ctx context.Context, p plan, w io.Writer) (err error) {
	raw, err := createRaw(p.out, struct {
		plan
		Time string `json:"time"`
		Host string `json:"host"`
	}{p, time.Now().UTC().Format(time.RFC3339), host()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, raw.close()) }()
	r := &report{plan: p, w: w, raw: raw, figures: figures{floodGrowth: -1}}
	fmt.Fprintf(w, "%s\nseed %d; raw samples in %s\n", host(), p.seed, raw.path)
	for _, section := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"one client", r.oneClient},
		{"closed loop", r.served(r.closedLoop)},
		{"burst", r.served(r.burst)},
		{"open loop", r.served(r.openLoop)},
		{"flood", r.served(r.flood)},
		{"large", r.served(r.large)},
		{"guest", r.served(r.guest, "--warm", "0")},
		{"prints", r.prints},
		{"ownerless", r.ownerless},
		{"living", r.served(r.living, "--backend", "native", "--max-output-limit", "1GiB",
			"--slots", strconv.Itoa(livingClients))},
		{"python client", r.served(r.pythonClient, "--backend", "native")},
		{"e2b client", r.served(r.e2bClient, "--backend", "native")},
		{"packages", r.packages},
		{"volumes", r.volumes},
		{"images", r.images},
		{"network", r.network},
	} {
		if !p.sections.MatchString(section.name) {
			continue
		}
		if err := section.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", section.name, err)
		}
	}
	r.figures.print(w)
	if r.failed > 0 {
		return fmt.Errorf("%d runs failed", r.failed)
	}
	return nil
}

// host describes the machine and its load.
func host() string {
	var name unix.Utsname
	release := "unknown"
	if err := unix.Uname(&name); err == nil {
		release = unix.ByteSliceToString(name.Release[:])
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		load = []byte("unknown")
	}
	return fmt.Sprintf("%d CPUs, Linux %s, load average %s", runtime.NumCPU(), release, strings.Fields(string(load))[0])
}

func (r *report) startServer(ctx context.Context, args ...string) (*liveserver.Server, error) {
	return liveserver.Start(ctx, liveserver.Options{Binary: r.binary, Args: args})
}

// served returns a section that runs with its own server.
func (r *report) served(
	run func(context.Context, *liveserver.Server) error, args ...string,
) func(context.Context) error {
	return func(ctx context.Context) error {
		s, err := r.startServer(ctx, args...)
		if err != nil {
			return err
		}
		return errors.Join(run(ctx, s), s.Stop())
	}
}
