package guest

import "github.com/fumehood-dev/fumehood/internal/guest/wire"

// MessageType returns TypeStat.
func (*Stat) MessageType() Type { return TypeStat }

// Fields visits its fields.
func (m *Stat) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Bool(c, 2, &m.Follow)
}

// MessageType returns TypeReadFile.
func (*ReadFile) MessageType() Type { return TypeReadFile }

// Fields visits its fields.
func (m *ReadFile) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Uint(c, 2, &m.Offset)
	wire.Uint(c, 3, &m.Length)
}

// MessageType returns TypeWriteFile.
func (*WriteFile) MessageType() Type { return TypeWriteFile }

// Fields visits its fields.
func (m *WriteFile) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Uint(c, 2, &m.Mode)
	wire.Bool(c, 3, &m.Atomic)
	wire.Uint(c, 4, &m.Offset)
	wire.Bool(c, 5, &m.Truncate)
	wire.Bool(c, 6, &m.Exclusive)
	wire.Bool(c, 7, &m.MakeParent)
}

// MessageType returns TypeListDir.
func (*ListDir) MessageType() Type { return TypeListDir }

// Fields visits its fields.
func (m *ListDir) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Uint(c, 2, &m.Depth)
	wire.Uint(c, 3, &m.Limit)
}

// MessageType returns TypeMakeDir.
func (*MakeDir) MessageType() Type { return TypeMakeDir }

// Fields visits its fields.
func (m *MakeDir) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Uint(c, 2, &m.Mode)
	wire.Bool(c, 3, &m.Parents)
}

// MessageType returns TypeMove.
func (*Move) MessageType() Type { return TypeMove }

// Fields visits its fields.
func (m *Move) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.From)
	wire.String(c, 2, &m.To)
	wire.Bool(c, 3, &m.Replace)
}

// MessageType returns TypeRemove.
func (*Remove) MessageType() Type { return TypeRemove }

// Fields visits its fields.
func (m *Remove) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Bool(c, 2, &m.Recursive)
	wire.Bool(c, 3, &m.Contents)
}

// MessageType returns TypeWatch.
func (*Watch) MessageType() Type { return TypeWatch }

// Fields visits its fields.
func (m *Watch) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Bool(c, 2, &m.Recursive)
}

// MessageType returns TypeChanged.
func (*Changed) MessageType() Type { return TypeChanged }

// Fields visits its fields.
func (m *Changed) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &m.Op)
	wire.String(c, 2, &m.Path)
	wire.Bool(c, 3, &m.Overflow)
}

// MessageType returns TypePack.
func (*Pack) MessageType() Type { return TypePack }

// Fields visits its fields.
func (m *Pack) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Base)
	wire.Strings(c, 2, &m.Paths)
	wire.Uint(c, 3, &m.MaxBytes)
	wire.Uint(c, 4, &m.MaxFiles)
}

// MessageType returns TypeUnpack.
func (*Unpack) MessageType() Type { return TypeUnpack }

// Fields visits its fields.
func (m *Unpack) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Base)
	wire.Uint(c, 2, &m.MaxBytes)
	wire.Uint(c, 3, &m.MaxFiles)
}

// MessageType returns TypeUnpacked.
func (*Unpacked) MessageType() Type { return TypeUnpacked }

// Fields visits its fields.
func (m *Unpacked) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &m.Files)
	wire.Uint(c, 2, &m.Bytes)
}

// MessageType returns TypeFileInfo.
func (*FileInfo) MessageType() Type { return TypeFileInfo }

// Fields visits its fields.
func (m *FileInfo) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Uint(c, 2, &m.Type)
	wire.Uint(c, 3, &m.Mode)
	wire.Uint(c, 4, &m.Size)
	wire.Uint(c, 5, &m.UID)
	wire.Uint(c, 6, &m.GID)
	wire.Int(c, 7, &m.MTime)
	wire.Int(c, 8, &m.CTime)
	wire.Uint(c, 9, &m.Inode)
	wire.Uint(c, 10, &m.Links)
	wire.String(c, 11, &m.Target)
	wire.String(c, 12, &m.Err)
	wire.String(c, 13, &m.Omitted)
}

// MessageType returns TypeData.
func (*Data) MessageType() Type { return TypeData }

// Fields visits its field.
func (m *Data) Fields(c *wire.Codec) { wire.Bytes(c, 1, &m.Data) }

// AppendDataHead appends what stands before n bytes in the body of a Data message, so that the sender need not copy them.
func AppendDataHead(b []byte, n int) []byte { return wire.AppendHead(b, 1, n) }
