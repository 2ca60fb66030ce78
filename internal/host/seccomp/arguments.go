//go:build linux

package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// byArgument are the calls that are allowed except with certain arguments.
func byArgument(o Options) map[int][]Rule {
	deviceNode := []uint32{unix.S_IFCHR, unix.S_IFBLK}
	rules := map[int][]Rule{
		// No netlink: no control group counts unread answers in its sockets, 8 MiB each. The C library resolves names
		// without it; only lists of interfaces are unavailable.
		unix.SYS_SOCKET:     sockets(unix.AF_UNIX, unix.AF_INET, unix.AF_INET6),
		unix.SYS_SOCKETPAIR: sockets(unix.AF_UNIX),
		unix.SYS_SETSOCKOPT: socketOptions(),
		unix.SYS_SENDTO:     noMore(3, unix.MSG_MORE),
		unix.SYS_SENDMSG:    noMore(2, unix.MSG_MORE),
		unix.SYS_SENDMMSG:   noMore(3, unix.MSG_MORE),
		unix.SYS_CLONE: {{Arg: 0, Mask: cloneNamespaces, Op: AnyBit, Answer: eperm},
			// Only threads may share descriptors: otherwise locks would outlive the process that took them, by which
			// they are counted.
			{Arg: 0, Mask: unix.CLONE_FILES | unix.CLONE_THREAD, Op: In, Values: []uint32{unix.CLONE_FILES},
				Answer: eperm}},
		unix.SYS_IOCTL: {{Arg: 1, Mask: anyBits, Op: In, Answer: eperm, Values: slices.Concat(fileSystemNumbers,
			[]uint32{
				unix.TIOCSTI,                     // types into other programs' terminals (CVE-2017-5226)
				0x541c,                           // TIOCLINUX, the same by the console's selection
				unix.TIOCSETD,                    // loads line disciplines (CVE-2017-2636)
				unix.TIOCCONS,                    // takes the console's output
				unix.FS_IOC_SETFLAGS, 0x401c5820, // FS_IOC_FSSETXATTR: immutable files cannot be cleaned up
				0x9408, 0x80089418, 0x40089416, // BTRFS_IOC_SYNC, BTRFS_IOC_START_SYNC, BTRFS_IOC_WAIT_SYNC: as syncfs
				// These load the kernel's modules for bridges, frame relay and VLANs before they check the caller
				// (net/socket.c): SIOC{G,S}IFBR, SIOC{ADD,DEL}DLCI, SIOC{G,S}IFVLAN, SIOCBR{ADD,DEL}{BR,IF}.
				0x8940, 0x8941, 0x8980, 0x8981, 0x8982, 0x8983, 0x89a0, 0x89a1, 0x89a2, 0x89a3,
				// SIOCGSTAMP, SIOCGSTAMPNS, old and new: the first on a socket enables time stamps, like the option
				// SO_TIMESTAMP.
				0x8906, 0x8907, 0x80108906, 0x80108907,
			})}},
		// /proc/locks, by which locks are counted, does not attribute open file description locks. A lease on a host
		// file delays its openers by up to fs.lease-break-time; F_NOTIFY is the older watch. Answered as by file
		// systems without them.
		unix.SYS_FCNTL: {{Arg: 1, Mask: anyBits, Op: In, Answer: einval, Values: []uint32{
			unix.F_SETLEASE, unix.F_NOTIFY, unix.F_OFD_GETLK, unix.F_OFD_SETLK, unix.F_OFD_SETLKW}}},
		// POSIX_FADV_DONTNEED drops everyone's cache of a file, even a read-only one.
		unix.SYS_FADVISE64: {{Arg: 3, Mask: anyBits, Op: In, Answer: Skip, Values: []uint32{unix.FADV_DONTNEED}}},
		// Huge pages are a host-wide pool and not counted as memory.
		unix.SYS_MMAP:         {{Arg: 3, Mask: unix.MAP_HUGETLB, Op: AnyBit, Answer: enomem}},
		unix.SYS_MEMFD_CREATE: {{Arg: 1, Mask: unix.MFD_HUGETLB, Op: AnyBit, Answer: enomem}},
		unix.SYS_SHMGET:       {{Arg: 2, Mask: 0o4000 /* SHM_HUGETLB */, Op: AnyBit, Answer: enomem}},
		// Merged pages (KSM) reveal by a write's timing what others hold, and nothing counts their lists.
		unix.SYS_MADVISE: {{Arg: 2, Mask: anyBits, Op: In, Answer: einval, Values: []uint32{unix.MADV_MERGEABLE}}},
		unix.SYS_PRCTL:   prctlOptions(o),
		// READ_IMPLIES_EXEC and ADDR_NO_RANDOMIZE weaken a program against itself and its children.
		unix.SYS_PERSONALITY: {{Arg: 0, Mask: anyBits, Op: NotIn, Answer: eperm,
			Values: []uint32{0, 8, 0x20000, 0x20008, anyBits}}},
		unix.SYS_MKNODAT: {{Arg: 2, Mask: unix.S_IFMT, Op: In, Values: deviceNode, Answer: eperm}},
		unix.SYS_SECCOMP: {{Arg: 0, Mask: anyBits, Op: In, Answer: einval,
			Values: []uint32{unix.SECCOMP_SET_MODE_FILTER}}},
	}
	if o.NestedFilters {
		rules[unix.SYS_SECCOMP] = nil
	}
	if !o.HostWritable {
		rules[unix.SYS_MSYNC] = []Rule{{Arg: 2, Mask: unix.MS_SYNC, Op: AnyBit, Answer: Skip}} // like the flushes
	}
	for nr, r := range byArgumentHere(deviceNode) {
		rules[nr] = r
	}
	return rules
}

