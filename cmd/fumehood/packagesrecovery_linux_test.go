package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestPackagesKilled: after a kill at any time of an installation, the next program installs the packages, and the
// cache has no remains of the dead one.
func TestPackagesKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: it installs for each of many kills")
	}
	isPackagesReady(t, pipFile)
	const kills = 10 // spread over the time that one installation takes
	i, cache := newHostIndex(t), t.TempDir()
	source := "value = 42\n" + strings.Repeat("# 0123456789\n", 100_000)
	for n := range kills + 1 {
		name := fmt.Sprintf("glvkill%d", n)
		i.wheel(name, "1.0", source, "")
		file := "/archives/" + name + "-1.0-py3-none-any.whl"
		i.does(file, func(w http.ResponseWriter, r *http.Request) { // a second for it
			content := i.files[file]
			for part := range 20 {
				w.Write(content[part*len(content)/20 : (part+1)*len(content)/20])
				w.(http.Flusher).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	start := func(n int) (*exec.Cmd, *bytes.Buffer) {
		var said bytes.Buffer
		cmd := i.command(cache, nil, "run", "-p", fmt.Sprintf("glvkill%d", n), "-c",
			fmt.Sprintf("import glvkill%d; print(glvkill%[1]d.value)", n))
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &said
	}
	succeeds := func(n int) {
		t.Helper()
		cmd, said := start(n)
		if err := cmd.Wait(); err != nil || !strings.HasSuffix(said.String(), "42\n") {
			t.Errorf("%v: %s", err, said)
		}
		leftOver(t, cache)
	}
	began := time.Now()
	succeeds(kills)
	whole := time.Since(began)
	for n := range kills {
		at := time.Duration((float64(n) + rand.Float64()) / kills * float64(whole))
		cmd, said := start(n)
		time.Sleep(at)
		err := cmd.Process.Kill()
		t.Logf("killed after %v of %v: %v, %v; it had said %q", at, whole, err, cmd.Wait(), said)
		succeeds(n)
	}
	if got := i.downloads("glvkill"); got > 2*kills+1 {
		t.Errorf("%d downloads", got)
	}
	if out, _ := i.run(cache, 0, "deps", "ls"); strings.Count(out, "glvkill") != kills+1 {
		t.Errorf("%s", out)
	}
}
