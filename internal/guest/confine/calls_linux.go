package confine

import (
	"encoding/binary"
	"path"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is one system call. A list of calls confines the code's processes, because two kinds of process execute it: the
// guest's spawner, whose children inherit the confinement, and a fork of a warm interpreter (see Entry), which runs no
// code of ours. Both have the same list, so neither is weaker.
type Call struct {
	Number uintptr
	Args   []Arg
	Keep   bool          // the result replaces Kept arguments of later calls
	Pass   syscall.Errno // an error to ignore; the next Skip calls are then skipped
	Skip   int
}

// Arg is an argument of a call: a number, a pointer to Data, or the kept result.
type Arg struct {
	Value uintptr
	Data  []byte
	Inner []byte // target of the pointer in the last word of Data
	Kept  bool
}

// pointer is the size of an address, on both supported processors, which are little-endian.
const pointer = 8

// kept is the result of the last call with Keep.
var kept = Arg{Kept: true}

// call makes a Call from numbers, byte slices and Args.
func call(number uintptr, args ...any) Call {
	c := Call{Number: number}
	for _, a := range args {
		switch a := a.(type) {
		case Arg:
			c.Args = append(c.Args, a)
		case int:
			c.Args = append(c.Args, Arg{Value: uintptr(a)})
		case uintptr:
			c.Args = append(c.Args, Arg{Value: a})
		case []byte:
			c.Args = append(c.Args, Arg{Data: a})
		}
	}
	return c
}

// bytesOf is the memory of a structure for the kernel.
func bytesOf[T any](v *T) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))...)
}

func cstring(s string) []byte { return append([]byte(s), 0) }

// carryOut executes the calls on the calling thread.
func carryOut(calls []Call) error {
	var result uintptr
	for i := 0; i < len(calls); i++ {
		c := &calls[i]
		var a [6]uintptr
		for n, arg := range c.Args {
			switch {
			case arg.Kept:
				a[n] = result
			case arg.Data != nil:
				if arg.Inner != nil {
					at := len(arg.Data) - pointer
					binary.LittleEndian.PutUint64(arg.Data[at:], uint64(uintptr(unsafe.Pointer(&arg.Inner[0]))))
				}
				a[n] = uintptr(unsafe.Pointer(&arg.Data[0]))
			default:
				a[n] = arg.Value
			}
		}
		r, _, errno := syscall.RawSyscall6(c.Number, a[0], a[1], a[2], a[3], a[4], a[5])
		runtime.KeepAlive(c)
		switch {
		case errno == 0:
		case errno == c.Pass:
			i += c.Skip
		default:
			return errno
		}
		if c.Keep {
			result = r
		}
	}
	return nil
}

// codeWalls returns the calls that confine the code's processes, in addition to the filter, which the whole guest
// shares: Landlock, a control group namespace, a session keyring, an empty bounding set, and securebits that make
// set-id programs harmless.
func (p *Plan) codeWalls() (ruleset, rest []Call) {
	rest = credentialCalls(p.Builder)
	if p.Listen != "" {
		// In a container the kernel may be gVisor's: it has no securebits, and its root has only the capabilities of
		// its bounding set.
		rest[len(rest)-1].Pass = unix.EINVAL
		if p.Builder {
			rest = append(p.hideSocket(), rest...)
		}
	} else {
		// A cgroup namespace's root is its maker's group. On v1 the guest was spawned in its server's group, so the
		// code gets a new namespace, which shows "/" instead of the host's names. A container has its own.
		rest = append([]Call{call(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP)}, rest...)
	}
	return p.Landlock.calls(), rest
}

// hideSocket returns the calls that give the code's processes a mount namespace without the folder of the guest's
// socket: it is the host's, and root inside could fill it.
func (p *Plan) hideSocket() []Call {
	return []Call{call(unix.SYS_UNSHARE, unix.CLONE_NEWNS|unix.CLONE_FS),
		call(unix.SYS_MOUNT, cstring("none"), cstring("/"), cstring(""), unix.MS_REC|unix.MS_PRIVATE, 0),
		call(unix.SYS_UMOUNT2, cstring(path.Dir(p.Listen)), unix.MNT_DETACH)}
}

func credentialCalls(builder bool) []Call {
	calls := []Call{
		// No name: an anonymous keyring that nobody else can join.
		{Number: unix.SYS_KEYCTL, Args: []Arg{{Value: unix.KEYCTL_JOIN_SESSION_KEYRING}, {}}, Pass: unix.ENOSYS},
	}
	if builder { // root, bounded: executing a program keeps its capabilities within the bounding set
		return append(calls, boundCalls(unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_SETUID,
			unix.CAP_SETGID, unix.CAP_KILL)...)
	}
	calls = append(calls, boundCalls()...)
	// SECBIT_NO_SETUID_FIXUP must stay clear: that fix-up drops the capabilities when a child becomes the code's user.
	const bits = secNoroot | secNorootLocked | secNoSetuidFixupLocked | secKeepCapsLocked | secNoAmbient |
		secNoAmbientLocked
	return append(calls, call(unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, bits, 0, 0, 0))
}

// boundCalls drop all capabilities except keep from the bounding set of the caller and its children.
func boundCalls(keep ...int) []Call {
	// Every capability of this and later versions of Linux; EINVAL marks the end.
	const most = 63
	var calls []Call
	for c := range most + 1 {
		drop := call(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if c > unix.CAP_AUDIT_READ { // Linux 3.16; every supported kernel knows all up to it
			drop.Pass, drop.Skip = unix.EINVAL, most-c
		}
		if !slices.Contains(keep, c) {
			calls = append(calls, drop)
		}
	}
	return calls
}

const (
	secNoroot              = 1 << 0
	secNorootLocked        = 1 << 1
	secNoSetuidFixupLocked = 1 << 3
	secKeepCapsLocked      = 1 << 5
	secNoAmbient           = 1 << 6
	secNoAmbientLocked     = 1 << 7
)
