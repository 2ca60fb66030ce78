package rootfs

import (
	"github.com/glovebox-dev/glovebox/internal/guest/confine"
	"github.com/glovebox-dev/glovebox/internal/nolink"
)

// HiddenPlaces are what the shown folders of the host hold that tells of it and that programs do without: the settings of what an
// administrator installed (npm keeps tokens for registries in etc/npmrc), the sources of the host's kernel, the locks of its package manager,
// and the certificates that Debian and Red Hat make for a host's own name.
var HiddenPlaces = []string{"/usr/etc", "/usr/local/etc", "/usr/src", "/usr/lib/sysimage",
	"/etc/ssl/certs/ssl-cert-snakeoil.pem", "/etc/pki/tls/certs/localhost.crt"}

// MaskedFiles and MaskedFolders are hidden in /proc, as it tells there of the host or reaches into it: the list of the container runtimes; the
// kernel's command line, configuration, build and boot; what the host's disks, memory and control groups do; and the locks on its files, by
// which sandboxes could tell the host ids of others. What only the host's root may read (mode 0400) the kernel hides itself from who is not.
var (
	MaskedFiles = []string{"bootconfig", "buddyinfo", "cgroups", "cmdline", "config.gz", "diskstats", "interrupts", "kallsyms", "kcore", "key-users", "keys",
		"latency_stats", "locks", "mdstat", "modules", "partitions", "sched_debug", "softirqs", "swaps", "sys/kernel/random/boot_id", "timer_list",
		"timer_stats", "version", "vmstat", "zoneinfo"}
	MaskedFolders = []string{"acpi", "asound", "bus", "driver", "fs", "irq", "pressure", "scsi"}
)

// EmptyFile is a file of every root that is empty and read-only, and so covers files. The null device could be opened for writing.
const EmptyFile = "etc/resolv.conf"

// Hidden are the steps that cover those of HiddenPlaces that are there now, in a root of the host's own folders. They come after Places.
func Hidden() []confine.Step {
	var steps []confine.Step
	for _, place := range HiddenPlaces {
		info, err := nolink.Stat(place) // where a link is on the way, it leads out of the sandbox's root, or to another part of it
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
