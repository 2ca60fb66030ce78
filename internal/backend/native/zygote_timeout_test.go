package native

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// waiting starts a zygote of Python.
func waiting(t *testing.T, b *Backend) *zygote {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can have a zygote")
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	z, err := b.startZygote(&sandbox.Fork{Zygote: python.Language.Zygote,
		Argv:  []string{"python3", "-u", "/workspace/main.py"},
		Reads: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.close)
	return z
}

// ask orders a fork for the sandbox behind pidfd from a zygote, with a pipe instead of a control group's file: the
// entering child writes there first. It returns our ends of the channel and of that pipe.
func ask(t *testing.T, z *zygote, pidfd int, givenUp bool) (channel, entered *os.File) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	channel = os.NewFile(uintptr(pair[0]), "channel")
	entered, enters, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { channel.Close(); entered.Close() })
	if givenUp {
		channel.Close()
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = z.order(false, 1, []int{pidfd, pair[1], int(null.Fd()), int(null.Fd()), int(enters.Fd())})
	if err := errors.Join(err, unix.Close(pair[1]), enters.Close(), null.Close()); err != nil {
		t.Fatal(err)
	}
	return channel, entered
}

// answer reads the answer of a zygote or fork: a process id, or 0 for a failure.
func answer(t *testing.T, channel *os.File) uint32 {
	t.Helper()
	var word [4]byte
	late := time.AfterFunc(zygoteTimeout, func() { _ = unix.Shutdown(int(channel.Fd()), unix.SHUT_RDWR) })
	defer late.Stop()
	if _, err := io.ReadFull(channel, word[:]); err != nil {
		t.Fatal("the zygote does not answer any more: ", err)
	}
	return binary.LittleEndian.Uint32(word[:])
}

// A fork's requester may be gone when its turn comes, as after a client's disconnect: its sandbox has ended, and nobody
// reads the answer.
func TestZygoteOutlivesWhoAsked(t *testing.T) {
	z := waiting(t, open(t, ""))
	ended := exec.Command("true")
	if err := ended.Start(); err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(ended.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	if err := ended.Wait(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ask(t, z, pidfd, true)
	}
	channel, _ := ask(t, z, pidfd, false)
	if pid := answer(t, channel); pid != 0 {
		t.Errorf("it was forked into a sandbox that has ended, as %d", pid)
	}
}

// After a fork's timeout the program starts normally in the same sandbox. An order that is read only then must put no
// process with rights over the sandbox beside the program.
func TestZygoteEntersNobodyLate(t *testing.T) {
	b := open(t, "")
	z := waiting(t, b)
	box, err := b.Create(context.Background(), spec())
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	pidfd := box.(*Box).Process.FD
	_, late := ask(t, z, pidfd, true)
	_, entered := ask(t, z, pidfd, false) // here the answer would come from the fork, once it was told what to do
	for _, c := range []struct {
		what string
		pipe *os.File
		want string
	}{{"an order that was given up", late, ""}, {"one that was not", entered, "0"}} {
		if err := c.pipe.SetReadDeadline(time.Now().Add(zygoteTimeout)); err != nil {
			t.Fatal(err)
		}
		if said, err := io.ReadAll(c.pipe); err != nil || string(said) != c.want {
			t.Errorf("%s: %q entered, %v; want %q", c.what, said, err, c.want)
		}
	}
}
