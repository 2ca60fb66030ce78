package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// leftOver reports remains of an installation in a cache.
func leftOver(t *testing.T, cache string) {
	t.Helper()
	for _, pattern := range []string{"work/*", "requests/new-*", "requests/*.lock"} {
		if left, _ := filepath.Glob(filepath.Join(cache, pattern)); len(left) > 0 {
			t.Errorf("left over: %q", left)
		}
	}
}

// fails runs a command that must fail, and checks the error and its fix.
func (i *index) fails(cache, want, fix string, args ...string) {
	i.t.Helper()
	if _, errs := i.run(cache, 125, args...); !strings.Contains(errs, want) || !strings.Contains(errs, "fix: "+fix) {
		i.t.Errorf("%q: no %q, fixed by %q, in\n%s", args, want, fix, errs)
	}
	leftOver(i.t, cache)
}

// TestIndexDown: an unreachable index is an error of the index, for pip and for npm.
func TestIndexDown(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: pip and npm try several times")
	}
	isPackagesReady(t, pipFile, npmFile)
	i, cache := newIndex(t), t.TempDir()
	i.close()
	i.fails(cache, "", "the index does not answer; try again", "run", "-p", "glvx", "-c", "1")
	i.fails(cache, "", "the index does not answer; try again", "run", "-l", "js", "-p", "glvx", "-c", "1")
}

// TestIndexDownForOne: while a page of the index cannot be fetched, pip does not install an older package that needs
// none.
func TestIndexDownForOne(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: pip tries several times")
	}
	isPackagesReady(t, pipFile)
	i, cache := newIndex(t), t.TempDir()
	i.wheel("glvapp", "1.0", "v = 1", "")
	i.wheel("glvapp", "2.0", "v = 2", "", "glvpart")
	i.wheel("glvpart", "1.0", "", "")
	i.does("/simple/glvpart/", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	run := []string{"run", "-p", "glvapp", "-c", "import glvapp; print(glvapp.v)"}
	i.fails(cache, "does not answer a request for index.test/simple/glvpart/", "the index does not answer", run...)
	i.does("/simple/glvpart/", nil)
	if out, errs := i.run(cache, 0, run...); out != "2\n" {
		t.Errorf("%q\n%s", out, errs)
	}
}

// TestPackagesTooMuch: an installation ends at the limits of the installer and of the cache, whatever the index or the
// packages do, and the error has a fix.
func TestPackagesTooMuch(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: it waits for a limit of time")
	}
	isPackagesReady(t, pipFile, npmFile)
	i, cache := newIndex(t), t.TempDir()
	var bomb strings.Builder // npm refuses what gets a thousand times as large
	for n := range 150 << 10 {
		bomb.WriteString(strings.Repeat("x", 1023) + string(rune('0'+n%64)))
	}
	i.wheel("glvbomb", "1.0", bomb.String(), "")
	i.tarball("glvbomb", "1.0.0", bomb.String())
	i.sdist("glvforks", "import os\nwhile True: os.fork()")
	i.wheel("glvslow", "1.0", "value = 1", "")
	i.does("/archives/glvslow-1.0-py3-none-any.whl", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil { // it never ends by itself
			w.Write([]byte("x"))
			w.(http.Flusher).Flush()
			time.Sleep(100 * time.Millisecond)
		}
	})
	server := func(limits ...string) *served {
		return startServerWith(t, func(m *Main) { m.Gate = i.gate }, slices.Concat(i.flags, limits,
			[]string{"--package-cache", cache, "--backend", "native", "--allow-unenforced", "memory"})...)
	}
	small, short := server("--max-disk", "100MiB"), server("--timeout", "15s", "--max-timeout", "15s")
	for _, c := range []struct {
		s                    *served
		fields, detail, hint string
	}{
		{small, `"language": "python", "packages": ["glvbomb"]`, "No space left on device",
			"the packages need more disk space than an installer has; ask for fewer"},
		{small, `"language": "javascript", "packages": ["glvbomb"]`, "no space left on device",
			"the packages need more disk space than an installer has; ask for fewer"},
		{short, `"language": "python", "packages": ["glvslow"]`, "packages: install: it did not end within 15s",
			"the index may be slow: try again, or ask for fewer packages"},
		{short, `"language": "python", "packages": ["glvforks"], "allow_build": true`, "", ""},
	} {
		status, answer := c.s.post(t, "/v1/run", `{"code": "1", `+c.fields+`, `+weaker+`}`)
		detail, _ := answer["detail"].(string)
		hint, _ := answer["hint"].(string)
		if status == 200 || !strings.Contains(detail, c.detail) || !strings.HasPrefix(hint, c.hint) {
			t.Errorf("%s: %d %v", c.fields, status, answer)
		}
		leftOver(t, cache)
	}
	i.wheel("glvlarge", "1.0", strings.Repeat("\n", 8<<20), "")
	i.fails(cache, "they have more files, or larger ones, than a layer may have",
		"ask for fewer packages; or let the cache keep more: --package-cache-size",
		"run", "--package-cache-size", "4MiB", "-p", "glvlarge", "-c", "1")
}