// fileSystemNumbers are the requests that reveal a file system's UUID, name or disk, which identify a host. The sizes
// in them are those of the kernel's structures (linux/fs.h, btrfs.h, fs/xfs/libxfs/xfs_fs.h, fs/ext4/ext4.h).
var fileSystemNumbers = []uint32{
	0x80111500, 0x80811501, 0x81009431, // FS_IOC_GETFSUUID, FS_IOC_GETFSSYSFSPATH (both Linux 6.9), FS_IOC_GETFSLABEL
	0x8008662c,                         // EXT4_IOC_GETFSUUID
	0x8100587e, 0x8070587c, 0x80705864, // XFS_IOC_FSGEOMETRY, and its versions 4 and 1
	0x8400941f, 0xd000941e, 0x81f8943c, // BTRFS_IOC_FS_INFO, BTRFS_IOC_DEV_INFO, BTRFS_IOC_GET_SUBVOL_INFO
	0x80e8662d, 0x40106614, // EXT4_IOC_GET_TUNE_SB_PARAM (Linux 6.18), FS_IOC_GET_ENCRYPTION_PWSALT
	// FS_IOC_GETFSMAP, FS_IOC_FIEMAP, EXT4_IOC_GET_ES_CACHE: the positions of data on the disk
	0xc0c0583b, 0xc020660b, 0xc020662a,
	0xc0205826, 0xc0305838, 0x80205871, // XFS_IOC_GETBMAP, XFS_IOC_GETBMAPX, XFS_IOC_FSCOUNTS
}

// sockets are the rules of the calls that make sockets. A kind that a family lacks is refused here, as the kernel would
// first look for a module, through a host program that root runs (inet_create in net/ipv4/af_inet.c).
func sockets(families ...uint32) []Rule {
	const kind = 0xf // mask without SOCK_NONBLOCK and SOCK_CLOEXEC
	stream, datagram := []uint32{unix.SOCK_STREAM}, []uint32{unix.SOCK_DGRAM}
	rules := []Rule{
		{Arg: 0, Mask: anyBits, Op: NotIn, Answer: eafnosupport, Values: families},
		// Protocol 0 is every family's default, and AF_UNIX accepts its own number too. Besides these only TCP and UDP:
		// no raw or ping sockets, and no rarely reviewed transports (SCTP, DCCP, MPTCP).
		{Arg: 2, Mask: anyBits, Op: NotIn, Answer: eproto, Values: []uint32{0, unix.AF_UNIX, unix.IPPROTO_TCP,
			unix.IPPROTO_UDP}},
		{Arg: 1, Mask: kind, Op: NotIn, Answer: eperm, Values: []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM,
			unix.SOCK_SEQPACKET}},
	}
	for _, family := range families {
		if family != unix.AF_UNIX {
			rules = append(rules,
				Rule{Arg: 1, Mask: kind, Op: In, Answer: eproto, Values: []uint32{unix.SOCK_SEQPACKET},
					When: &Guard{Arg: 0, Value: family}},
				// AF_UNIX's number
				Rule{Arg: 2, Mask: anyBits, Op: In, Answer: eproto, Values: []uint32{unix.IPPROTO_ICMP},
					When: &Guard{Arg: 0, Value: family}})
		}
	}
	if len(families) == 1 {
		return rules
	}
	return append(rules,
		Rule{Arg: 1, Mask: kind, Op: NotIn, Answer: eproto, Values: stream, When: &Guard{Arg: 2,
			Value: unix.IPPROTO_TCP}},
		Rule{Arg: 1, Mask: kind, Op: NotIn, Answer: eproto, Values: datagram,
			When: &Guard{Arg: 2, Value: unix.IPPROTO_UDP}})
}

