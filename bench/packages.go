package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// packageFigures are compared with the targets of packages. NaN is not measured.
type packageFigures struct {
	measured   bool
	hit        time.Duration // what a layer adds to a fresh run, p50
	warmHit    time.Duration // the same where sandboxes and an interpreter wait
	miss, bare time.Duration // the first run with a package, and pip alone, p50
	detect     time.Duration // what looking for imports adds to a run of standard modules, which the host sees at a glance, p50
	plain      time.Duration // the same where one import is not standard, for other code than that which installed it, p50
	survey     time.Duration // the same where an interpreter must look, as one import is not standard: with the layer that is there, p50
	imports    float64       // the time to import the package from a layer over that from a folder of pip's
	downloads  int64         // of the package by requests at once
}

const (
	benchPackage = "numpy"
	benchRuns    = 60
	benchMisses  = 3
	benchAtOnce  = 50
)

// wheels is an index of what was downloaded into a folder, at an address of this host.
type wheels struct {
	*http.Server
	address   string
	dir       string
	downloads atomic.Int64
	done      chan error
}

// startWheels downloads the package once, by pip and its own index, and serves it from then on.
func startWheels(ctx context.Context, dir string) (*wheels, error) {
	found, _ := filepath.Glob(filepath.Join(dir, benchPackage+"-*.whl"))
	if len(found) == 0 {
		out, err := exec.CommandContext(ctx, pythonPath, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "-d", dir, benchPackage).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("pip download: %w: %s", err, out)
		}
	}
	address, err := hostAddress()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp4", net.JoinHostPort(address, "0"))
	if err != nil {
		return nil, err
	}
	w := &wheels{address: l.Addr().String(), dir: dir, done: make(chan error, 1)}
	w.Server = &http.Server{Handler: http.HandlerFunc(w.serve), ReadHeaderTimeout: time.Minute}
	go func() { w.done <- w.Serve(l) }() // ends with Close
	return w, nil
}

func (w *wheels) stop() error {
	err := w.Close()
	if served := <-w.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func (w *wheels) serve(out http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, ".whl") {
		w.downloads.Add(1)
		http.ServeFileFS(out, r, os.DirFS(w.dir), filepath.Base(r.URL.Path))
		return
	}
	out.Header().Set("Content-Type", "text/html")
	files, _ := fs.Glob(os.DirFS(w.dir), benchPackage+"-*.whl")
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(w.dir, f))
		if err != nil {
			http.Error(out, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(out, "<a href=\"/%s#sha256=%x\">%s</a>\n", f, sha256.Sum256(content), f)
	}
}

// hostAddress is an address of this host that a gate can be told to reach.
func hostAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String(), nil
		}
	}
	return "", errors.Join(err, errors.New("this host has no IPv4 address but loopback"))
}