// TestPackagesMany: the maximum number of packages in a request is installed, and one more is refused.
func TestPackagesMany(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: pip takes seconds for so many packages")
	}
	isPackagesReady(t, pipFile)
	i, cache := newIndex(t), t.TempDir()
	args, code := []string{"run"}, "print(0"
	for n := range 500 {
		name := fmt.Sprintf("glvmany%d", n)
		i.wheel(name, "1.0", fmt.Sprintf("value = %d", n), "")
		args = append(args, "-p", name)
		code += fmt.Sprintf("+__import__(%q).value", name)
	}
	if out, _ := i.run(cache, 0, append(args, "-c", code+")")...); out != "124750\n" {
		t.Errorf("%q", out)
	}
	i.fails(cache, "packages: more than 500 packages are requested", "ask for fewer packages",
		append(args, "-p", "glvmore", "-c", "1")...)
	leftOver(t, cache)
}

// hostAddress returns an address of this host that a rule can allow.
func hostAddress(t *testing.T) string {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Skipf("SKIPPED, NOT TESTED: this host has no IPv4 address but loopback: %v", err)
	return ""
}

// newHostIndex returns an index that separate programs can reach through their gate.
func newHostIndex(t *testing.T) *index {
	l, err := net.Listen("tcp4", net.JoinHostPort(hostAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(nil)
	s.Listener.Close()
	s.Listener = l
	i := &index{t: t, url: "http://" + l.Addr().String()}
	i.serve(s)
	s.Start()
	t.Cleanup(s.Close)
	return i
}

// command returns the program as a process, with its own cache and this index. If a wrapper is named, it runs the
// program.
func (i *index) command(cache string, before []string, args ...string) *exec.Cmd {
	words := slices.Concat(before, []string{"fumehood", args[0], "--package-cache", cache}, i.flags,
		[]string{"--backend", "native", "--allow-unenforced", "memory"}, args[1:])
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+i.t.TempDir(), "FUMEHOOD_LIBEXEC="+libexecDir(i.t))
	return cmd
}

// TestPackageCacheBad: packages in a read-only cache still serve; other packages are an error with a fix.
func TestPackageCacheBad(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: pip takes seconds, and root alone mounts")
	}
	isPackagesReady(t, pipFile)
	i, cache := newHostIndex(t), t.TempDir()
	i.wheel("glvsmall", "1.0", "value = 42", "")
	i.wheel("glvlarge", "1.0", strings.Repeat("\n", 8<<20), "")
	const code = "import glvsmall; print(glvsmall.value)"
	// mounted runs the program with a mount over the cache, and lists the remains in the mount.
	mounted := func(mount string, args ...string) string {
		var said bytes.Buffer
		cmd := i.command(cache, []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", mount +
			` || exit; cache=$1; shift; "$@"; find $cache/work/* $cache/requests/new-* -printf 'left over: %p\n' 2>/dev/null`,
			"sh", cache}, args...)
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Run(); err != nil && said.Len() == 0 {
			t.Fatal(err)
		}
		if strings.Contains(said.String(), "left over") {
			t.Errorf("%s", &said)
		}
		return said.String()
	}
	const readOnly, full = `mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"`,
		`mount -t tmpfs -o size=2m,mode=700 none "$1"`
	if got := mounted("true", "run", "-p", "glvsmall", "-c", code); !strings.HasSuffix(got, "42\n") {
		t.Errorf("%s", got)
	}
	if got := mounted(readOnly, "run", "-p", "glvsmall", "-c", code); got != "42\n" {
		t.Errorf("what is there: %s", got)
	}
	if got := mounted(readOnly, "run", "-p", "glvlarge", "-c", "1"); !strings.Contains(got, "read-only file system") ||
		!strings.Contains(got, "fix: make it writable") {
		t.Errorf("read-only: %s", got)
	}
	if got := mounted(full, "run", "-p", "glvlarge", "-c", "1"); !strings.Contains(got, "no space left on device") ||
		!strings.Contains(got, "fix: make it writable") {
		t.Errorf("full: %s", got)
	}
}
