package docker

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	guestclient "github.com/fumehood-dev/fumehood/internal/guest/client"
)

// isLocal reports whether containers run on this kernel and see this host's files. An engine in a virtual machine may
// also listen on a unix socket of the host, but its kernel and host name differ. An engine with SELinux labels counts
// as remote.
func (to *connection) isLocal() bool {
	var u unix.Utsname
	if to.unixPath() == "" || to.info.OperatingSystem == "Docker Desktop" || to.secured("selinux") ||
		unix.Uname(&u) != nil {
		return false
	}
	return unix.ByteSliceToString(u.Release[:]) == to.info.KernelVersion &&
		strings.EqualFold(unix.ByteSliceToString(u.Nodename[:]), to.info.Name)
}

// hasOurFolders reports whether a container's root owns our folders. Nobody else can enter them, as root there lacks
// the capability.
func (to *connection) hasOurFolders() bool {
	if !to.rootless {
		return os.Geteuid() == 0
	}
	var st unix.Stat_t
	return os.Geteuid() != 0 && unix.Stat(to.unixPath(), &st) == nil && int(st.Uid) == os.Geteuid()
}

func (box *Box) dialSocket(ctx context.Context) (net.Conn, error) {
	return guestclient.DialSocket(ctx, filepath.Join(box.Dir, socketFolder), socketFile)
}
