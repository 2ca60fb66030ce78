//go:build linux

package seccomp

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

var variants = map[string]Options{
	"plain":         {},
	"host-writable": {HostWritable: true},
	"no-new":        {NoNewPrograms: true},
	"both":          {HostWritable: true, NoNewPrograms: true},
	"nested":        {NestedFilters: true},
}

// machine runs a program on one call's data, like the kernel, and counts the executed instructions.
type machine struct {
	program []unix.SockFilter
	reached []bool
}

func newMachine(code []byte) *machine {
	m := &machine{program: make([]unix.SockFilter, len(code)/8), reached: make([]bool, len(code)/8)}
	for i := range m.program {
		c := code[i*8:]
		m.program[i] = unix.SockFilter{Code: binary.NativeEndian.Uint16(c), Jt: c[2], Jf: c[3],
			K: binary.NativeEndian.Uint32(c[4:])}
	}
	return m
}

func (m *machine) run(t testing.TB, arch uint32, nr int, args [6]uint64) uint32 {
	var data [64]byte
	binary.LittleEndian.PutUint32(data[offsetNr:], uint32(nr))
	binary.LittleEndian.PutUint32(data[offsetArch:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[offsetArgs+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc < len(m.program); pc++ {
		m.reached[pc] = true
		f := m.program[pc]
		jump := func(cond bool) {
			if cond {
				pc += int(f.Jt)
			} else {
				pc += int(f.Jf)
			}
		}
		switch f.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.LittleEndian.Uint32(data[f.K:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= f.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(acc == f.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(acc >= f.K)
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(f.K)
		case unix.BPF_RET | unix.BPF_K:
			return f.K
		default:
			t.Fatalf("instruction %d: unknown code %#x", pc, f.Code)
		}
	}
	t.Fatalf("nr %d ran off the end", nr)
	return 0
}

// TestCompiledEqualsPolicy checks every system call number and the edges of every argument rule against the policy's
// tables. It finds wrongly compiled rules and wrong jumps.
func TestCompiledEqualsPolicy(t *testing.T) {
	for name, o := range variants {
		t.Run(name, func(t *testing.T) {
			p := New(o)
			m := newMachine(p.Compile())
			for nr := 0; nr < p.Newest+50; nr++ {
				for _, args := range p.Edges(nr) {
					if got, want := m.run(t, auditArch, nr, args), p.Answer(nr, args).ret(); got != want {
						t.Fatalf("call %d %x: program answers %#x, policy %#x", nr, args, got, want)
					}
				}
			}
			random := rand.New(rand.NewPCG(1, 2))
			for range 200_000 {
				nr := random.IntN(p.Newest + 10)
				var args [6]uint64
				for i := range args {
					args[i] = random.Uint64() >> random.IntN(64)
				}
				if got, want := m.run(t, auditArch, nr, args), p.Answer(nr, args).ret(); got != want {
					t.Fatalf("call %d %x: program answers %#x, policy %#x", nr, args, got, want)
				}
			}
			if got := m.run(t, auditArch^1, 0, [6]uint64{}); got != retKill {
				t.Errorf("a foreign architecture is answered %#x, not killed", got)
			}
			if x32Bit != 0 {
				if got := m.run(t, auditArch, x32Bit|unix.SYS_READ, [6]uint64{}); got != enosys.ret() {
					t.Errorf("an x32 number is answered %#x", got)
				}
			}
			for pc, reached := range m.reached {
				if !reached {
					t.Errorf("instruction %d is never reached", pc)
				}
			}
			if len(m.program) > unix.BPF_MAXINSNS {
				t.Errorf("%d instructions; the kernel takes %d", len(m.program), unix.BPF_MAXINSNS)
			}
			t.Logf("%d instructions", len(m.program))
		})
	}
}

// TestRefused names calls that must never be allowed, to catch slips in the long list of allowed ones.
func TestRefused(t *testing.T) {
	refused := []int{
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
		unix.SYS_MOUNT_SETATTR, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_PTRACE,
		unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD,
		unix.SYS_KCMP,
		unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
		unix.SYS_CLOCK_ADJTIME,
		unix.SYS_ADJTIMEX, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
		unix.SYS_VHANGUP,
		unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES, unix.SYS_REMAP_FILE_PAGES, unix.SYS_CLONE3,
		unix.SYS_IO_URING_SETUP,
		unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_MEMFD_SECRET, unix.SYS_IO_SETUP,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_MBIND, unix.SYS_SET_MEMPOLICY,
		unix.SYS_SYNC,
		unix.SYS_SYNCFS, unix.SYS_SCHED_SETAFFINITY,
		unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_VMSPLICE, unix.SYS_TEE,
	}
	for name, o := range variants {
		p := New(o)
		for _, nr := range refused {
			if p.Answer(nr, [6]uint64{}) == Allow {
				t.Errorf("%s: call %d is allowed", name, nr)
			}
		}
		if (p.Answer(unix.SYS_LANDLOCK_RESTRICT_SELF, [6]uint64{}) == Allow) != o.NestedFilters ||
			(p.Answer(unix.SYS_SECCOMP, [6]uint64{unix.SECCOMP_SET_MODE_FILTER}) == Allow) != o.NestedFilters ||
			(p.Answer(unix.SYS_PRCTL, [6]uint64{unix.PR_SET_SECCOMP,
				unix.SECCOMP_MODE_FILTER}) == Allow) != o.NestedFilters {
			t.Errorf("%s: filters of the code's own", name)
		}
		if (p.Answer(unix.SYS_FSYNC, [6]uint64{}) == Allow) != o.HostWritable ||
			(p.Answer(unix.SYS_MSYNC, [6]uint64{0, 0, unix.MS_SYNC}) == Allow) != o.HostWritable {
			t.Errorf("%s: flushes of the host's files", name)
		}
		for args, call := range map[[6]uint64]int{
			{unix.AF_PACKET, unix.SOCK_RAW}:                      unix.SYS_SOCKET,
			{unix.AF_VSOCK, unix.SOCK_STREAM}:                    unix.SYS_SOCKET,
			{unix.AF_ALG, unix.SOCK_SEQPACKET}:                   unix.SYS_SOCKET,
			{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}: unix.SYS_SOCKET,
			{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}: unix.SYS_SOCKET,
			{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP}:      unix.SYS_SOCKET,
			{3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}:          unix.SYS_SETSOCKOPT,
			{3, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP}:         unix.SYS_SETSOCKOPT,
			{3, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP}:         unix.SYS_SETSOCKOPT,
			{3, unix.IPPROTO_TCP, unix.TCP_ULP}:                  unix.SYS_SETSOCKOPT,
			{3, unix.SOL_RAW, 1}:                                 unix.SYS_SETSOCKOPT,
			{unix.AF_INET, unix.SOCK_SEQPACKET}:                  unix.SYS_SOCKET,
			{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_TCP}:    unix.SYS_SOCKET,
			{unix.AF_INET, unix.SOCK_STREAM}:                     unix.SYS_SOCKETPAIR,
			{3, unix.F_SETLEASE}:                                 unix.SYS_FCNTL,
			{unix.PR_SCHED_CORE, 1}:                              unix.SYS_PRCTL,
			{unix.PR_SET_VMA}:                                    unix.SYS_PRCTL,
			{0, 0, unix.MADV_MERGEABLE}:                          unix.SYS_MADVISE,
			{0, 0, 0, unix.MAP_HUGETLB | unix.MAP_PRIVATE}:       unix.SYS_MMAP,
			{0, unix.MFD_HUGETLB}:                                unix.SYS_MEMFD_CREATE,
			{0, 0, 0o4000}:                                       unix.SYS_SHMGET,
			{3, 0x8940}:                                          unix.SYS_IOCTL,
			{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}:   unix.SYS_SOCKET,
			{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}:          unix.SYS_CLONE,
			{unix.CLONE_FILES | uint64(unix.SIGCHLD)}:            unix.SYS_CLONE,
			{0, 1<<32 | unix.TIOCSTI}:                            unix.SYS_IOCTL,
			{0, 0, unix.S_IFBLK | 0o600}:                         unix.SYS_MKNODAT,
			{0x0040000 /* ADDR_NO_RANDOMIZE */}:                  unix.SYS_PERSONALITY,
		} {
			if p.Answer(call, args) == Allow {
				t.Errorf("%s: call %d with %x is allowed", name, call, args)
			}
		}
	}
	for _, args := range [][6]uint64{{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP},
		{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP},
		{unix.AF_UNIX, unix.SOCK_STREAM, 0}, {unix.AF_UNIX, unix.SOCK_SEQPACKET, unix.AF_UNIX}} {
		if New(Options{}).Answer(unix.SYS_SOCKET, args) != Allow {
			t.Errorf("socket with %x is refused", args)
		}
	}
	if New(Options{HostWritable: true}).Answer(unix.SYS_FCHMODAT, [6]uint64{0, 0, 0o4755}) == Allow {
		t.Error("set-id bits can be given to files of the host")
	}
}
