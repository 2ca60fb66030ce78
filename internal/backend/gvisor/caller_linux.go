package gvisor

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
	"github.com/fumehood-dev/fumehood/internal/host/tap"
)

// callerMap maps the ids of an ordinary user's sandbox: gVisor runs as the caller, and the code, which does nothing on
// the host itself, has no host id. So no host directory can be writable: the code could not own its files there.
func (b *Backend) callerMap() hostid.Map {
	return hostid.Map{Lines: []hostid.Line{{Inside: 0, Host: b.caller.UID}}}
}

// hostUID is Policy.HostUID, the user of gVisor's own processes.
func (b *Backend) hostUID() string {
	if b.caller.UID == 0 {
		return hostid.Unique
	}
	return hostid.Shared
}

// runscCaps are runsc's capabilities in its user namespace. They are ambient, as its id is not mapped when it is
// executed. CAP_SETFCAP permits mapping uid 0 again (Linux 5.12), CAP_NET_RAW the socket by which gVisor uses an
// interface.
var runscCaps = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER,
	unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETPCAP, unix.CAP_NET_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN,
	unix.CAP_SETFCAP, unix.CAP_NET_RAW}

// envMapped holds the descriptor on which our runsc waits until its ids are mapped.
const envMapped = "FUMEHOOD_RUNSC_MAPPED"

// startMapped starts runsc as root of a user namespace of its own.
func (b *Backend) startMapped(order *fork.Order, box *Box) (*pidfd.Process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	defer w.Close()
	order.Files[runscIDs] = int(r.Fd())
	order.Env = append(runscEnv[:len(runscEnv):len(runscEnv)], envMapped+"="+strconv.Itoa(runscIDs))
	order.Namespaces, order.Ambient = unix.CLONE_NEWUSER|unix.CLONE_NEWNS, runscCaps
	linked := box.spec.Network.Linked()
	if linked {
		order.Namespaces |= unix.CLONE_NEWNET
	}
	pid, fd, err := order.Start()
	if err != nil {
		return nil, err
	}
	process := &pidfd.Process{PID: pid, FD: fd, Child: true}
	if err = b.Fail(failMap, b.callerMap().Write(pid)); err == nil && linked {
		err = box.plug(tap.Place{FD: fd, Own: true})
	}
	if err == nil {
		_, err = w.Write([]byte{1})
	}
	if err != nil {
		process.Kill()
		process.Wait()
		return nil, errors.Join(err, unix.Close(fd))
	}
	return process, nil
}
