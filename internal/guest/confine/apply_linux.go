package confine

import (
	"errors"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/seccomp"
)

// Stage is the set-up stage's result for the guest.
type Stage struct {
	OOMScore *os.File // /proc/self/oom_score_adj, open for writing, which is no longer possible later
}

// Apply executes the plan. fds are the detached mounts that came with it. Afterwards the process is confined except for
// the last steps, which Spawner and Finish do once the guest's threads exist.
func Apply(p *Plan, fds []int) (*Stage, error) {
	a := &applying{plan: p, stage: &Stage{}}
	newRoot, pivot := a.root.attach, a.root.pivot
	if p.Template != 0 {
		newRoot, pivot = func() error { return a.root.adopt(p.Template) }, standInside
	}
	sealed := []string{".", "proc"}
	if p.Builder {
		newRoot, sealed = func() error { return a.root.attachWhole(fds) }, []string{"proc"}
	}
	steps := []step{
		{StepKnobs, a.knobs},
		{StepPrivate, func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{StepSources, func() error { return a.root.openSources(p.Root, fds) }},
		{StepIdentity, a.identity},
		{StepNewRoot, newRoot},
		{StepRoot, a.buildRoot},
		{StepSealRoot, func() error { return a.root.seal(sealed...) }},
		{StepPivot, pivot},
		{StepHostname, func() error { return unix.Sethostname([]byte(p.Hostname)) }},
		{StepLoopback, a.loopback},
		{StepNesting, a.forbidNesting},
		{StepWatches, a.boundWatches},
		{StepRlimits, a.rlimits},
	}
	if err := a.all(steps); err != nil {
		return nil, err
	}
	unix.Close(a.root.fd)
	unix.Close(a.root.proc)
	return a.stage, a.run(StepKnobs, a.stage.low)
}

// low moves kept descriptors to the lowest free numbers: later calls use numbers above all others (granteeFD).
func (s *Stage) low() error {
	if s.OOMScore == nil {
		return nil
	}
	fd, err := unix.FcntlInt(s.OOMScore.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.OOMScore.Close()
	s.OOMScore = os.NewFile(uintptr(fd), "oom_score_adj")
	return nil
}

// step is a named part of the set-up stage.
type step struct {
	name string
	do   func() error
}

func (a *applying) all(steps []step) error {
	// The server's umask would restrict the modes of the root's folders, and be inherited by the code.
	unix.Umask(0o022)
	for _, s := range steps {
		if err := a.run(s.name, s.do); err != nil {
			return err
		}
	}
	return nil
}

// Spawner confines the calling thread, which must be locked to its goroutine and starts all the code's processes. Only
// one thread is confined, because every further one costs a signal and a wait for each of the 41 capabilities.
func Spawner(p *Plan) error {
	a := &applying{plan: p}
	ruleset, rest := p.codeWalls()
	if err := a.run(StepLandlock, func() error { return carryOut(ruleset) }); err != nil {
		return err
	}
	return a.run(StepSpawner, func() error { return carryOut(rest) })
}

// Finish does the last steps on all threads: it drops capabilities, then installs the filter.
func Finish(p *Plan) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a := &applying{plan: p}
	keep := uint32(guestCaps)
	if p.Guest == p.Code {
		keep = 0
	}
	if p.Builder {
		keep |= builderCaps // its children become root, with no more than these
	}
	if p.Listen != "" {
		keep &= permitted() // a container runtime may have given fewer
	}
	if err := a.run(StepCaps, func() error { return capabilities(keep) }); err != nil {
		return err
	}
	if err := a.run(StepNoNewPriv, noNewPrivs); err != nil {
		return err
	}
	program := p.Seccomp
	if p.Filter != 0 {
		program = seccomp.New(seccomp.Options{HostWritable: p.Filter&FilterHostWritable != 0,
			NestedFilters: p.Filter&FilterNested != 0}).Compile()
	}
	if p.Listen != "" && len(program) == 0 {
		return nil // the runtime has its own filter
	}
	return a.run(StepSeccomp, func() error { return installSeccomp(program) })
}

type applying struct {
	plan  *Plan
	root  root
	stage *Stage
}

// run runs one step, or fails it if the plan requests that.
func (a *applying) run(name string, do func() error) error {
	err := error(unix.EIO)
	if a.plan.FailAt != name {
		err = do()
	}
	if err == nil {
		return nil
	}
	f := &Failure{Step: name}
	var detail *stepDetail
	if errors.As(err, &detail) {
		f.Step, err = name+" "+detail.what, detail.err
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		f.Errno = uint32(errno)
	}
	f.Msg = err.Error()
	return f
}

// stepDetail names the failed part of a step.
type stepDetail struct {
	what string
	err  error
}

func (d *stepDetail) Error() string   { return d.what + ": " + d.err.Error() }
func (d *stepDetail) Unwrap() error   { return d.err }
func at(what string, err error) error { return &stepDetail{what, err} }

func (a *applying) identity() error {
	g := a.plan.Guest
	if !isIdentity(g.UID, g.GID) {
		// With one id mapped by an ordinary user, the kernel denies setgroups (CVE-2014-8989), and the caller's groups
		// stay.
		fd, err := unix.Openat(a.root.proc, "self/setgroups", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var said [8]byte
		n, err := unix.Read(fd, said[:])
		if err := errors.Join(err, takeIdentity(g.UID, g.GID, string(said[:max(n, 0)]) != "deny\n")); err != nil {
			return err
		}
	}
	// Not dumpable: no process of the same user can trace the guest or open its memory, environment or descriptors.
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// knobs opens files for later writes: the sandbox's own /proc will be read-only, and a guest that is not dumpable does
// not own its files there.
func (a *applying) knobs() error {
	fd, err := detachedProc()
	if err != nil {
		return err
	}
	a.root.proc = fd
	oom, err := unix.Openat(fd, "self/oom_score_adj", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		a.stage.OOMScore = os.NewFile(uintptr(oom), "oom_score_adj")
	} else if err != unix.EACCES { // not dumpable from the start, and no uid 0 mapped that owns its files
		return err
	}
	return nil
}

func (a *applying) buildRoot() error {
	for i, s := range a.plan.Root {
		err := a.root.build(i, s)
		if a.plan.FailAt == StepRoot+" "+s.Target {
			err = unix.EIO
		}
		if err != nil {
			return at(s.Target, err)
		}
	}
	return nil
}

// loopback sets the network namespace's loopback interface up, so that servers and clients inside can connect.
func (a *applying) loopback() error {
	if !a.plan.Loopback {
		return nil
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr); err != nil {
		return err
	}
	return a.boundSockets()
}

// boundSockets limits uncounted kernel memory: closed sockets with unsent data, of which the whole host may have few
// (net.ipv4.tcp_max_orphans); connections that have ended, each kept for a minute, by default up to 262,144 of 256
// bytes; and copies of time-stamped data in a socket's error queue, which is as long as its buffer. Before Linux 6.18
// the setting against copies is the whole host's: TCP buffers stay small there, and the backend watches the sockets.
func (a *applying) boundSockets() error {
	settings := map[string]string{"net/ipv4/tcp_orphan_retries": "1", "net/ipv4/tcp_max_tw_buckets": "4096",
		"net/core/tstamp_allow_data": "0"}
	if err := unix.Faccessat(a.root.proc, "sys/net/core/tstamp_allow_data", unix.F_OK, 0); err != nil {
		settings["net/ipv4/tcp_rmem"] = "4096 131072 262144"
	}
	for name, value := range settings {
		switch err := a.set(name, value); err {
		case nil, unix.ENOENT, unix.EACCES, unix.EPERM, unix.EROFS:
		default:
			return err
		}
	}
	return nil
}

// forbidNesting forbids user namespaces inside, with which most recent local privilege escalations begin. The filter
// refuses them too.
func (a *applying) forbidNesting() error { return a.set("user/max_user_namespaces", "0") }

// boundWatches limits a sandbox's inotify instances, which the kernel also charges to the maker of the user namespace.
// Without a limit, one sandbox could take all that the host's root may have (128), leaving none for udev and other
// sandboxes.
func (a *applying) boundWatches() error {
	err := a.set("user/max_inotify_instances", watchers)
	if err == nil {
		err = a.set("user/max_inotify_watches", watches)
	}
	if err == unix.ENOENT { // kernel without inotify
		return nil
	}
	return err
}

// A sandbox's inotify limits: a program and its tools need one instance each.
const (
	watchers = "8"
	watches  = "8192"
)

// set writes a setting of this process's namespaces.
func (a *applying) set(name, value string) error {
	fd, err := unix.Openat(a.root.proc, "sys/"+name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(value))
	return err
}

func (a *applying) rlimits() error {
	for _, l := range a.plan.Limits {
		if err := unix.Setrlimit(int(l.Resource), &unix.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			return err
		}
	}
	return nil
}
