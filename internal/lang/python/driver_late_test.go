//go:build unix

package python_test

import (
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/test/langtest"
)

// TestDriverLate: what threads and tasks of an earlier run write is background output, however they write it. Those of
// the current run write for it, also in a thread that an earlier run started.
func TestDriverLate(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	d.Run("import asyncio, logging, os, sys, threading, time, concurrent.futures\n" +
		"pool = concurrent.futures.ThreadPoolExecutor(1)\nlogging.basicConfig(format='%(message)s')\n" +
		"def once(name): \n    while not os.path.exists(name): time.sleep(0.001)\n" +
		"async def later(name):\n    while not os.path.exists(name): await asyncio.sleep(0.001)\n")
	for name, c := range map[string]struct{ start, late string }{
		"thread": {"threading.Thread(target=lambda: (once('N'), print('late'), print('x', file=sys.stderr))).start()",
			"late\nx\n"},
		"timer":   {"threading.Timer(0, lambda: (once('N'), print('late', end=''))).start()", "late"},
		"logging": {"threading.Thread(target=lambda: (once('N'), logging.warning('late'))).start()", "late\n"},
		"display": {"threading.Thread(target=lambda: (once('N'), display({'a': 1}))).start()", "{'a': 1}\n"},
		"nested": {"threading.Thread(target=lambda: threading.Thread(target=lambda: (once('N'), " +
			"print('late'))).start()).start()", "late\n"},
		"raw":       {"import _thread\n_thread.start_new_thread(lambda: (once('N'), print('late')), ())", "late\n"},
		"pool":      {"pool.submit(lambda: (once('N'), print('late')))", "late\n"},
		"exception": {"threading.Thread(target=lambda: (once('N'), 1/0)).start()", ""},
		"task": {"async def f():\n    await later('N')\n    print('late')\ntask = asyncio.ensure_future(f())\n" +
			"await asyncio.sleep(0)", "late\n"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(d.Background(0))
			o := d.Run("print('own')\n" + strings.ReplaceAll(c.start, "'N'", "'"+name+"'") +
				"\nthreading.Thread(target=print, args=('in its run',)).start(); time.sleep(0.05)")
			if o.Stdout != "own\nin its run\n" || o.Error != nil {
				t.Errorf("the run that starts it: %+v", o)
			}
			o = d.Run("print('next')\nopen('" + name + "', 'w').close()\n" +
				"for i in range(20): await asyncio.sleep(0.01)\nprint('end')")
			if o.Stdout != "next\nend\n" || o.Stderr != "" || len(o.Results) != 0 {
				t.Errorf("the next run: %+v", o)
			}
			got := d.Background(before + max(len(c.late), 1))[before:]
			for had := ""; c.late == "" && got != had && !strings.HasSuffix(got, "division by zero\n"); {
				had, got = got, d.Background(before + len(got) + 1)[before:] // a traceback comes in pieces
			}
			if got != c.late && c.late != "" || c.late == "" && !strings.Contains(got, "ZeroDivisionError") ||
				strings.Contains(got, "fumehood") {
				t.Errorf("background output %q", got)
			}
		})
	}
	o := d.Run("import traceback\ntry: pool.submit(lambda: 1/0).result()\nexcept Exception: traceback.print_exc()\n" +
		"import _thread; _thread.start_new_thread(lambda: 1/0, ()); time.sleep(0.05)")
	if strings.Contains(o.Stderr, "fumehood") || strings.Count(o.Stderr, "ZeroDivisionError") != 2 {
		t.Errorf("tracebacks of threads: %s", o.Stderr)
	}
	o = d.Run("pool.submit(print, 'for this run').result()\nawait asyncio.to_thread(print, 'so too')\nprint('x')")
	if o.Stdout != "for this run\nso too\nx\n" {
		t.Errorf("a pool of an earlier run: %+v", o)
	}
	d.Run("pool.shutdown()\nthreading.Timer(0.05, print, ('between',)).start()")
	for got := ""; !strings.HasSuffix(got, "between\n"); {
		had := got
		if got = d.Background(len(had) + 1); got == had {
			t.Fatalf("between two runs: %q", got)
		}
	}
}
