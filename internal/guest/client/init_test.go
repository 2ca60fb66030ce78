package client_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var stranger = sandbox.User{UID: 12345, GID: 12345}

// As pid 1 the guest ends everything, even processes that hide.
func TestKillAllOfInit(t *testing.T) {
	c := startInit(t).Client(t)
	for _, user := range []sandbox.User{{}, stranger} {
		m := shell(`(env -i setsid sleep 100 &); setsid sh -c 'trap "" TERM HUP; sleep 100' & echo ready; sleep 100`)
		m.User = user
		start(t, c, m)
	}
	await(t, func() bool {
		list, err := c.List(limit(t))
		return err == nil && len(list) == 2 && list[0].Stdout > 0 && list[1].Stdout > 0
	})
	if err := c.KillAll(limit(t)); err != nil {
		t.Fatal(err)
	}
	list, err := c.List(limit(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if e, err := c.Wait(limit(t), p.ID); err != nil || e.Signal != 9 || !e.Signaled || e.Incomplete ||
			e.ForeignKill != 0 {
			t.Errorf("%+v, %v", e, err)
		}
	}
	r := run(t, c, shell(`echo /proc/[0-9]*`)) // pid 1 and the shell: no zombie either
	if n := len(strings.Fields(r.stdout.String())); n != 2 {
		t.Errorf("%s", r.stdout.String())
	}
}

// Where /proc shows a user's processes only to that user, the guest reads it as that user.
func TestKillTreeOfAnotherUser(t *testing.T) {
	c := startInit(t).Client(t)
	m := shell(`mkfifo up; exec 3<>up; sleep 100 & setsid sh -c 'echo >&3; exec sleep 100' & (setsid sh -c 'echo >&3; exec sleep 100' &)
		read x <&3; read x <&3; exit 4`)
	m.Dir, m.User, m.KillTree, m.Drain = dirFor(t, stranger), stranger, true, time.Nanosecond
	if e := run(t, c, m).exited; e.Code != 4 || e.Incomplete || e.ForeignKill != 0 {
		t.Errorf("%+v", e)
	}
	r := run(t, c, shell(`echo /proc/[0-9]*`))
	if n := len(strings.Fields(r.stdout.String())); n != 2 {
		t.Errorf("%s", r.stdout.String())
	}
}

// A deadline ends even a program that forks as fast as it can.
func TestForkBomb(t *testing.T) {
	c := startInit(t).Client(t)
	m := guest.Start{ID: newID(), Argv: []string{"/usr/bin/python3", "-S", "-c", `
import os
while True:
    try:
        if os.fork() == 0: os.setsid()
    except OSError: pass
`}}
	m.User, m.Deadline, m.KillTree, m.Drain = stranger, 300*time.Millisecond, true, 20*time.Second
	m.Limits = []guest.Rlimit{{Resource: unix.RLIMIT_NPROC, Value: 100}}
	if e := run(t, c, m).exited; !e.TimedOut || e.Signal != 9 || e.Incomplete {
		t.Errorf("%+v", e)
	}
	r := run(t, c, shell(`echo /proc/[0-9]*`))
	if n := len(strings.Fields(r.stdout.String())); n != 2 {
		t.Errorf("%s", r.stdout.String())
	}
}

// The guest's own user cannot end pid 1 by any signal.
func TestInitIsDeaf(t *testing.T) {
	c := startInit(t).Client(t)
	for s := 1; s <= 64; s++ {
		run(t, c, shell("kill -"+strconv.Itoa(s)+" 1"))
	}
	if r := run(t, c, shell("kill -9 -1; exit 3")); r.exited.Code != -1 && r.exited.Code != 3 {
		t.Errorf("%+v", r.exited)
	}
	if _, err := c.List(limit(t)); err != nil {
		t.Error(err)
	}
}
