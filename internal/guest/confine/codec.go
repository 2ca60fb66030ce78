package confine

import (
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Append appends the plan to b as tagged fields; equal plans give equal bytes.
func (p *Plan) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, p.ID)
	b = wire.AppendBytes(b, 2, p.Key)
	b = wire.AppendString(b, 3, p.Hostname)
	b = wire.AppendUint(b, 4, uint64(p.Guest.UID))
	b = wire.AppendUint(b, 5, uint64(p.Guest.GID))
	b = wire.AppendUint(b, 6, uint64(p.Code.UID))
	b = wire.AppendUint(b, 7, uint64(p.Code.GID))
	b = wire.AppendBool(b, 8, p.Loopback)
	b = wire.AppendUint(b, 9, p.Landlock.Handled)
	b = wire.AppendUint(b, 10, p.Landlock.Scoped)
	b = wire.AppendBytes(b, 11, p.Seccomp)
	b = wire.AppendBool(b, 12, p.OneShot)
	b = wire.AppendUint(b, 13, uint64(p.Lease))
	b = wire.AppendString(b, 14, p.FailAt)
	b = wire.AppendStrings(b, 15, p.Execute.Paths)
	b = wire.AppendStrings(b, 16, p.Execute.Argv)
	b = wire.AppendStrings(b, 17, p.Execute.Env)
	b = wire.AppendUint(b, 18, p.Template)
	b = wire.AppendBool(b, 19, p.MakeTemplate)
	b = wire.AppendString(b, 24, p.Listen)
	b = wire.AppendUint(b, 25, uint64(p.Filter))
	b = wire.AppendUint(b, 26, uint64(p.Threads))
	b = wire.AppendBool(b, 27, p.Visited)
	b = wire.AppendUint(b, 28, uint64(p.Landlock.Flags))
	var element []byte
	for i := range p.Root {
		element = p.Root[i].append(element[:0])
		b = wire.AppendElement(b, 20, element)
	}
	for n, list := range [][]Rlimit{p.Limits, p.Payload} {
		for _, l := range list {
			element = wire.AppendUint(element[:0], 1, uint64(l.Resource))
			element = wire.AppendUint(element, 2, l.Soft)
			element = wire.AppendUint(element, 3, l.Hard)
			b = wire.AppendElement(b, 21+n, element)
		}
	}
	for _, a := range p.Landlock.Grants {
		element = wire.AppendString(element[:0], 1, a.Path)
		element = wire.AppendUint(element, 2, a.Rights)
		b = wire.AppendElement(b, 23, element)
	}
	return b
}

func (s *Step) append(b []byte) []byte {
	b = wire.AppendUint(b, 1, uint64(s.Do))
	b = wire.AppendString(b, 2, s.Target)
	b = wire.AppendString(b, 3, s.Source)
	b = wire.AppendUint(b, 4, uint64(s.FD))
	b = wire.AppendUint(b, 5, uint64(s.Mode))
	b = wire.AppendUint(b, 6, uint64(s.UID))
	b = wire.AppendUint(b, 7, uint64(s.GID))
	b = wire.AppendUint(b, 8, uint64(s.Size))
	b = wire.AppendUint(b, 9, uint64(s.Inodes))
	return wire.AppendUint(b, 10, uint64(s.Flags))
}

// Parse reads a plan.
func (p *Plan) Parse(b []byte) error {
	*p = Plan{}
	return parse(b, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			p.ID = f.String()
		case 2:
			p.Key = append([]byte(nil), f.Bytes()...)
		case 3:
			p.Hostname = f.String()
		case 4:
			p.Guest.UID = f.Uint32()
		case 5:
			p.Guest.GID = f.Uint32()
		case 6:
			p.Code.UID = f.Uint32()
		case 7:
			p.Code.GID = f.Uint32()
		case 8:
			p.Loopback = f.Bool()
		case 9:
			p.Landlock.Handled = f.Uint64()
		case 10:
			p.Landlock.Scoped = f.Uint64()
		default:
			p.parseRest(f)
		}
	})
}

func (p *Plan) parseRest(f *wire.Fields) {
	switch f.Tag() {
	case 11:
		p.Seccomp = append([]byte(nil), f.Bytes()...)
	case 12:
		p.OneShot = f.Bool()
	case 13:
		p.Lease = int64(f.Duration())
	case 14:
		p.FailAt = f.String()
	case 15:
		p.Execute.Paths = append(p.Execute.Paths, f.String())
	case 16:
		p.Execute.Argv = append(p.Execute.Argv, f.String())
	case 17:
		p.Execute.Env = append(p.Execute.Env, f.String())
	case 18:
		p.Template = f.Uint64()
	case 19:
		p.MakeTemplate = f.Bool()
	case 24:
		p.Listen = f.String()
	case 25:
		p.Filter = Filter(f.Uint8())
	case 26:
		p.Threads = int(f.Uint16())
	case 27:
		p.Visited = f.Bool()
	case 28:
		p.Landlock.Flags = f.Uint32()
	case 20:
		s, err := parseStep(f.Bytes())
		p.Root = append(p.Root, s)
		failOn(f, err)
	case 21:
		l, err := parseRlimit(f.Bytes())
		p.Limits = append(p.Limits, l)
		failOn(f, err)
	case 22:
		l, err := parseRlimit(f.Bytes())
		p.Payload = append(p.Payload, l)
		failOn(f, err)
	case 23:
		a, err := parseAccess(f.Bytes())
		p.Landlock.Grants = append(p.Landlock.Grants, a)
		failOn(f, err)
	}
}

func parseStep(b []byte) (s Step, err error) {
	err = parse(b, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			s.Do = Action(f.Uint8())
		case 2:
			s.Target = f.String()
		case 3:
			s.Source = f.String()
		case 4:
			s.FD = int32(f.Uint16())
		case 5:
			s.Mode = f.Uint32()
		case 6:
			s.UID = f.Uint32()
		case 7:
			s.GID = f.Uint32()
		case 8:
			s.Size = int64(f.Duration())
		case 9:
			s.Inodes = int64(f.Duration())
		case 10:
			s.Flags = Flags(f.Uint8())
		}
	})
	return s, err
}

func parseRlimit(b []byte) (l Rlimit, err error) {
	err = parse(b, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			l.Resource = f.Uint32()
		case 2:
			l.Soft = f.Uint64()
		case 3:
			l.Hard = f.Uint64()
		}
	})
	return l, err
}

func parseAccess(b []byte) (a Access, err error) {
	err = parse(b, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			a.Path = f.String()
		case 2:
			a.Rights = f.Uint64()
		}
	})
	return a, err
}

// Append appends the failure to b. A nil failure, which means success, is empty.
func (f *Failure) Append(b []byte) []byte {
	if f == nil {
		return b
	}
	b = wire.AppendString(b, 1, f.Step)
	b = wire.AppendUint(b, 2, uint64(f.Errno))
	return wire.AppendString(b, 3, f.Msg)
}

// Parse reads a failure.
func (f *Failure) Parse(b []byte) error {
	*f = Failure{}
	return parse(b, func(fields *wire.Fields) {
		switch fields.Tag() {
		case 1:
			f.Step = fields.String()
		case 2:
			f.Errno = fields.Uint32()
		case 3:
			f.Msg = fields.String()
		}
	})
}

func parse(b []byte, field func(*wire.Fields)) error {
	f := wire.NewFields(b)
	for f.Next() {
		field(&f)
	}
	return f.Err()
}

func failOn(f *wire.Fields, err error) {
	if err != nil {
		f.Fail()
	}
}
