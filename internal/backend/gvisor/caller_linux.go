package gvisor

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/fork"
	"github.com/glovebox-dev/glovebox/internal/hostid"
	"github.com/glovebox-dev/glovebox/internal/pidfd"
)

// callerMap says how the ids of an ordinary user's sandbox map to those of the host: gVisor itself is the caller, and the code, which does
// nothing on the host itself, is nobody there. So no directory of the host can be writable: what the code makes there must be the code's.
func (b *Backend) callerMap() hostid.Map {
	return hostid.Map{Lines: []hostid.Line{{Inside: 0, Host: b.caller.UID}}}
}

// hostUID is the value of Policy.HostUID: of gVisor's own processes.
func (b *Backend) hostUID() string {
	if b.caller.UID == 0 {
		return hostid.Unique
	}
	return hostid.Shared
}

// runscCaps are what runsc needs in the user namespace that it is started in. They are ambient, as its id is not mapped yet when it is
// executed. CAP_SETFCAP is for mapping uid 0 once more (Linux 5.12).
var runscCaps = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETPCAP, unix.CAP_NET_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN, unix.CAP_SETFCAP}

// envMapped has our runsc wait until its ids are mapped, which the descriptor of that number tells.
const envMapped = "GLOVEBOX_RUNSC_MAPPED"

// startMapped starts runsc as root of a user namespace of its own.
func (b *Backend) startMapped(order *fork.Order) (*pidfd.Process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	defer w.Close()
	order.Files[runscIDs] = int(r.Fd())
	order.Env = append(runscEnv[:len(runscEnv):len(runscEnv)], envMapped+"="+itoa(runscIDs))
	order.Namespaces, order.Ambient = unix.CLONE_NEWUSER|unix.CLONE_NEWNS, runscCaps
	pid, fd, err := order.Start()
	if err != nil {
		return nil, err
	}
	process := &pidfd.Process{PID: pid, FD: fd, Child: true}
	if err = b.fail(failMap, b.callerMap().Write(pid)); err == nil {
		_, err = w.Write([]byte{1})
	}
	if err != nil {
		process.Kill()
		process.Wait()
		return nil, errors.Join(err, unix.Close(fd))
	}
	return process, nil
}
