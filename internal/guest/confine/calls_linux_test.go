package confine

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// decoded is a call as a zygote's fork will make it: memory is an argument's target.
type decoded struct {
	number uint64
	args   [6]uint64
	memory [6][]byte // from there to the end of the data
	kept   [6]bool
	keep   bool
	pass   uint16
	skip   uint16
}

// decode reads the form that AppendCalls documents. Pointers within the data stay offsets, and are listed.
func decode(t *testing.T, b []byte) (calls []decoded, pointers map[uint32]uint32, data []byte) {
	t.Helper()
	next := func(n int) []byte {
		if len(b) < n {
			t.Fatalf("%d bytes are missing", n-len(b))
		}
		part := b[:n]
		b = b[n:]
		return part
	}
	number := func() int { return int(binary.LittleEndian.Uint32(next(4))) }
	count, links, size := number(), number(), number()
	table := next(64 * count)
	pointers = map[uint32]uint32{}
	for range links {
		pointers[binary.LittleEndian.Uint32(next(4))] = binary.LittleEndian.Uint32(next(4))
	}
	data = next(size)
	if len(b) != 0 {
		t.Errorf("%d bytes are too many", len(b))
	}
	for row := range slices.Chunk(table, 64) {
		var words [8]uint64
		for i := range words {
			words[i] = binary.LittleEndian.Uint64(row[8*i:])
		}
		c := decoded{number: words[0], keep: words[7]>>12&1 == 1, pass: uint16(words[7] >> 16),
			skip: uint16(words[7] >> 32)}
		for i := range c.args {
			c.args[i] = words[1+i]
			c.kept[i] = words[7]>>(6+i)&1 == 1
			if words[7]>>i&1 == 1 {
				c.memory[i] = data[c.args[i]:]
			}
		}
		calls = append(calls, c)
	}
	return calls, pointers, data
}

// compare checks that decoded calls equal the encoded ones.
func compare(t *testing.T, calls []Call) {
	t.Helper()
	prefix := []byte("before")
	b := AppendCalls(prefix, calls)
	if !bytes.HasPrefix(b, prefix) {
		t.Fatal("what was there is gone")
	}
	got, pointers, data := decode(t, b[len(prefix):])
	if len(got) != len(calls) {
		t.Fatalf("%d calls of %d", len(got), len(calls))
	}
	inner := 0
	for n, c := range calls {
		g := got[n]
		if g.number != uint64(c.Number) || g.keep != c.Keep || g.pass != uint16(c.Pass) || int(g.skip) != c.Skip {
			t.Errorf("call %d is %+v, of %+v", n, g, c)
		}
		for i := range 6 {
			var a Arg
			if i < len(c.Args) {
				a = c.Args[i]
			}
			switch {
			case a.Kept != g.kept[i], (a.Data != nil) != (g.memory[i] != nil):
				t.Errorf("call %d: argument %d is of another kind than %+v", n, i, a)
			case a.Data == nil && !a.Kept && g.args[i] != uint64(a.Value):
				t.Errorf("call %d: argument %d is %d, not %d", n, i, g.args[i], a.Value)
			case a.Inner != nil:
				inner++
				where := uint32(g.args[i]) + uint32(len(a.Data)) - 8
				to, linked := pointers[where]
				if !linked || !bytes.HasPrefix(data[to:], a.Inner) || !bytes.HasPrefix(g.memory[i],
					a.Data[:len(a.Data)-8]) {
					t.Errorf("call %d: argument %d does not point to what its last word is to point to", n, i)
				}
			case !bytes.HasPrefix(g.memory[i], a.Data):
				t.Errorf("call %d: argument %d points to other bytes", n, i)
			}
			if g.memory[i] != nil && g.args[i]%8 != 0 {
				t.Errorf("call %d: argument %d is at %d, where no structure may be", n, i, g.args[i])
			}
		}
	}
	if inner != len(pointers) {
		t.Errorf("%d pointers, of %d", len(pointers), inner)
	}
}

