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

// packageFigures are compared with the targets of packages.
type packageFigures struct {
	measured   bool
	hit        time.Duration // added by an existing layer to a fresh run, p50
	warmHit    time.Duration // the same with a warm pool and a zygote
	miss, bare time.Duration // the first run with a package, and pip alone, p50
	detect     time.Duration // added by finding only standard imports, p50
	plain      time.Duration // added by finding a plain import of an installed package, p50
	survey     time.Duration // added by the interpreter's survey, with an existing layer, p50
	imports    float64       // the time to import the package from a layer over that from a folder of pip's
	downloads  int64         // of the package, by concurrent requests
}

const (
	benchPackage = "numpy"
	benchRuns    = 60
	benchMisses  = 3
	benchAtOnce  = 50
)

// wheels is a package index for the files of a folder, at an address of this host.
type wheels struct {
	*http.Server
	address   string
	dir       string
	downloads atomic.Int64
	done      chan error
}

// pip runs pip, without its cache and version check.
func pip(ctx context.Context, args ...string) error {
	args = append([]string{"-m", "pip", "--quiet", "--no-cache-dir", "--disable-pip-version-check"}, args...)
	if out, err := exec.CommandContext(ctx, pythonPath, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("pip: %w: %s", err, out)
	}
	return nil
}

// startWheels serves the package. It downloads it once, by pip from pip's default index.
func startWheels(ctx context.Context, dir string) (*wheels, error) {
	found, _ := filepath.Glob(filepath.Join(dir, benchPackage+"-*.whl"))
	if len(found) == 0 {
		if err := pip(ctx, "download", "--no-deps", "--only-binary", ":all:", "-d", dir, benchPackage); err != nil {
			return nil, err
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

// install installs the package into a folder by pip.
func (w *wheels) install(ctx context.Context, dir string) error {
	return pip(ctx, "install", "--only-binary", ":all:", "--index-url", "http://"+w.address+"/simple",
		"--trusted-host", w.address, "--target", dir, benchPackage)
}

// hostAddress returns an address of this host that a gate can reach.
func hostAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String(), nil
		}
	}
	return "", errors.Join(err, errors.New("this host has no IPv4 address but loopback"))
}

// packages measures the cost of packages: with an existing layer, without one, and finding imports.
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
	for _, part := range []func(context.Context, *wheels, *packageFigures) error{
		r.misses, r.hits, r.warmHits, r.detection, r.atOnce,
	} {
		if err := part(ctx, w, f); err != nil {
			return err
		}
	}
	f.measured = true
	t := newTable(r.w, "Packages, with "+benchPackage, "figure", "measured")
	added := func(d time.Duration) string { return fmt.Sprintf("%.2f", milliseconds(d)) } // may be negative
	t.line("an existing layer adds to a fresh run, p50 ms", added(f.hit))
	t.line("the same with a warm pool and a zygote, p50 ms", added(f.warmHit))
	t.line("the first run with the package, p50 ms", ms(f.miss))
	t.line("pip alone, compiling included, p50 ms", ms(f.bare))
	t.line("1,000 lines with only standard imports: finding imports adds, p50 ms", added(f.detect))
	t.line("1,000 lines with a plain import, installed for other code: finding imports adds, p50 ms", added(f.plain))
	t.line("1,000 lines with an import in a try statement: the interpreter's survey adds, p50 ms", added(f.survey))
	t.line("import from a layer / from pip's folder, shortest", fmt.Sprintf("%.2f", f.imports))
	t.line(fmt.Sprintf("downloads by %d concurrent equal requests", benchAtOnce), fmt.Sprint(f.downloads))
	t.Flush()
	return nil
}

// withPackages calls do with a server that has an empty cache.
func (r *report) withPackages(
	ctx context.Context, w *wheels, warm string, do func(s *liveserver.Server, cache string) error,
) (err error) {
	cache, err := os.MkdirTemp("", "bench-cache-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	run := func(_ context.Context, s *liveserver.Server) error { return do(s, cache) }
	return r.served(run, "--warm", warm, "--package-cache", cache,
		"--package-index", "python=http://"+w.address+"/simple")(ctx)
}

// timed posts a request and returns the time to its answer.
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

// misses compares the first run with a package and pip alone, alternating.
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
		err = w.install(ctx, dir)
		bare = append(bare, time.Since(began))
		if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
			return err
		}
	}
	f.miss, f.bare = summarize(miss).p50, summarize(bare).p50
	return nil
}

