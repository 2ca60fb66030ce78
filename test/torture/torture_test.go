package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// These tests check that the searches for traces find what they look for.

func TestMarkedOrphanIsFound(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.Env = []string{mark + "=victim"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	found := func(alive []int) bool {
		left, err := leftProcesses(nil, alive)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(strings.Join(left, "\n"), fmt.Sprintf("process %d ", cmd.Process.Pid))
	}
	for deadline := time.Now().Add(2 * time.Minute); !found(nil); { // the child may not have executed yet
		if time.Now().After(deadline) {
			t.Fatal("not found")
		}
	}
	if found([]int{os.Getpid()}) {
		t.Error("a descendant of a living server was reported")
	}
}

func TestFolderOfDeadInstanceIsFound(t *testing.T) {
	in := liveserver.Instance{Name: "no-such-instance", Dir: t.TempDir()}
	left, err := leftOf([]liveserver.Instance{in}, t.TempDir(), nil)
	if err != nil || len(left) != 1 || left[0] != in.Dir {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestControlGroupOfDeadInstanceIsFound(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can create a control group")
	}
	name := fmt.Sprintf("torturetest%d.", os.Getpid())
	dir := "/sys/fs/cgroup/pids/fumehood-" + name
	if _, err := os.Stat("/sys/fs/cgroup/pids"); err != nil {
		dir = "/sys/fs/cgroup/fumehood-" + name
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("this host permits no control groups: ", err)
	}
	defer os.Remove(dir)
	left := leftGroups([]liveserver.Instance{{Name: name}})
	if len(left) != 1 || left[0] != dir {
		t.Errorf("left %v", left)
	}
}

func TestAnswersUnderLoadAreChecked(t *testing.T) {
	for _, c := range []struct {
		status string
		dying  bool
		wrong  bool
	}{
		{"succeeded", false, false}, {"failed", false, true}, {"lost", false, true}, {"canceled", false, true},
		{"canceled", true, false}, {"lost", true, false},
	} {
		l := &load{cancel: func() {}}
		l.dying.Store(c.dying)
		l.check(&liveserver.Answer{Status: c.status})
		if err := l.wait(); (err != nil) != c.wrong {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
