package confine

import (
	"bytes"
	"math"

	"github.com/fumehood-dev/fumehood/internal/guest/wire"
)

// anyNumber does not bound the lists of a plan: the host's messages have a bound.
const anyNumber = math.MaxInt

func (p *Plan) Fields(c *wire.Codec) {
	wire.String(c, 1, &p.ID)
	wire.Bytes(c, 2, &p.Key)
	wire.String(c, 3, &p.Hostname)
	wire.Uint(c, 4, &p.Guest.UID)
	wire.Uint(c, 5, &p.Guest.GID)
	wire.Uint(c, 6, &p.Code.UID)
	wire.Uint(c, 7, &p.Code.GID)
	wire.Bool(c, 8, &p.Loopback)
	wire.Uint(c, 9, &p.Landlock.Handled)
	wire.Uint(c, 10, &p.Landlock.Scoped)
	wire.Bytes(c, 11, &p.Seccomp)
	wire.Bool(c, 12, &p.OneShot)
	wire.Natural(c, 13, &p.Lease)
	wire.String(c, 14, &p.FailAt)
	wire.Strings(c, 15, &p.Execute.Paths)
	wire.Strings(c, 16, &p.Execute.Argv)
	wire.Strings(c, 17, &p.Execute.Env)
	wire.Uint(c, 18, &p.Template)
	wire.Bool(c, 19, &p.MakeTemplate)
	wire.String(c, 24, &p.Listen)
	wire.Uint(c, 25, &p.Filter)
	wire.Natural(c, 26, &p.Threads)
	wire.Bool(c, 27, &p.Visited)
	wire.Uint(c, 28, &p.Landlock.Flags)
	wire.Bool(c, 29, &p.Builder)
	wire.Uint(c, 30, &p.Memory)
	wire.List(c, 20, anyNumber, &p.Root)
	wire.List(c, 21, anyNumber, &p.Limits)
	wire.List(c, 22, anyNumber, &p.Payload)
	wire.List(c, 23, anyNumber, &p.Landlock.Grants)
}

func (s *Step) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &s.Do)
	wire.String(c, 2, &s.Target)
	wire.String(c, 3, &s.Source)
	wire.Natural(c, 4, &s.FD)
	wire.Uint(c, 5, &s.Mode)
	wire.Uint(c, 6, &s.UID)
	wire.Uint(c, 7, &s.GID)
	wire.Natural(c, 8, &s.Size)
	wire.Natural(c, 9, &s.Inodes)
	wire.Uint(c, 10, &s.Flags)
}

func (l *Rlimit) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &l.Resource)
	wire.Uint(c, 2, &l.Soft)
	wire.Uint(c, 3, &l.Hard)
}

func (a *Access) Fields(c *wire.Codec) {
	wire.String(c, 1, &a.Path)
	wire.Uint(c, 2, &a.Rights)
}

// Append appends the plan to b. Equal plans have equal bytes.
func (p *Plan) Append(b []byte) []byte { return wire.Encode(b, p) }

// Parse reads a plan. The plan does not refer to b.
func (p *Plan) Parse(b []byte) error { return wire.Decode(bytes.Clone(b), p) }

func (f *Failure) Fields(c *wire.Codec) {
	wire.String(c, 1, &f.Step)
	wire.Uint(c, 2, &f.Errno)
	wire.String(c, 3, &f.Msg)
}

// Append appends the failure to b. A nil failure, which means success, is empty.
func (f *Failure) Append(b []byte) []byte {
	if f == nil {
		return b
	}
	return wire.Encode(b, f)
}

func (f *Failure) Parse(b []byte) error { return wire.Decode(b, f) }
