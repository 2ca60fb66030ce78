package confine

import (
	"encoding/base64"
	"errors"
	"os"
	"path"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ContainedPlan returns the plan of a guest in a container, or nil outside of one.
func ContainedPlan() (*Plan, error) {
	text, is := os.LookupEnv(EnvPlan)
	if !is {
		return nil, nil
	}
	body, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	if err := p.Parse(body); err != nil {
		return nil, err
	}
	if p.FailAt == StepPlan {
		return nil, unix.EIO
	}
	return p, nil
}

// Contained sets up what a runtime leaves to the guest, which is the container's root with few capabilities: the plan's
// writable places, and limits. Spawner and Finish do the rest, as after Apply.
func Contained(p *Plan) (*Stage, error) {
	a := &applying{plan: p, stage: &Stage{}}
	haveThreads(p.Threads)
	err := a.all([]step{
		{StepKnobs, a.containedKnobs},
		{StepRoot, a.mountWritable},
		{StepIdentity, a.containedIdentity},
		{StepRlimits, a.rlimits},
	})
	return a.stage, err
}

// containedIdentity makes the guest of a builder a user other than root, which is the code's user there, and keeps its
// capabilities: the limit of processes counts those of a user.
func (a *applying) containedIdentity() error {
	if g := a.plan.Guest; a.plan.Builder {
		kept := permitted()
		_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0)
		if errno != 0 {
			return errno
		}
		if err := errors.Join(takeIdentity(g.UID, g.GID, true), capabilities(kept)); err != nil {
			return err
		}
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

func (a *applying) containedKnobs() error {
	f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil // without scores, no process inside is killed for another
	}
	a.stage.OOMScore = f
	return err
}

// mountWritable makes the writable places by the old mount calls, which gVisor supports. No other process of the
// container runs yet that could change a path meanwhile.
func (a *applying) mountWritable() error {
	if err := a.noLinks(); err != nil {
		return err
	}
	for _, s := range a.plan.Root {
		target := "/" + s.Target
		var err error
		switch s.Do {
		case Dir:
			if err = os.MkdirAll(target, 0o755); err == nil {
				err = errors.Join(os.Chown(target, int(s.UID), int(s.GID)), unix.Chmod(target, s.Mode))
			}
		case Tmpfs:
			err = unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
				"mode=0"+strconv.FormatUint(uint64(s.Mode), 8)+",size="+strconv.FormatInt(s.Size, 10))
		case Inner:
			err = unix.Mount("/"+s.Source, target, "", unix.MS_BIND, "")
		case File:
			err = os.WriteFile(target, []byte(s.Source), os.FileMode(s.Mode))
		case Symlink:
			err = os.Symlink(s.Source, target)
		case Detach:
			err = unix.Unmount(target, unix.MNT_DETACH)
			if err == unix.EINVAL && s.Flags&Optional != 0 { // it is no mount
				err = nil
			}
		case Remove:
			err = unix.Rmdir(target)
		default:
			err = unix.EINVAL
		}
		if a.plan.FailAt == StepRoot+" "+s.Target {
			err = unix.EIO
		}
		if err != nil {
			return at(s.Target, err)
		}
	}
	return nil
}

// noLinks refuses a root with a link at the guest's or its socket's path, or on the way to a folder that becomes the
// code's: a link between them would give the code the host's folder.
func (a *applying) noLinks() error {
	paths := []string{os.Args[0], a.plan.Listen}
	for _, s := range a.plan.Root {
		if s.Do == Dir {
			paths = append(paths, "/"+s.Target)
		}
	}
	for _, p := range paths {
		for ; p != "/" && p != "."; p = path.Dir(p) {
			info, err := os.Lstat(p)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err == nil && info.Mode()&os.ModeSymlink != 0 {
				err = errors.New("the root has a symbolic link there")
			}
			if err != nil {
				return at(p, err)
			}
		}
	}
	return nil
}

// haveThreads makes the runtime start n threads and keep them: each goroutine holds one until all have one. An engine's
// process limit counts the guest's threads too, so the code never gets more than requested.
func haveThreads(n int) {
	var all, ready sync.WaitGroup
	ready.Add(n)
	for range n {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			ready.Wait()
		})
	}
	all.Wait()
}
