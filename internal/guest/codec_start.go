package guest

import "github.com/glovebox-dev/glovebox/internal/guest/wire"

// MessageType returns TypeStart.
func (*Start) MessageType() Type { return TypeStart }

// Append appends the message's body to b.
func (m *Start) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.ID)
	b = wire.AppendStrings(b, 2, m.Argv)
	b = wire.AppendStrings(b, 3, m.Env)
	b = wire.AppendString(b, 4, m.Dir)
	b = wire.AppendUint(b, 5, uint64(m.User.UID))
	b = wire.AppendUint(b, 6, uint64(m.User.GID))
	b = wire.AppendUint(b, 7, uint64(m.Stdin))
	b = wire.AppendBool(b, 8, m.TTY)
	b = wire.AppendUint(b, 9, uint64(m.Rows))
	b = wire.AppendUint(b, 10, uint64(m.Cols))
	b = wire.AppendUint(b, 11, uint64(m.Deadline))
	b = wire.AppendInt(b, 12, int64(m.KillSignal))
	b = wire.AppendUint(b, 13, uint64(m.Grace))
	b = wire.AppendUint(b, 14, uint64(m.Drain))
	b = wire.AppendUint(b, 15, uint64(m.Buffer))
	b = wire.AppendBool(b, 16, m.Discard)
	b = wire.AppendBool(b, 17, m.Follow)
	b = wire.AppendBool(b, 18, m.KillTree)
	var limit []byte
	for _, l := range m.Limits {
		limit = wire.AppendUint(limit[:0], 1, uint64(l.Resource))
		limit = wire.AppendUint(limit, 2, l.Value)
		b = wire.AppendElement(b, 19, limit)
	}
	return b
}

// Parse reads a body.
func (m *Start) Parse(body []byte) error {
	*m = Start{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.ID = f.String()
		case 2:
			m.Argv = append(m.Argv, f.String())
		case 3:
			m.Env = append(m.Env, f.String())
		case 4:
			m.Dir = f.String()
		case 5:
			m.User.UID = f.Uint32()
		case 6:
			m.User.GID = f.Uint32()
		case 7:
			m.Stdin = StdinMode(f.Uint8())
		case 8:
			m.TTY = f.Bool()
		case 9:
			m.Rows = f.Uint16()
		case 10:
			m.Cols = f.Uint16()
		default:
			m.parseRest(f)
		}
	})
}

func (m *Start) parseRest(f *wire.Fields) {
	switch f.Tag() {
	case 11:
		m.Deadline = f.Duration()
	case 12:
		m.KillSignal = f.Int32()
	case 13:
		m.Grace = f.Duration()
	case 14:
		m.Drain = f.Duration()
	case 15:
		m.Buffer = f.Uint32()
	case 16:
		m.Discard = f.Bool()
	case 17:
		m.Follow = f.Bool()
	case 18:
		m.KillTree = f.Bool()
	case 19:
		l, err := parseLimit(f.Bytes())
		if err != nil || len(m.Limits) >= MaxLimits {
			f.Fail()
			return
		}
		m.Limits = append(m.Limits, l)
	}
}

func parseLimit(body []byte) (l Rlimit, err error) {
	err = parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			l.Resource = f.Uint32()
		case 2:
			l.Value = f.Uint64()
		}
	})
	return l, err
}