// packages measures what packages cost: a layer that is there, one that is not, and finding out.
func (r *report) packages(ctx context.Context) (err error) {
	dir := filepath.Join("build", "bench-wheels")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	w, err := startWheels(ctx, dir)
	if err != nil {
		fmt.Fprintf(r.w, "\nPackages: not measured: %v\n", err)
		return nil
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	f := &r.figures.packages
	for _, part := range []func(context.Context, *wheels, *packageFigures) error{r.misses, r.hits, r.warmHits, r.detection, r.atOnce} {
		if err := part(ctx, w, f); err != nil {
			return err
		}
	}
	f.measured = true
	t := newTable(r.w, "Packages, with "+benchPackage, "figure", "measured")
	t.line("a layer that is there adds to a fresh run, p50 ms", fmt.Sprintf("%.2f", milliseconds(f.hit)))
	t.line("the same with sandboxes and an interpreter that wait, p50 ms", fmt.Sprintf("%.2f", milliseconds(f.warmHit)))
	t.line("the first run with it, p50 ms", ms(f.miss))
	t.line("pip alone, compiling included, p50 ms", ms(f.bare))
	t.line("1,000 lines, imports all standard: the host's glance adds, p50 ms", fmt.Sprintf("%.2f", milliseconds(f.detect)))
	t.line("1,000 lines, one import not: other code that imports the same adds, p50 ms", fmt.Sprintf("%.2f", milliseconds(f.plain)))
	t.line("1,000 lines, one import not and within try: the interpreter's survey adds, p50 ms", fmt.Sprintf("%.2f", milliseconds(f.survey)))
	t.line("import from a layer / from pip's folder, shortest", fmt.Sprintf("%.2f", f.imports))
	t.line(fmt.Sprintf("downloads by %d equal requests at once", benchAtOnce), fmt.Sprint(f.downloads))
	t.Flush()
	return nil
}

// withPackages has do use a server with an empty cache.
func (r *report) withPackages(ctx context.Context, w *wheels, warm string, do func(s *liveserver.Server, cache string) error) (err error) {
	cache, err := os.MkdirTemp("", "bench-cache-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	s, err := r.startServer(ctx, "--warm", warm, "--package-cache", cache, "--package-index", "python=http://"+w.address+"/simple")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	return do(s, cache)
}

// timed posts a request, and returns how long its answer took.
func timed(ctx context.Context, s *liveserver.Server, req *liveserver.Request) (time.Duration, error) {
	body := req.Encode()
	began := time.Now()
	a, err := s.Post(ctx, body)
	took := time.Since(began)
	if err == nil && a.Status != "succeeded" {
		err = fmt.Errorf("status %s: %s %s", a.Status, a.Hint, a.Stderr)
	}
	return took, errors.Join(err, awaitIdle(s))
}

// misses compares the first run with a package with pip alone, in turn.
func (r *report) misses(ctx context.Context, w *wheels, f *packageFigures) error {
	var miss, bare []time.Duration
	for range benchMisses {
		one, err := r.miss(ctx, w)
		if err != nil {
			return err
		}
		miss = append(miss, one)
		dir, err := os.MkdirTemp("", "bench-pip-")
		if err != nil {
			return err
		}
		began := time.Now()
		out, err := exec.CommandContext(ctx, pythonPath, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check", "--only-binary", ":all:",
			"--index-url", "http://"+w.address+"/simple", "--trusted-host", w.address, "--target", dir, benchPackage).CombinedOutput()
		bare = append(bare, time.Since(began))
		if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
			return fmt.Errorf("pip install: %w: %s", err, out)
		}
	}
	f.miss, f.bare = summarize(miss).p50, summarize(bare).p50
	return nil
}

func (r *report) miss(ctx context.Context, w *wheels) (took time.Duration, err error) {
	err = r.withPackages(ctx, w, "0", func(s *liveserver.Server, _ string) (err error) {
		took, err = timed(ctx, s, &liveserver.Request{Language: python, Code: "pass", Packages: []string{benchPackage + ">=1"}})
		return err
	})
	return took, err
}

// withLayer is a run without a package and one with a layer that is there.
func withLayer(int) (a, b liveserver.Request) {
	return liveserver.Request{Code: "pass"}, liveserver.Request{Code: "pass", Packages: []string{benchPackage + ">=1"}}
}

func (r *report) warmHits(ctx context.Context, w *wheels, f *packageFigures) error {
	return r.withPackages(ctx, w, "4", func(s *liveserver.Server, _ string) (err error) {
		f.warmHit, err = added(ctx, s, withLayer)
		return err
	})
}

// hits compares, in turn, runs with a layer and without, and imports from it and from a folder that pip made.
func (r *report) hits(ctx context.Context, w *wheels, f *packageFigures) error {
	return r.withPackages(ctx, w, "0", func(s *liveserver.Server, cache string) (err error) {
		if f.hit, err = added(ctx, s, withLayer); err != nil {
			return err
		}
		folder := filepath.Join(cache, "pip")
		if out, err := exec.CommandContext(ctx, pythonPath, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--index-url", "http://"+w.address+"/simple",
			"--trusted-host", w.address, "--target", folder, benchPackage).CombinedOutput(); err != nil {
			return fmt.Errorf("pip install: %w: %s", err, out)
		}
		layers, err := filepath.Glob(filepath.Join(cache, "layers", "*", "tree"))
		if err != nil || len(layers) != 1 {
			return fmt.Errorf("there are %d layers: %w", len(layers), err)
		}
		fromLayer, fromFolder := math.Inf(1), math.Inf(1)
		for range benchRuns {
			for dir, least := range map[string]*float64{layers[0]: &fromLayer, folder: &fromFolder} {
				took, err := importTime(ctx, dir)
				if err != nil {
					return err
				}
				*least = min(*least, took)
			}
		}
		f.imports = fromLayer / fromFolder
		return nil
	})
}

// importTime is how many seconds an import of the package from a folder takes.
func importTime(ctx context.Context, dir string) (seconds float64, err error) {
	cmd := exec.CommandContext(ctx, pythonPath, "-B", "-c", "import time\nbegan = time.perf_counter()\nimport "+benchPackage+"\nprint(time.perf_counter() - began)")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir)
	text, err := cmd.Output()
	if err == nil {
		_, err = fmt.Sscan(string(text), &seconds)
	}
	return seconds, err
}

