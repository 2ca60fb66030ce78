package tap

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// device makes TAP devices (tuntap.txt in the kernel's documentation) in the network namespace in which it is opened.
const device = "/dev/net/tun"

// Place is a network namespace. The caller is root, or owns the user namespace that owns it.
type Place struct {
	FD  int  // of a process in it (a pidfd), or of the namespace itself
	Own bool // the namespace belongs to a user namespace of the caller, to be entered first
}

// Make makes and configures the interface (sandbox.LinkName), and returns its outer end, non-blocking. The interface
// vanishes with its last descriptor. With stay it lasts as long as its namespace, and drops frames without an outer
// end.
func Make(ctx context.Context, at Place, stay bool) (*os.File, error) {
	o, err := open(at)
	if err != nil {
		return nil, explain(err)
	}
	defer unix.Close(o.socket)
	if err := o.attach(ctx); err != nil {
		return nil, errors.Join(explain(err), unix.Close(o.file))
	}
	if stay {
		err = os.NewSyscallError("TUNSETPERSIST", unix.IoctlSetInt(o.file, unix.TUNSETPERSIST, 1))
	}
	if err == nil {
		err = configure(o.socket)
	}
	if err != nil {
		return nil, errors.Join(explain(err), unix.Close(o.file))
	}
	return os.NewFile(uintptr(o.file), sandbox.LinkName), nil
}

// Take returns the outer end of an interface that stays, and does not change the interface.
func Take(ctx context.Context, at Place) (*os.File, error) {
	o, err := open(at)
	if err != nil {
		return nil, explain(err)
	}
	defer unix.Close(o.socket)
	if _, err = o.index(); err == nil { // else attach would make another
		err = o.attach(ctx)
	}
	if err != nil {
		return nil, errors.Join(explain(err), unix.Close(o.file))
	}
	return os.NewFile(uintptr(o.file), sandbox.LinkName), nil
}

// Available returns nil if this process can make interfaces, otherwise the reason and a fix.
func Available() error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return explain(err)
	}
	return f.Close()
}

// opened is a device that is not attached yet, and a socket that configures interfaces.
type opened struct{ file, socket int }

func open(at Place) (o opened, err error) {
	v := fork.Visit{Of: at.FD, Namespaces: unix.CLONE_NEWNET, Path: device,
		Socket: [3]int{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}}
	if at.Own {
		v.Namespaces |= unix.CLONE_NEWUSER
	}
	o.file, o.socket, err = v.Open()
	return o, err
}

func (o opened) index() (int32, error) {
	request, err := unix.NewIfreq(sandbox.LinkName)
	if err != nil {
		return 0, err
	}
	err = unix.IoctlIfreq(o.socket, unix.SIOCGIFINDEX, request)
	return int32(request.Uint32()), os.NewSyscallError("SIOCGIFINDEX", err)
}

// A killed server may still hold its end while its successor opens another: the kernel closes descriptors one by one,
// and needs some milliseconds for an interface.
const (
	dyingHolder = 500 * time.Millisecond
	lookEvery   = 5 * time.Millisecond
)

// attach makes the descriptor the outer end of the interface, and makes a missing interface.
func (o opened) attach(ctx context.Context) error {
	request, err := unix.NewIfreq(sandbox.LinkName)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	for end := time.Now().Add(dyingHolder); ; {
		err = unix.IoctlIfreq(o.file, unix.TUNSETIFF, request)
		if err != unix.EBUSY || ctx.Err() != nil || time.Now().After(end) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
	if err != nil {
		return os.NewSyscallError("TUNSETIFF", err)
	}
	if err := unix.IoctlSetInt(o.file, unix.TUNSETOFFLOAD,
		unix.TUN_F_CSUM|unix.TUN_F_TSO4|unix.TUN_F_TSO6); err != nil {
		return os.NewSyscallError("TUNSETOFFLOAD", err)
	}
	return unix.SetNonblock(o.file, true)
}

func explain(err error) error {
	e := &sandbox.Error{Kind: sandbox.Unsupported, Op: "network interface", Err: err}
	var failed *fork.Error
	opening := errors.As(err, &failed) && failed.Step == fork.OpenFile
	var path *fs.PathError
	opening = opening || errors.As(err, &path)
	switch {
	case errors.Is(err, unix.EBUSY):
		e.Kind, e.Msg, e.Err, e.Fix = sandbox.Busy, "another process holds its outer end", nil, "close that one first"
	case opening && errors.Is(err, fs.ErrNotExist):
		e.Msg, e.Err = device+" is missing", nil
		e.Fix = "run: modprobe tun; in a container, give it the device (docker run --device " + device + ")"
	case opening && errors.Is(err, fs.ErrPermission):
		e.Msg, e.Err = "this user may not open "+device, nil
		e.Fix = "run: chmod 0666 " + device +
			", which gives no rights outside of a user's own namespaces; or run as root"
	case opening:
		e.Msg, e.Fix = device+" does not work", "run: modprobe tun (CONFIG_TUN)"
	case errors.Is(err, unix.ENODEV):
		e.Kind, e.Msg, e.Err = sandbox.Unavailable, "the sandbox no longer has one", nil
	case errors.Is(err, unix.ESRCH):
		e.Kind, e.Msg, e.Err = sandbox.Unavailable, "the sandbox has ended", nil
	default:
		e.Kind = sandbox.Unavailable
	}
	return e
}