// options are the socket options that programs may set, by level. Missing are those that
//   - hold memory that nothing counts: multicast groups, TCP keys, flow labels, which are few for the whole host, saved
//     headers, zero copy, corked datagrams, and a socket's error queue (RECVERR, time stamps of sent data);
//   - patch the running kernel's code by an interrupt of every CPU, some until the next boot (static keys: time stamps,
//     UDP_GRO, IP_MINTTL, TCP_TX_DELAY);
//   - reach rarely reviewed kernel code: filters, encapsulation, protocols above TCP.
var options = []struct {
	level  uint32
	values []uint32
}{
	// A compiled filter takes memory of which the whole host has half a gigabyte (net.core.bpf_jit_limit); without it,
	// no sandbox gets a system call filter.
	{unix.SOL_SOCKET, []uint32{unix.SO_DEBUG, unix.SO_REUSEADDR, unix.SO_DONTROUTE, unix.SO_BROADCAST, unix.SO_SNDBUF,
		unix.SO_KEEPALIVE, unix.SO_OOBINLINE, unix.SO_PRIORITY, unix.SO_LINGER, unix.SO_REUSEPORT, unix.SO_PASSCRED,
		unix.SO_RCVLOWAT, unix.SO_SNDLOWAT, unix.SO_RCVTIMEO, unix.SO_SNDTIMEO, unix.SO_BINDTODEVICE, unix.SO_PASSSEC,
		unix.SO_RXQ_OVFL, unix.SO_PEEK_OFF, unix.SO_INCOMING_CPU, unix.SO_MAX_PACING_RATE,
		unix.SO_RCVTIMEO_NEW, unix.SO_SNDTIMEO_NEW, unix.SO_PASSPIDFD}},
	{unix.IPPROTO_IP, []uint32{unix.IP_TOS, unix.IP_TTL, unix.IP_PKTINFO, unix.IP_MTU_DISCOVER, unix.IP_RECVTTL,
		unix.IP_RECVTOS, unix.IP_FREEBIND, unix.IP_RECVORIGDSTADDR, unix.IP_BIND_ADDRESS_NO_PORT, unix.IP_MULTICAST_IF,
		unix.IP_MULTICAST_TTL,
		unix.IP_MULTICAST_LOOP, unix.IP_MULTICAST_ALL, unix.IP_UNICAST_IF}},
	{unix.IPPROTO_IPV6, []uint32{unix.IPV6_V6ONLY, unix.IPV6_UNICAST_HOPS, unix.IPV6_MULTICAST_IF,
		unix.IPV6_MULTICAST_HOPS, unix.IPV6_MULTICAST_LOOP,
		unix.IPV6_MULTICAST_ALL, unix.IPV6_MTU_DISCOVER, unix.IPV6_MTU, unix.IPV6_RECVPKTINFO, unix.IPV6_RECVHOPLIMIT,
		unix.IPV6_RECVTCLASS, unix.IPV6_TCLASS, unix.IPV6_DONTFRAG, unix.IPV6_AUTOFLOWLABEL, unix.IPV6_ADDR_PREFERENCES,
		unix.IPV6_RECVORIGDSTADDR, unix.IPV6_FREEBIND, unix.IPV6_UNICAST_IF}},
	{unix.IPPROTO_TCP, []uint32{unix.TCP_NODELAY, unix.TCP_MAXSEG, unix.TCP_CORK, unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL,
		unix.TCP_KEEPCNT, unix.TCP_SYNCNT, unix.TCP_LINGER2, unix.TCP_DEFER_ACCEPT, unix.TCP_WINDOW_CLAMP,
		unix.TCP_QUICKACK, unix.TCP_CONGESTION, unix.TCP_THIN_LINEAR_TIMEOUTS, unix.TCP_THIN_DUPACK,
		unix.TCP_USER_TIMEOUT, unix.TCP_FASTOPEN, unix.TCP_TIMESTAMP,
		unix.TCP_NOTSENT_LOWAT, unix.TCP_FASTOPEN_CONNECT, unix.TCP_INQ}},
	{unix.IPPROTO_UDP, []uint32{unix.UDP_SEGMENT}},
}