func TestAppendCalls(t *testing.T) {
	compare(t, nil)
	compare(t, []Call{{Number: ^uintptr(0)}})
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		calls := make([]Call, r.IntN(20))
		for n := range calls {
			calls[n] = Call{Number: uintptr(r.Uint64()), Keep: r.IntN(2) == 0, Pass: unix.Errno(r.IntN(1 << 16)),
				Skip: r.IntN(1 << 16)}
			for range r.IntN(7) {
				a := []Arg{{Value: uintptr(r.Uint64())}, {Kept: true}, {Data: noise(r, 1+r.IntN(40))},
					{Data: noise(r, 8+r.IntN(40)), Inner: noise(r, 1+r.IntN(300))}}[r.IntN(4)]
				calls[n].Args = append(calls[n].Args, a)
			}
		}
		compare(t, calls)
	}
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestEntry checks the order of a fork's calls: layers that need rights come before the rights are dropped, ids before
// capabilities, and the filter last, as it permits none of this.
func TestEntry(t *testing.T) {
	p := &Plan{Code: sandbox.User{UID: 1000, GID: 1001}, Landlock: Ruleset{Handled: 1},
		Seccomp: bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 5),
		Limits:  []Rlimit{{Resource: unix.RLIMIT_CORE}, {Resource: unix.RLIMIT_NOFILE, Soft: 4096, Hard: 4096}},
		Payload: []Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 64, Hard: 65}}}
	calls := p.Entry("/work dir")
	compare(t, calls)
	got, pointers, data := decode(t, AppendCalls(nil, calls))
	var order []uint64
	limits := map[uint64][]byte{}
	dropped := map[uint64]bool{}
	for _, c := range got {
		switch {
		case c.number == unix.SYS_PRCTL && c.args[0] == unix.PR_CAPBSET_DROP:
			dropped[c.args[1]] = true
			if c.args[1] <= unix.CAP_AUDIT_READ && c.pass != 0 {
				t.Errorf("capability %d may stay", c.args[1])
			}
		case c.number == unix.SYS_PRLIMIT64:
			limits[c.args[1]] = c.memory[2][:16]
		case c.number == unix.SYS_PRCTL:
			order = append(order, c.number, c.args[0])
		default:
			order = append(order, c.number)
		}
		if c.pass != 0 && (c.number != unix.SYS_KEYCTL || c.pass != uint16(unix.ENOSYS)) &&
			c.args[0] != unix.PR_CAPBSET_DROP {
			t.Errorf("call %d may fail with %d", c.number, c.pass)
		}
	}
	for c := range uint64(64) {
		if !dropped[c] {
			t.Errorf("capability %d is not dropped", c)
		}
	}
	i := slices.Index(order, unix.SYS_UNSHARE)
	if i < 0 || order[0] != unix.SYS_SETSID || !slices.Contains(order[:i], unix.SYS_LANDLOCK_RESTRICT_SELF) {
		t.Fatalf("the calls begin otherwise: %v", order)
	}
	want := []uint64{unix.SYS_UNSHARE, unix.SYS_KEYCTL, unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, unix.SYS_SETGROUPS,
		unix.SYS_SETRESGID,
		unix.SYS_SETRESUID, unix.SYS_CAPSET, unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, unix.SYS_CHDIR, unix.SYS_PRCTL,
		unix.PR_SET_NO_NEW_PRIVS,
		unix.SYS_PRCTL, unix.PR_SET_SECCOMP}
	if !slices.Equal(order[i:], want) {
		t.Errorf("the calls are\n%v, not\n%v", order[i:], want)
	}
	of := func(number int) decoded {
		return got[slices.IndexFunc(got, func(c decoded) bool { return c.number == uint64(number) })]
	}
	if c := of(unix.SYS_SETGROUPS); c.args != [6]uint64{} {
		t.Errorf("groups are set to %v", c.args)
	}
	if u, g := of(unix.SYS_SETRESUID), of(unix.SYS_SETRESGID); u.args != [6]uint64{1000, 1000, 1000} ||
		g.args != [6]uint64{1001, 1001, 1001} {
		t.Errorf("ids are %v %v", u.args, g.args)
	}
	if c := of(unix.SYS_CAPSET); !bytes.Equal(c.memory[1][:24], make([]byte, 24)) ||
		binary.LittleEndian.Uint32(c.memory[0]) != unix.LINUX_CAPABILITY_VERSION_3 {
		t.Errorf("capabilities are set to %x", c.memory)
	}
	if c := of(unix.SYS_CHDIR); !bytes.HasPrefix(c.memory[0], []byte("/work dir\x00")) {
		t.Errorf("the directory is %q", c.memory[0])
	}
	last := got[len(got)-1]
	filter := data[pointers[uint32(last.args[2])+8]:]
	if last.args[1] != unix.SECCOMP_MODE_FILTER || binary.LittleEndian.Uint16(last.memory[2]) != 5 ||
		!bytes.HasPrefix(filter, p.Seccomp) {
		t.Errorf("the filter is %x", filter)
	}
	words := func(a, b uint64) []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, a), b)
	}
	if !reflect.DeepEqual(limits, map[uint64][]byte{unix.RLIMIT_CORE: words(0, 0), unix.RLIMIT_NOFILE: words(64, 65)}) {
		t.Errorf("limits are %v", limits)
	}
}
