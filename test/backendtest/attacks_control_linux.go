package backendtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/attack"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// nobody is the user of controls when root runs the tests: an id that owns nothing.
const nobody = 1_879_000_000

// runControl runs a probe without isolation. It must succeed there: a probe that fails everywhere proves nothing.
// Probes that could harm a host have no control.
func runControl(t *testing.T, a *attack.Attack, c *attack.Canaries) {
	if a.Control.Kind == "root" && os.Geteuid() != 0 {
		t.Skipf("the control of %s needs root", a.ID)
	}
	hits := c.Hits()
	out, err := withoutWalls(a.Control.Kind, a, append(c.Parameters("n"+c.Marker()), "LINGER=0", "PORT=0"))
	if err != nil {
		t.Skipf("this host starts no %s control: %v", a.Control.Kind, err)
	}
	for _, name := range a.Control.Names {
		ok := false
		switch name {
		case "canary":
			ok = strings.Contains(out, c.Secret)
		case "fact":
			for _, fact := range c.Facts {
				ok = ok || strings.Contains(out, fact)
			}
			ok = ok || len(c.Facts) == 0
		case "connected", "socket":
			ok = strings.Contains(out, "breach: "+name) && reached(c, hits)
		default:
			ok = strings.Contains(out, "breach: "+name)
		}
		if !ok {
			t.Errorf("without isolation the probe does not report %q, so it proves nothing; it printed\n%s", name,
				out)
		}
	}
}

// reached reports whether a listener has been reached since: connections are counted a moment late.
func reached(c *attack.Canaries, since int64) bool {
	for end := time.Now().Add(stepTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if c.Hits() > since {
			return true
		}
	}
	return false
}

// withoutWalls runs an attack's probe as an ordinary host process (plain), as root in namespaces without a filter and
// without its own root (userns), or as the host's root (root), and returns its output.
func withoutWalls(kind string, a *attack.Attack, params []string) (out string, err error) {
	dir, err := os.MkdirTemp("", "fumehood-control-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "probe")
	if err := errors.Join(os.Chmod(dir, 0o777), os.WriteFile(file, a.Source(), 0o644)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	i := slices.IndexFunc(attack.Languages, func(l sandbox.Language) bool { return l.Name == a.Lang })
	argv := attack.Languages[i].Argv(attack.Languages[i].Programs[0], file)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	// the mistake that S01 is about
	cmd.Env = append(append(os.Environ(), "PATH=/usr/bin:/bin:/usr/sbin:/sbin"), params...)
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = weakly(kind)
	text, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		err = nil // its exit status does not matter
	}
	return string(text), err
}

// callsWithoutWalls runs the probe of system calls as root in namespaces.
func callsWithoutWalls(a *attack.Attack, calls string) (out string, err error) {
	dir, err := os.MkdirTemp("", "fumehood-vectors-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "vectors.txt")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(file, []byte(calls), 0o644)); err != nil {
		return "", err
	}
	return withoutWalls("userns", a, []string{"VECTORS=" + file})
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
		attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
			syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
		attr.GidMappingsEnableSetgroups = root
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: !root}
	}
	return attr
}
