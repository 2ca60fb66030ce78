package confine

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// EntryNamespaces are what a fork of a zygote joins of a sandbox after its user namespace. The pid namespace is not among them, as a
// process never changes its own: the zygote joins it for its children, and the fork is spawned in it.
const EntryNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// Entry is all that a fork of a zygote does to itself once it is in the namespaces of the sandbox of p, in its order: afterwards it is
// what a process is that the guest has started there.
func (p *Plan) Entry(dir string) []Call {
	ruleset, rest := p.codeWalls()
	calls := append([]Call{call(unix.SYS_SETSID)}, ruleset...)
	calls = append(calls, rest...)
	for _, l := range p.Limits {
		calls = append(calls, limitCall(l))
	}
	for _, l := range p.Payload {
		calls = append(calls, limitCall(l))
	}
	uid, gid := int(p.Code.UID), int(p.Code.GID)
	var none [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return append(calls,
		call(unix.SYS_SETGROUPS, 0, 0),
		call(unix.SYS_SETRESGID, gid, gid, gid),
		call(unix.SYS_SETRESUID, uid, uid, uid),
		// Its old id was no root of this namespace, so that the kernel has not taken its capabilities with the id.
		call(unix.SYS_CAPSET, bytesOf(&header), bytesOf(&none)),
		// What exec does where ids are one and the same, and what changing them has undone: without it, a process may not look at
		// its own descriptors in /proc.
		call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0),
		call(unix.SYS_CHDIR, cstring(dir)),
		call(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		call(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, program(p.Seccomp), 0, 0))
}

func limitCall(l Rlimit) Call {
	limit := unix.Rlimit{Cur: l.Soft, Max: l.Hard}
	return call(unix.SYS_PRLIMIT64, 0, int(l.Resource), bytesOf(&limit), 0)
}

// program is struct sock_fprog: how many instructions there are, and where.
func program(filter []byte) Arg {
	const instruction = 8
	data := make([]byte, 2*pointer)
	binary.LittleEndian.PutUint16(data, uint16(len(filter)/instruction))
	return Arg{Data: data, Inner: filter}
}

// AppendCalls appends calls in the form that a zygote's fork reads, all numbers in little-endian order: three uint32 that say how many
// calls there are, how many pointers within the data, and how many bytes of data; each call as eight int64; each pointer as two
// uint32, where it is and to what, both offsets in the data; the data.
//
// The eight numbers of a call are its number, its six arguments, and a word of bits: 0 to 5 say which arguments are offsets in the
// data, 6 to 11 which are the result that was kept, 12 that the result is to be kept, 16 to 31 are the error to pass over, and 32 to
// 47 how many calls are then left out.
func AppendCalls(b []byte, calls []Call) []byte {
	var table, pointers, data []byte
	place := func(d []byte) int {
		for len(data)%pointer != 0 {
			data = append(data, 0)
		}
		data = append(data, d...)
		return len(data) - len(d)
	}
	for _, c := range calls {
		meta := uint64(c.Pass)<<16 | uint64(c.Skip)<<32
		if c.Keep {
			meta |= 1 << 12
		}
		var args [6]uint64
		for i, a := range c.Args {
			switch {
			case a.Kept:
				meta |= 1 << (6 + i)
			case a.Data != nil:
				meta |= 1 << i
				args[i] = uint64(place(a.Data))
				if a.Inner != nil {
					where := int(args[i]) + len(a.Data) - pointer
					pointers = binary.LittleEndian.AppendUint32(pointers, uint32(where))
					pointers = binary.LittleEndian.AppendUint32(pointers, uint32(place(a.Inner)))
				}
			default:
				args[i] = uint64(a.Value)
			}
		}
		table = binary.LittleEndian.AppendUint64(table, uint64(c.Number))
		for _, a := range args {
			table = binary.LittleEndian.AppendUint64(table, a)
		}
		table = binary.LittleEndian.AppendUint64(table, meta)
	}
	for _, n := range []int{len(calls), len(pointers) / 8, len(data)} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	b = append(b, table...)
	b = append(b, pointers...)
	return append(b, data...)
}
