package client

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// oPath is O_PATH of open(2), which package syscall lacks; the value is the same on all of the guest's processors.
const oPath = 0x200000

// DialSocket connects to a socket that a guest made in a host folder. It follows no link, as code that took over the
// guest could link to any socket of the host. The path may exceed the 107 bytes of a unix address.
func DialSocket(ctx context.Context, folder, name string) (net.Conn, error) {
	socket, err := os.OpenFile(filepath.Join(folder, name), oPath|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	info, err := socket.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return nil, &os.PathError{Op: "connect", Path: socket.Name(), Err: syscall.ENOTSOCK}
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(int(socket.Fd())))
}
