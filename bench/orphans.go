package main

import (
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/test/liveserver"
)

// orphanage takes in what a command left running when it ended, so that its cost is counted: bubblewrap does not wait for the pid 1 of
// its sandbox, and so its own figures hold nothing of what ran inside.
type orphanage struct {
	known []int // children that were there before the run
}

// newOrphanage makes this process the one that orphans below it go to (prctl(2), PR_SET_CHILD_SUBREAPER).
func newOrphanage() (*orphanage, error) {
	return &orphanage{}, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

func (o *orphanage) note() { o.known = liveserver.Children(os.Getpid()) }

// reap waits for the orphans that came since note, and returns what they and theirs have cost.
func (o *orphanage) reap() (time.Duration, error) {
	var cost time.Duration
	for _, pid := range liveserver.Children(os.Getpid()) {
		if slices.Contains(o.known, pid) {
			continue
		}
		var usage syscall.Rusage
		if _, err := syscall.Wait4(pid, nil, 0, &usage); err != nil {
			return cost, os.NewSyscallError("wait4", err)
		}
		cost += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return cost, nil
}
