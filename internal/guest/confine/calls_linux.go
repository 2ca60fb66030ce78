package confine

import (
	"encoding/binary"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is one system call of a wall. The walls that the code's processes stand behind are lists of them, because two kinds of process
// raise them: the guest's spawner, whose children inherit them, and a fork of a warm interpreter (see Entry), which nothing of ours
// runs in. Both get the same list, so neither can be weaker than the other.
type Call struct {
	Number uintptr
	Args   []Arg
	Keep   bool          // the result is what Kept arguments of later calls stand for
	Pass   syscall.Errno // a failure that is none: then the next Skip calls are left out
	Skip   int
}

// Arg is an argument of a call: a number, a pointer to Data, or the result that was kept.
type Arg struct {
	Value uintptr
	Data  []byte
	Inner []byte // what the pointer in the last word of Data points to
	Kept  bool
}

// pointer is how long an address is. Both processors that this is built for have such ones, in little-endian order.
const pointer = 8

// kept is the result of the last call that said Keep.
var kept = Arg{Kept: true}

// call makes a Call out of numbers, byte slices and Args.
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

// bytesOf is the memory of a structure that the kernel reads.
func bytesOf[T any](v *T) []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))...)
}

func cstring(s string) []byte { return append([]byte(s), 0) }

// carryOut makes the calls on the calling thread.
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

// codeWalls are what the code's processes stand behind beside the filter, which the whole guest shares: Landlock; a control group
// namespace, a session keyring, an empty bounding set, and securebits that no set-id program can use.
func (p *Plan) codeWalls() (ruleset, rest []Call) {
	rest = credentialCalls()
	if p.Listen != "" {
		// In a container, whose kernel may be gVisor's: that has no securebits, and its root no capabilities but those of its bounding set.
		rest[len(rest)-1].Pass = unix.EINVAL
	} else {
		// A cgroup namespace has its root where its maker was. The guest was spawned in its server's group on v1, so the code gets a
		// namespace that is made now, and sees "/" rather than names of the host. A container has one of its own.
		rest = append([]Call{call(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP)}, rest...)
	}
	return p.Landlock.calls(), rest
}

// credentialCalls end with securebits.
func credentialCalls() []Call {
	calls := []Call{
		// No name: an anonymous keyring that nobody else can join.
		{Number: unix.SYS_KEYCTL, Args: []Arg{{Value: unix.KEYCTL_JOIN_SESSION_KEYRING}, {}}, Pass: unix.ENOSYS},
	}
	calls = append(calls, boundCalls()...)
	// SECBIT_NO_SETUID_FIXUP must stay clear: it is by that fix-up that the capabilities go when a child becomes the code's user.
	const bits = secNoroot | secNorootLocked | secNoSetuidFixupLocked | secKeepCapsLocked | secNoAmbient | secNoAmbientLocked
	return append(calls, call(unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, bits, 0, 0, 0))
}

// boundCalls take all capabilities but those to keep from what the caller and its children may ever have.
func boundCalls(keep ...int) []Call {
	// Every capability that this version of Linux knows, and those that a later one may add: EINVAL says that there are no more.
	const most = 63
	var calls []Call
	for c := range most + 1 {
		drop := call(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if c > unix.CAP_AUDIT_READ { // Linux 3.16; the oldest kernel we work on knows all up to it
			drop.Pass, drop.Skip = unix.EINVAL, most-c
		}
		if !slices.Contains(keep, c) {
			calls = append(calls, drop)
		}
	}
	return calls
}

// Bits of linux/securebits.h.
const (
	secNoroot              = 1 << 0
	secNorootLocked        = 1 << 1
	secNoSetuidFixupLocked = 1 << 3
	secKeepCapsLocked      = 1 << 5
	secNoAmbient           = 1 << 6
	secNoAmbientLocked     = 1 << 7
)
