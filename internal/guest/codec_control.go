package guest

import (
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// MessageType returns TypeHello.
func (*Hello) MessageType() Type { return TypeHello }

// Append appends the message's body to b: it is empty.
func (*Hello) Append(b []byte) []byte { return b }

// Parse reads a body.
func (*Hello) Parse(body []byte) error { return parseNone(body) }

// MessageType returns TypeKillAll.
func (*KillAll) MessageType() Type { return TypeKillAll }

// Append appends the message's body to b: it is empty.
func (*KillAll) Append(b []byte) []byte { return b }

// Parse reads a body.
func (*KillAll) Parse(body []byte) error { return parseNone(body) }

// MessageType returns TypeLease.
func (*Lease) MessageType() Type { return TypeLease }

// Append appends the message's body to b.
func (m *Lease) Append(b []byte) []byte {
	return wire.AppendUint(b, 1, uint64(m.For))
}

// Parse reads a body.
func (m *Lease) Parse(body []byte) error {
	*m = Lease{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.For = f.Duration()
		}
	})
}

// MessageType returns TypeReborn.
func (*Reborn) MessageType() Type { return TypeReborn }

// Append appends the message's body to b.
func (m *Reborn) Append(b []byte) []byte {
	b = wire.AppendBytes(b, 1, m.Key)
	b = wire.AppendString(b, 2, m.ID)
	b = wire.AppendBytes(b, 3, m.Entropy)
	if !m.Clock.IsZero() {
		b = wire.AppendInt(b, 4, m.Clock.UnixNano())
	}
	b = wire.AppendUint(b, 5, uint64(m.Lease))
	return wire.AppendStrings(b, 6, m.Keep)
}

// Parse reads a body.
func (m *Reborn) Parse(body []byte) error {
	*m = Reborn{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Key = f.Bytes()
		case 2:
			m.ID = f.String()
		case 3:
			m.Entropy = f.Bytes()
		case 4:
			m.Clock = time.Unix(0, f.Int64())
		case 5:
			m.Lease = f.Duration()
		case 6:
			m.Keep = append(m.Keep, f.String())
		}
	})
}

// MessageType returns TypeHold.
func (*Hold) MessageType() Type { return TypeHold }

// Append appends the message's body to b: it is empty.
func (*Hold) Append(b []byte) []byte { return b }

// Parse reads a body.
func (*Hold) Parse(body []byte) error { return parseNone(body) }

// MessageType returns TypeShutdown.
func (*Shutdown) MessageType() Type { return TypeShutdown }

// Append appends the message's body to b: it is empty.
func (*Shutdown) Append(b []byte) []byte { return b }

// Parse reads a body.
func (*Shutdown) Parse(body []byte) error { return parseNone(body) }
