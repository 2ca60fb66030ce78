package backendtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobody is whom controls run as where the tests run as root: an id that owns nothing.
const nobody = 1_879_000_000

// controlTimeout bounds a probe without walls.
const controlTimeout = 60 * time.Second

// runControl runs a probe where the walls do not stand. It must succeed there: one that fails everywhere proves nothing.
// Probes that could harm a host have no control.
func runControl(t *testing.T, a *attack, c *canaries) {
	if a.control.kind == "root" && os.Geteuid() != 0 {
		t.Skipf("the control of %s needs root", a.id)
	}
	hits := c.hits.Load()
	out := withoutWalls(t, a.control.kind, a.lang, a.source(a.code), append(c.parameters("n"+c.marker), "LINGER=0", "PORT=0"))
	for _, name := range a.control.names {
		ok := false
		switch name {
		case "canary":
			ok = strings.Contains(out, c.secret)
		case "fact":
			for _, fact := range c.facts {
				ok = ok || strings.Contains(out, fact)
			}
			ok = ok || len(c.facts) == 0
		case "connected", "socket":
			ok = strings.Contains(out, "breach: "+name) && c.reached(hits)
		default:
			ok = strings.Contains(out, "breach: "+name)
		}
		if !ok {
			t.Errorf("without walls the probe does not report %q, so it proves nothing where they stand; it printed\n%s", name, out)
		}
	}
}

// reached says whether a listener has been reached since: a connection is counted a moment after it was made.
func (c *canaries) reached(since int64) bool {
	for end := time.Now().Add(settleTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if c.hits.Load() > since {
			return true
		}
	}
	return false
}

// withoutWalls runs source text as an ordinary process of the host (plain), as root in namespaces of its own without a filter
// and without a root of its own (userns), or as the host's root (root), and returns what it printed.
func withoutWalls(t *testing.T, kind, lang string, source []byte, params []string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "glovebox-control-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "probe")
	if err := os.WriteFile(file, source, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	argv := attackLanguages[lang].Argv(attackLanguages[lang].Programs[0], file)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "PATH=/usr/bin:/bin:/usr/sbin:/sbin"), params...) // the mistake that S01 is about
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = weakly(kind)
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil {
		t.Skipf("this host starts no %s control: %v", kind, err)
	}
	return string(out)
}

func weakly(kind string) *syscall.SysProcAttr {
	root := os.Geteuid() == 0
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	switch {
	case kind == "plain" && root:
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	case kind == "userns":
		uid, gid := os.Geteuid(), os.Getegid()
		if root {
			uid, gid = nobody, nobody
		}
		attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
		attr.GidMappingsEnableSetgroups = root
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: !root}
	}
	return attr
}
