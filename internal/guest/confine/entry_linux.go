package confine

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// EntryNamespaces are the sandbox's namespaces that a zygote's fork joins after its user namespace. The pid namespace
// is missing, as a process never changes its own: the zygote joins it for its children, and the fork is spawned in it.
const EntryNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
	unix.CLONE_NEWCGROUP

// Entry returns the calls of a zygote's fork in the namespaces of p's sandbox, in order. Afterwards the fork equals a
// process that the guest has started there.
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
		// Its old id was not root of this namespace, so the change of id has not dropped its capabilities.
		call(unix.SYS_CAPSET, bytesOf(&header), bytesOf(&none)),
		// As exec does if ids are equal; changing ids has cleared it. Without it, a process may not read its own
		// descriptors in /proc.
		call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0),
		call(unix.SYS_CHDIR, cstring(dir)),
		call(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		call(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, program(p.Seccomp), 0, 0))
}

func limitCall(l Rlimit) Call {
	limit := unix.Rlimit{Cur: l.Soft, Max: l.Hard}
	return call(unix.SYS_PRLIMIT64, 0, int(l.Resource), bytesOf(&limit), 0)
}

// program is struct sock_fprog: the number of instructions, and a pointer to them.
func program(filter []byte) Arg {
	const instruction = 8
	data := make([]byte, 2*pointer)
	binary.LittleEndian.PutUint16(data, uint16(len(filter)/instruction))
	return Arg{Data: data, Inner: filter}
}

// AppendCalls encodes calls for a zygote's fork, all numbers little-endian: three uint32, the numbers of calls, of
// pointers within the data, and of data bytes; each call as eight int64; each pointer as two uint32, its position and
// its target, both offsets in the data; the data.
//
// A call's eight numbers are its number, its six arguments, and a word of bits: 0 to 5 mark arguments that are offsets
// in the data, 6 to 11 those that are the kept result, 12 says to keep the result, 16 to 31 are the error to ignore,
// and 32 to 47 the number of calls to skip then.
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
