package guest

import "github.com/fumehood-dev/fumehood/internal/guest/wire"

// MessageType returns TypeHello.
func (*Hello) MessageType() Type { return TypeHello }

// Fields are none.
func (*Hello) Fields(*wire.Codec) {}

// MessageType returns TypeKillAll.
func (*KillAll) MessageType() Type { return TypeKillAll }

// Fields are none.
func (*KillAll) Fields(*wire.Codec) {}

// MessageType returns TypeLease.
func (*Lease) MessageType() Type { return TypeLease }

// Fields visits its field.
func (m *Lease) Fields(c *wire.Codec) { wire.Natural(c, 1, &m.For) }

// MessageType returns TypeReborn.
func (*Reborn) MessageType() Type { return TypeReborn }

// Fields visits its fields.
func (m *Reborn) Fields(c *wire.Codec) {
	wire.Bytes(c, 1, &m.Key)
	wire.String(c, 2, &m.ID)
	wire.Bytes(c, 3, &m.Entropy)
	wire.Time(c, 4, &m.Clock)
	wire.Natural(c, 5, &m.Lease)
	wire.Strings(c, 6, &m.Keep)
}

// MessageType returns TypeHold.
func (*Hold) MessageType() Type { return TypeHold }

// Fields are none.
func (*Hold) Fields(*wire.Codec) {}

// MessageType returns TypeShutdown.
func (*Shutdown) MessageType() Type { return TypeShutdown }

// Fields are none.
func (*Shutdown) Fields(*wire.Codec) {}

// MessageType returns TypeDial.
func (*Dial) MessageType() Type { return TypeDial }

// Fields visits its field.
func (m *Dial) Fields(c *wire.Codec) { wire.Uint(c, 1, &m.Port) }

// MessageType returns TypeDialed.
func (*Dialed) MessageType() Type { return TypeDialed }

// Fields are none.
func (*Dialed) Fields(*wire.Codec) {}
