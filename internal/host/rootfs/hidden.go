package rootfs

import (
	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/nolink"
)

// HiddenPlaces are parts of the shown host folders that describe the host and are not needed by programs: an
// administrator's settings (npm keeps registry tokens in etc/npmrc), the host's kernel source, its package manager's
// locks, and the certificates that Debian and Red Hat make for the host's own name.
var HiddenPlaces = []string{"/usr/etc", "/usr/local/etc", "/usr/src", "/usr/lib/sysimage",
	"/etc/ssl/certs/ssl-cert-snakeoil.pem", "/etc/pki/tls/certs/localhost.crt"}

// MaskedFiles and MaskedFolders are hidden in /proc, since they describe the host or affect it: the container runtimes'
// list; the kernel's command line, configuration, build and boot; the activity of the host's disks, memory and control
// groups; and file locks, from which sandboxes could learn others' host ids. The kernel itself hides what only the
// host's root may read (mode 0400).
var (
	MaskedFiles = []string{"bootconfig", "buddyinfo", "cgroups", "cmdline", "config.gz", "diskstats", "interrupts",
		"kallsyms", "kcore", "key-users", "keys", "latency_stats", "locks", "mdstat", "modules", "partitions",
		"sched_debug", "softirqs", "swaps", "sys/kernel/random/boot_id", "timer_list",
		"timer_stats", "version", "vmstat", "zoneinfo"}
	MaskedFolders = []string{"acpi", "asound", "bus", "driver", "fs", "irq", "pressure", "scsi"}
)

// EmptyFile is an empty, read-only file of every root, used to cover files. The null device could be opened for
// writing.
const EmptyFile = "etc/motd"

// Hidden returns the steps that cover the existing HiddenPlaces, in a root of the host's own folders, after Places.
func Hidden() []confine.Step {
	var steps []confine.Step
	for _, place := range HiddenPlaces {
		info, err := nolink.Stat(place) // a link would lead out of the sandbox's root, or to another part of it
		if err != nil {
			continue
		}
		s := confine.Step{Do: confine.Mask, Target: place[1:], Source: EmptyFile}
		if info.IsDir() {
			s.Source = EmptyDir
		}
		steps = append(steps, s)
	}
	return steps
}
