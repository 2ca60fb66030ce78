package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// isError requires an error of a kind, with words and a fix.
func isError(t *testing.T, err error, kind sandbox.Kind, words, fix string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || sandbox.KindOf(err) != kind || !strings.Contains(err.Error(), words) ||
		!strings.Contains(e.Fix, fix) {
		t.Errorf("%v, not %s: %s; fixed by %s", err, kind, words, fix)
	}
}

// TestBadCache: a file in place of a folder of the cache is an error with a fix, before anything is installed.
func TestBadCache(t *testing.T) {
	for place, fix := range map[string]string{"": "make the folder writable",
		requestsDir: "make it writable", "work": "make it writable"} {
		r := newRig(t)
		dir := r.p.config.Dir
		if place != "" {
			if _, err := r.p.open(); err != nil {
				t.Fatal(err)
			}
			dir = filepath.Join(r.p.cache.dir, place)
		}
		if err := errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		_, err := r.p.Supply(t.Context(), r.need(sandbox.Packages{Requirements: []string{"a"}}), r.work)
		isError(t, err, sandbox.Unavailable, "cache", fix)
		if r.installs != 0 {
			t.Errorf("%q: %d installs", place, r.installs)
		}
	}
}

// TestUnfinished: a step that ends at a limit is an error that names it, and leaves nothing.
func TestUnfinished(t *testing.T) {
	for _, c := range []struct {
		status     sandbox.Status
		kind       sandbox.Kind
		words, fix string
	}{
		{sandbox.StatusTimeout, sandbox.Unavailable, "packages: install: it did not end within 1m0s",
			"try again, or ask for fewer packages"},
		{sandbox.StatusOutOfMemory, sandbox.TooLarge, "packages: install: it needs more than 1GiB of memory",
			"ask for fewer packages"},
		{sandbox.StatusFailed, sandbox.Unavailable, "packages: install: it ended as failed: last words", ""},
	} {
		r := newRig(t)
		_, err := r.p.Supply(t.Context(), r.need(sandbox.Packages{Requirements: []string{"a"}}),
			func(ctx context.Context, w sandbox.Work) (*sandbox.Result, error) {
				result, err := r.work(ctx, w)
				if w.From != "" {
					result = &sandbox.Result{Status: c.status, Stderr: sandbox.Captured{Head: []byte("last words\n")}}
					result.Requested.Limits = sandbox.Limits{Timeout: time.Minute, MemoryBytes: 1 << 30}
				}
				return result, err
			})
		isError(t, err, c.kind, c.words, c.fix)
		if left, err := os.ReadDir(filepath.Join(r.p.cache.dir, "work")); err != nil || len(left) > 0 {
			t.Errorf("left: %v %v", left, err)
		}
	}
}

// TestTooMany: more packages than a request may have are refused, whether they are asked for or found.
func TestTooMany(t *testing.T) {
	const words, fix = "packages: more than 500 packages are requested", "ask for fewer packages"
	many := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("p%d", i))
		}
		return list
	}
	r := newRig(t)
	supply := func(packages sandbox.Packages) error {
		s, err := r.p.Supply(t.Context(), r.need(packages), r.work)
		if err == nil {
			s.Release()
		}
		return err
	}
	if err := supply(sandbox.Packages{Requirements: many(maxRequirements)}); err != nil {
		t.Error(err)
	}
	isError(t, supply(sandbox.Packages{Requirements: many(maxRequirements + 1)}), sandbox.TooLarge, words, fix)
	r.code.Installer = "i"
	for _, name := range many(maxRequirements + 1) {
		r.code.Found = append(r.code.Found, sandbox.Import{Name: name})
	}
	isError(t, supply(sandbox.Packages{Auto: true}), sandbox.TooLarge, words, fix)
	r.code.Found, r.code.Requirements = nil, many(5*maxRequirements)
	isError(t, supply(sandbox.Packages{Auto: true}), sandbox.TooLarge, words, fix)
	if r.installs != 1 {
		t.Errorf("%d installs", r.installs)
	}
}

// TestBadLine refuses an invalid requirement of a line in the code, which the run would silently skip.
func TestBadLine(t *testing.T) {
	r := newRig(t)
	need := r.need(sandbox.Packages{Auto: true, Requirements: []string{"a"}})
	in := need.Language.Installer
	in.Magic = func(code []byte) sandbox.MagicInstalls {
		return sandbox.MagicInstalls{Requirements: strings.Fields(string(code))}
	}
	in.Plain = func(code []byte) []byte { return nil }
	need.Code = []byte("b c/d")
	_, err := r.p.Supply(t.Context(), need, r.work)
	isError(t, err, sandbox.Invalid, `code: "c/d" is not the name of a package`, "")
	need.Requirements = []string{"a", "c/d"}
	_, err = r.p.Supply(t.Context(), need, r.work)
	isError(t, err, sandbox.Invalid, `packages[1]: "c/d" is not the name of a package`, "")
}

// TestNamelessPackage refuses an installer's answer with a package that has no name or no version.
func TestNamelessPackage(t *testing.T) {
	for _, odd := range []sandbox.Package{{Version: "1"}, {Name: "a"}} {
		r := newRig(t)
		r.receipt.Packages = []sandbox.Package{{Name: "a", Version: "1"}, odd}
		_, err := r.p.Supply(t.Context(), r.need(sandbox.Packages{Requirements: []string{"a"}}), r.work)
		isError(t, err, sandbox.Unavailable, "a package in the list has no name or no version", "")
	}
}