func (r *report) miss(ctx context.Context, w *wheels) (took time.Duration, err error) {
	err = r.withPackages(ctx, w, "0", func(s *liveserver.Server, _ string) (err error) {
		_, request := withLayer(0)
		request.Language = python
		took, err = timed(ctx, s, &request)
		return err
	})
	return took, err
}

// withLayer returns a run without a package and one with it.
func withLayer(int) (a, b liveserver.Request) {
	return liveserver.Request{Code: "pass"}, liveserver.Request{Code: "pass", Packages: []string{benchPackage + ">=1"}}
}

func (r *report) warmHits(ctx context.Context, w *wheels, f *packageFigures) error {
	return r.withPackages(ctx, w, "4", func(s *liveserver.Server, _ string) (err error) {
		f.warmHit, err = added(ctx, s, withLayer)
		return err
	})
}

// hits compares runs with and without a layer, and imports from a layer and from pip's folder, alternating.
func (r *report) hits(ctx context.Context, w *wheels, f *packageFigures) error {
	return r.withPackages(ctx, w, "0", func(s *liveserver.Server, cache string) (err error) {
		if f.hit, err = added(ctx, s, withLayer); err != nil {
			return err
		}
		folder := filepath.Join(cache, "pip")
		if err := w.install(ctx, folder); err != nil {
			return err
		}
		layers, err := filepath.Glob(filepath.Join(cache, "trees", "*", "files"))
		if err != nil || len(layers) != 1 {
			return fmt.Errorf("found %d layers instead of one: %w", len(layers), err)
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

// importTime returns the seconds that an import of the package from a folder takes.
func importTime(ctx context.Context, dir string) (seconds float64, err error) {
	const began = "import time\nbegan = time.perf_counter()\n"
	cmd := exec.CommandContext(ctx, pythonPath, "-B", "-c",
		began+"import "+benchPackage+"\nprint(time.perf_counter() - began)")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir)
	text, err := cmd.Output()
	if err == nil {
		_, err = fmt.Sscan(string(text), &seconds)
	}
	return seconds, err
}

// added returns how much longer the second of two requests takes, at the median of many alternating ones.
func added(
	ctx context.Context, s *liveserver.Server, requests func(i int) (a, b liveserver.Request),
) (time.Duration, error) {
	var took [2][]time.Duration
	for i := range benchRuns + 1 {
		a, b := requests(i)
		for k, one := range []liveserver.Request{a, b} {
			one.Language = python
			t, err := timed(ctx, s, &one)
			if err != nil {
				return 0, err
			}
			if i > 0 { // the first one fills the cache
				took[k] = append(took[k], t)
			}
		}
	}
	return summarize(took[1]).p50 - summarize(took[0]).p50, nil
}

// thousandLines is a program that needs no packages.
var thousandLines = "import os, json\n" +
	strings.Repeat("def f(x):\n    y = x * 2\n    return os.path.join(str(y), 'a')\n", 333)

// detection measures the cost of finding imports, with a warm pool.
func (r *report) detection(ctx context.Context, w *wheels, f *packageFigures) error {
	return r.withPackages(ctx, w, "4", func(s *liveserver.Server, cache string) (err error) {
		for _, one := range []struct {
			into *time.Duration
			code string
		}{
			{&f.detect, thousandLines},
			{&f.plain, thousandLines + "def g():\n    import " + benchPackage + "\n"},
			{&f.survey, thousandLines + "def g():\n    try:\n        import " + benchPackage + "\n    finally: pass\n"},
		} {
			*one.into, err = added(ctx, s, func(i int) (a, b liveserver.Request) {
				changed := fmt.Sprintf("%s# %d", one.code, i)
				return liveserver.Request{Code: one.code}, liveserver.Request{Code: changed, Packages: []string{"auto"}}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// atOnce counts the downloads of concurrent equal requests.
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
	list := []target{
		atMost("an existing layer adds to a fresh run", milliseconds(f.hit), 1, " ms"),
		atMost("the same with a zygote", milliseconds(f.warmHit), 1, " ms"),
		atMost("the first run with a package / pip alone", ratio(f.miss, f.bare), 1.2, "x"),
		atMost("finding only standard imports in 1,000 lines", milliseconds(f.detect), 20, " ms"),
		atMost("finding a plain import in 1,000 lines", milliseconds(f.plain), 20, " ms"),
		atMost("surveying 1,000 lines by the interpreter", milliseconds(f.survey), 20, " ms"),
		atMost("import from a layer / from pip's folder", f.imports, 1.05, "x"),
		atMost("downloads by concurrent equal requests", float64(f.downloads), 1, ""),
	}
	for i := range list {
		if !f.measured {
			list[i].measured = math.NaN()
		}
	}
	return list
}