// added is how much longer the second of two requests takes, at the median of many in turn.
func added(ctx context.Context, s *liveserver.Server, requests func(i int) (a, b liveserver.Request)) (time.Duration, error) {
	var took [2][]time.Duration
	for i := range benchRuns + 1 {
		a, b := requests(i)
		for k, one := range []liveserver.Request{a, b} {
			one.Language = python
			t, err := timed(ctx, s, &one)
			if err != nil {
				return 0, err
			}
			if i > 0 { // the first makes what the others find
				took[k] = append(took[k], t)
			}
		}
	}
	return summarize(took[1]).p50 - summarize(took[0]).p50, nil
}

// thousandLines is a program that lacks nothing.
var thousandLines = "import os, json\n" + strings.Repeat("def f(x):\n    y = x * 2\n    return os.path.join(str(y), 'a')\n", 333)

// detection measures what it costs to look for imports, with sandboxes ready as a server has them.
func (r *report) detection(ctx context.Context, w *wheels, f *packageFigures) error {
	return r.withPackages(ctx, w, "4", func(s *liveserver.Server, cache string) (err error) {
		for _, one := range []struct {
			into  *time.Duration
			lines string
		}{{&f.detect, thousandLines}, {&f.plain, thousandLines + "def g():\n    import " + benchPackage + "\n"},
			{&f.survey, thousandLines + "def g():\n    try:\n        import " + benchPackage + "\n    finally: pass\n"}} {
			if *one.into, err = added(ctx, s, func(i int) (a, b liveserver.Request) {
				return liveserver.Request{Code: one.lines}, liveserver.Request{Code: fmt.Sprintf("%s# %d", one.lines, i), Packages: []string{"auto"}}
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// atOnce counts what equal requests at once download.
func (r *report) atOnce(ctx context.Context, w *wheels, f *packageFigures) error {
	return r.withPackages(ctx, w, "0", func(s *liveserver.Server, cache string) (err error) {
		before := w.downloads.Load()
		body := (&liveserver.Request{Language: python, Code: "pass", Packages: []string{benchPackage + ">=1"}}).Encode()
		var all sync.WaitGroup
		failed := make(chan error, benchAtOnce)
		for range benchAtOnce {
			all.Go(func() {
				_, err := post(ctx, s, body)
				failed <- err
			})
		}
		all.Wait()
		close(failed)
		for one := range failed {
			err = errors.Join(err, one)
		}
		f.downloads = w.downloads.Load() - before
		return err
	})
}

func (f *packageFigures) targets() []target {
	x := []target{{name: "a layer that is there adds to a fresh run, ms", bound: 1}, {name: "the same with an interpreter that waits, ms", bound: 1}, {name: "the first run with a package / pip alone", bound: 1.2, unit: "x"},
		{name: "finding imports of 1,000 lines, by the host's glance, ms", bound: 20},
		{name: "finding imports of 1,000 lines, the same as of other code, ms", bound: 20},
		{name: "finding imports of 1,000 lines, by the interpreter's survey, ms", bound: 20}, {name: "import from a layer / from pip's folder", bound: 1.05, unit: "x"},
		{name: "downloads by equal requests at once", bound: 1}}
	measured := []float64{milliseconds(f.hit), milliseconds(f.warmHit), ratio(f.miss, f.bare), milliseconds(f.detect), milliseconds(f.plain), milliseconds(f.survey), f.imports, float64(f.downloads)}
	for i := range x {
		if x[i].measured = measured[i]; !f.measured {
			x[i].measured = math.NaN()
		}
	}
	return x
}
