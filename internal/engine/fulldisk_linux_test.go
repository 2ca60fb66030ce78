package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// smallDisk mounts a file system of a few megabytes. fill leaves it without space, until free.
func smallDisk(t *testing.T) (dir string, fill, free func()) {
	dir = t.TempDir()
	if err := syscall.Mount("engine-test", dir, "tmpfs", 0, "size=4m,mode=700"); err != nil {
		if os.Geteuid() == 0 {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED, NOT TESTED: an ordinary user cannot mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(dir, "filler")
	fill = func() {
		err := os.WriteFile(filler, make([]byte, 5<<20), 0o600)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return dir, fill, func() {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDisk: where logs cannot be written, runs that began go on and contexts keep their variables. Once there is
// space, the next server finds how these runs ended.
func TestFullDisk(t *testing.T) {
	_, open := keeping(t)
	stateDir, fill, free := smallDisk(t)
	e, s := openOne(t, open, stateDir)
	const wait = "import os, time\nopen('began%d', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
	much := strings.ReplaceAll(wait, "%d", "1") + "print('x' * (3 << 20))\ny = 2"
	inContext := code("python", much)
	inContext.Background = true
	command := engine.RunRequest{Background: true, Request: sandbox.Request{
		Command: []string{"python3", "-c", strings.Replace(much, "began1", "began2", 1)}}}
	var runs []*engine.Run
	for _, req := range []engine.RunRequest{inContext, command} {
		req.Request.Timeout = time.Minute
		x, err := s.Start(within(t), req)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, x)
	}
	eventually(t, "the beginning", func() bool {
		_, one := s.Stat(within(t), "began1")
		_, two := s.Stat(within(t), "began2")
		return one == nil && two == nil
	})
	fill()
	if err := s.WriteFile(within(t), "go", 0, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	for _, x := range runs {
		if r, err := x.Wait(within(t)); err != nil || r.Status != sandbox.StatusSucceeded {
			t.Errorf("on a full disk: %+v, %v", r, err)
		}
	}
	free()
	if r := do(t, s, code("python", "print(y)")); string(r.Stdout.Head) != "2\n" {
		t.Errorf("the variables are lost: %+v", r)
	}
	eventually(t, "the logs of the runs", func() bool {
		_, logs, err := eventlog.OpenFolder(filepath.Join(stateDir, string(s.ID())), "", eventlog.Retention{},
			eventlog.NewQuota(0))
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(logs, func(l eventlog.Entry) bool { return !l.Finished })
	})
	if err := errors.Join(s.Close(), e.Close()); err != nil {
		t.Error(err)
	}
}
