package main

import (
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// orphanage adopts processes that a command left running, and counts their cost. bubblewrap does not wait for its
// sandbox's pid 1, so its own figures lack what ran inside.
type orphanage struct {
	known []int // children from before the run
}

// newOrphanage makes this process adopt the orphans below it (prctl(2), PR_SET_CHILD_SUBREAPER).
func newOrphanage() (*orphanage, error) {
	return &orphanage{}, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

func (o *orphanage) note() { o.known = liveserver.Children(os.Getpid()) }

// reap waits for all new children since note and returns their total cost.
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
