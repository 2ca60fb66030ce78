package confine

import (
	"os"

	"golang.org/x/sys/unix"
)

// Zygote builds the root of p and executes p's program in it, with setup as descriptor 3: a warm interpreter to be
// forked into sandboxes. It returns only on failure. It calls report just before it executes the program.
//
// The zygote is not a sandbox: it runs only programs that root has installed on this host. Of root's capabilities it
// keeps CAP_SYS_ADMIN, with which its children join sandboxes' namespaces, and CAP_SYS_PTRACE, which the pidfd of a
// process that is not dumpable requires for that (setns(2)). It sees a read-only root, no network and no processes.
func Zygote(p *Plan, fds []int, setup *os.File, report func() error) error {
	a := &applying{plan: p}
	a.root.proc = -1 // its root has no proc
	return a.all([]step{
		{StepPrivate, func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{StepSources, func() error { return a.root.openSources(p.Root, fds) }},
		{StepNewRoot, a.root.attach},
		{StepRoot, a.buildRoot},
		{StepSealRoot, func() error { return a.root.seal(".") }},
		{StepPivot, a.root.pivot},
		{StepRlimits, a.rlimits},
		{StepCaps, func() error { return carryOut(boundCalls(unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE)) }},
		{StepNoNewPriv, noNewPrivs},
		{StepExecute, func() error {
			if _, err := unix.FcntlInt(setup.Fd(), unix.F_SETFD, 0); err != nil { // keep it open
				return err
			}
			if err := report(); err != nil {
				return err
			}
			err := error(unix.ENOENT)
			for _, path := range p.Execute.Paths {
				if err = unix.Exec(path, p.Execute.Argv, p.Execute.Env); err != unix.ENOENT {
					break
				}
			}
			return err
		}},
	})
}