// noMore refuses to hold a datagram back for more data, 64 KiB per socket that nothing counts. TCP, whose queues count,
// works without it: there it only fills packets.
func noMore(arg int, flag uint32) []Rule {
	return []Rule{{Arg: arg, Mask: flag, Op: AnyBit, Answer: eopnotsupp}}
}

func socketOptions() []Rule {
	levels := Rule{Arg: 1, Mask: anyBits, Op: NotIn, Answer: enoprotoopt}
	rules := []Rule{{}}
	// glibc resolves no name if it cannot request ICMP errors (res_send.c); without them it waits for its time-out.
	// A buffer size is only a hint, which the kernel also cuts; it would bound a socket's error queue too.
	for _, o := range [][2]uint32{{unix.IPPROTO_IP, unix.IP_RECVERR}, {unix.IPPROTO_IPV6, unix.IPV6_RECVERR},
		{unix.SOL_SOCKET, unix.SO_RCVBUF}} {
		rules = append(rules, Rule{Arg: 2, Mask: anyBits, Op: In, Answer: Skip, Values: o[1:],
			When: &Guard{Arg: 1, Value: o[0]}})
	}
	for _, o := range options {
		levels.Values = append(levels.Values, o.level)
		rules = append(rules, Rule{Arg: 2, Mask: anyBits, Op: NotIn, Answer: enoprotoopt, Values: o.values,
			When: &Guard{Arg: 1, Value: o.level}})
	}
	rules[0] = levels
	return rules
}

// prctlOptions are the rules of prctl(2). The allowed options change only the process or its children, and hold no
// memory. Missing are names of memory areas, which nothing counts; PR_SCHED_CORE, by which one program takes a core's
// other half from all others; and PR_SET_MM. The rest is answered as by a kernel that does not know it.
func prctlOptions(o Options) []Rule {
	rules := []Rule{{Arg: 0, Mask: anyBits, Op: NotIn, Answer: einval, Values: []uint32{
		unix.PR_SET_PDEATHSIG, unix.PR_GET_PDEATHSIG, unix.PR_GET_DUMPABLE, unix.PR_SET_DUMPABLE, unix.PR_GET_UNALIGN,
		unix.PR_SET_UNALIGN, unix.PR_GET_KEEPCAPS, unix.PR_SET_KEEPCAPS, unix.PR_GET_TIMING, unix.PR_SET_TIMING,
		unix.PR_SET_NAME, unix.PR_GET_NAME, unix.PR_GET_SECCOMP, unix.PR_SET_SECCOMP, unix.PR_CAPBSET_READ,
		unix.PR_CAPBSET_DROP, unix.PR_GET_TSC, unix.PR_SET_TSC, unix.PR_GET_SECUREBITS, unix.PR_SET_SECUREBITS,
		unix.PR_SET_TIMERSLACK, unix.PR_GET_TIMERSLACK, unix.PR_MCE_KILL, unix.PR_MCE_KILL_GET,
		unix.PR_SET_CHILD_SUBREAPER, unix.PR_GET_CHILD_SUBREAPER, unix.PR_SET_NO_NEW_PRIVS, unix.PR_GET_NO_NEW_PRIVS,
		unix.PR_GET_TID_ADDRESS, unix.PR_SET_THP_DISABLE, unix.PR_GET_THP_DISABLE, unix.PR_CAP_AMBIENT,
		unix.PR_SVE_SET_VL, unix.PR_SVE_GET_VL, unix.PR_GET_SPECULATION_CTRL, unix.PR_SET_SPECULATION_CTRL,
		unix.PR_PAC_RESET_KEYS, unix.PR_SET_TAGGED_ADDR_CTRL, unix.PR_GET_TAGGED_ADDR_CTRL,
		unix.PR_SET_SYSCALL_USER_DISPATCH, unix.PR_PAC_SET_ENABLED_KEYS, unix.PR_PAC_GET_ENABLED_KEYS,
		unix.PR_SME_SET_VL, unix.PR_SME_GET_VL, unix.PR_SET_MDWE, unix.PR_GET_MDWE, unix.PR_GET_AUXV,
		unix.PR_SET_PTRACER}}}
	if !o.NestedFilters {
		rules = append(rules, Rule{Arg: 1, Mask: anyBits, Op: In, Answer: einval,
			Values: []uint32{unix.SECCOMP_MODE_FILTER},
			When:   &Guard{Arg: 0, Value: unix.PR_SET_SECCOMP}})
	}
	return rules
}
