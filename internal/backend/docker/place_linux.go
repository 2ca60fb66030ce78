package docker

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// isLocal says whether containers run on this kernel and in sight of this host's files. An engine in a virtual machine listens on a unix
// socket of the host too, but its kernel and its name are others. What SELinux separates is as if it were elsewhere.
func (to *connection) isLocal() bool {
	var u unix.Utsname
	if to.unixPath() == "" || to.info.OperatingSystem == "Docker Desktop" || to.secured("selinux") || unix.Uname(&u) != nil {
		return false
	}
	return unix.ByteSliceToString(u.Release[:]) == to.info.KernelVersion && strings.EqualFold(unix.ByteSliceToString(u.Nodename[:]), to.info.Name)
}

// hasOurFolders says whether root in a container is who owns our folders: nobody else comes into them, as root there has not the
// capability for it.
func (to *connection) hasOurFolders() bool {
	if !to.rootless {
		return os.Geteuid() == 0
	}
	var st unix.Stat_t
	return os.Geteuid() != 0 && unix.Stat(to.unixPath(), &st) == nil && int(st.Uid) == os.Geteuid()
}
