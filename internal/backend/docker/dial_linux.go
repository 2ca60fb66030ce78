package docker

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

func (box *Box) dialSocket(ctx context.Context) (net.Conn, error) {
	folder, err := os.Open(filepath.Join(box.dir, socketFolder)) // a path may be longer than the 107 bytes of a unix address
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	var d net.Dialer
	return d.DialContext(ctx, "unix", filepath.Join("/proc/self/fd", strconv.Itoa(int(folder.Fd())), socketFile))
}
