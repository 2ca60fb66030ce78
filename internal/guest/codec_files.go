package guest

import (
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// MessageType returns TypeStat.
func (*Stat) MessageType() Type { return TypeStat }

// Append appends the message's body to b.
func (m *Stat) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.Path)
	return wire.AppendBool(b, 2, m.Follow)
}

// Parse reads a body.
func (m *Stat) Parse(body []byte) error {
	*m = Stat{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Path = f.String()
		case 2:
			m.Follow = f.Bool()
		}
	})
}

// MessageType returns TypeReadFile.
func (*ReadFile) MessageType() Type { return TypeReadFile }

// Append appends the message's body to b.
func (m *ReadFile) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.Path)
	b = wire.AppendUint(b, 2, m.Offset)
	return wire.AppendUint(b, 3, m.Length)
}

// Parse reads a body.
func (m *ReadFile) Parse(body []byte) error {
	*m = ReadFile{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Path = f.String()
		case 2:
			m.Offset = f.Uint64()
		case 3:
			m.Length = f.Uint64()
		}
	})
}

// MessageType returns TypeWriteFile.
func (*WriteFile) MessageType() Type { return TypeWriteFile }

// Append appends the message's body to b.
func (m *WriteFile) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.Path)
	b = wire.AppendUint(b, 2, uint64(m.Mode))
	b = wire.AppendBool(b, 3, m.Atomic)
	b = wire.AppendUint(b, 4, m.Offset)
	b = wire.AppendBool(b, 5, m.Truncate)
	b = wire.AppendBool(b, 6, m.Exclusive)
	return wire.AppendBool(b, 7, m.MakeParent)
}

// Parse reads a body.
func (m *WriteFile) Parse(body []byte) error {
	*m = WriteFile{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Path = f.String()
		case 2:
			m.Mode = f.Uint32()
		case 3:
			m.Atomic = f.Bool()
		case 4:
			m.Offset = f.Uint64()
		case 5:
			m.Truncate = f.Bool()
		case 6:
			m.Exclusive = f.Bool()
		case 7:
			m.MakeParent = f.Bool()
		}
	})
}

// MessageType returns TypeListDir.
func (*ListDir) MessageType() Type { return TypeListDir }

// Append appends the message's body to b.
func (m *ListDir) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.Path)
	b = wire.AppendUint(b, 2, uint64(m.Depth))
	return wire.AppendUint(b, 3, uint64(m.Limit))
}

// Parse reads a body.
func (m *ListDir) Parse(body []byte) error {
	*m = ListDir{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Path = f.String()
		case 2:
			m.Depth = f.Uint32()
		case 3:
			m.Limit = f.Uint32()
		}
	})
}

// MessageType returns TypeMakeDir.
func (*MakeDir) MessageType() Type { return TypeMakeDir }

// Append appends the message's body to b.
func (m *MakeDir) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.Path)
	b = wire.AppendUint(b, 2, uint64(m.Mode))
	return wire.AppendBool(b, 3, m.Parents)
}

// Parse reads a body.
func (m *MakeDir) Parse(body []byte) error {
	*m = MakeDir{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Path = f.String()
		case 2:
			m.Mode = f.Uint32()
		case 3:
			m.Parents = f.Bool()
		}
	})
}

// MessageType returns TypeMove.
func (*Move) MessageType() Type { return TypeMove }

// Append appends the message's body to b.
func (m *Move) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.From)
	b = wire.AppendString(b, 2, m.To)
	return wire.AppendBool(b, 3, m.Replace)
}

// Parse reads a body.
func (m *Move) Parse(body []byte) error {
	*m = Move{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.From = f.String()
		case 2:
			m.To = f.String()
		case 3:
			m.Replace = f.Bool()
		}
	})
}

// MessageType returns TypeRemove.
func (*Remove) MessageType() Type { return TypeRemove }

// Append appends the message's body to b.
func (m *Remove) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.Path)
	b = wire.AppendBool(b, 2, m.Recursive)
	return wire.AppendBool(b, 3, m.Contents)
}

// Parse reads a body.
func (m *Remove) Parse(body []byte) error {
	*m = Remove{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Path = f.String()
		case 2:
			m.Recursive = f.Bool()
		case 3:
			m.Contents = f.Bool()
		}
	})
}

// MessageType returns TypeWatch.
func (*Watch) MessageType() Type { return TypeWatch }

// Append appends the message's body to b.
func (m *Watch) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.Path)
	return wire.AppendBool(b, 2, m.Recursive)
}

// Parse reads a body.
func (m *Watch) Parse(body []byte) error {
	*m = Watch{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Path = f.String()
		case 2:
			m.Recursive = f.Bool()
		}
	})
}

// MessageType returns TypeChanged.
func (*Changed) MessageType() Type { return TypeChanged }

// Append appends the message's body to b.
func (m *Changed) Append(b []byte) []byte {
	b = wire.AppendUint(b, 1, uint64(m.Op))
	b = wire.AppendString(b, 2, m.Path)
	return wire.AppendBool(b, 3, m.Overflow)
}

// Parse reads a body.
func (m *Changed) Parse(body []byte) error {
	*m = Changed{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Op = ChangeOp(f.Uint8())
		case 2:
			m.Path = f.String()
		case 3:
			m.Overflow = f.Bool()
		}
	})
}

// MessageType returns TypePack.
func (*Pack) MessageType() Type { return TypePack }

// Append appends the message's body to b.
func (m *Pack) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.Base)
	b = wire.AppendStrings(b, 2, m.Paths)
	b = wire.AppendUint(b, 3, m.MaxBytes)
	return wire.AppendUint(b, 4, m.MaxFiles)
}

// Parse reads a body.
func (m *Pack) Parse(body []byte) error {
	*m = Pack{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Base = f.String()
		case 2:
			m.Paths = append(m.Paths, f.String())
		case 3:
			m.MaxBytes = f.Uint64()
		case 4:
			m.MaxFiles = f.Uint64()
		}
	})
}

// MessageType returns TypeUnpack.
func (*Unpack) MessageType() Type { return TypeUnpack }

// Append appends the message's body to b.
func (m *Unpack) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.Base)
	b = wire.AppendUint(b, 2, m.MaxBytes)
	return wire.AppendUint(b, 3, m.MaxFiles)
}

// Parse reads a body.
func (m *Unpack) Parse(body []byte) error {
	*m = Unpack{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Base = f.String()
		case 2:
			m.MaxBytes = f.Uint64()
		case 3:
			m.MaxFiles = f.Uint64()
		}
	})
}

// MessageType returns TypeUnpacked.
func (*Unpacked) MessageType() Type { return TypeUnpacked }

// Append appends the message's body to b.
func (m *Unpacked) Append(b []byte) []byte {
	b = wire.AppendUint(b, 1, m.Files)
	return wire.AppendUint(b, 2, m.Bytes)
}

// Parse reads a body.
func (m *Unpacked) Parse(body []byte) error {
	*m = Unpacked{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Files = f.Uint64()
		case 2:
			m.Bytes = f.Uint64()
		}
	})
}

// MessageType returns TypeFileInfo.
func (*FileInfo) MessageType() Type { return TypeFileInfo }

// Append appends the message's body to b.
func (m *FileInfo) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.Path)
	b = wire.AppendUint(b, 2, uint64(m.Type))
	b = wire.AppendUint(b, 3, uint64(m.Mode))
	b = wire.AppendUint(b, 4, m.Size)
	b = wire.AppendUint(b, 5, uint64(m.UID))
	b = wire.AppendUint(b, 6, uint64(m.GID))
	b = wire.AppendInt(b, 7, m.MTime)
	b = wire.AppendInt(b, 8, m.CTime)
	b = wire.AppendUint(b, 9, m.Inode)
	b = wire.AppendUint(b, 10, m.Links)
	b = wire.AppendString(b, 11, m.Target)
	b = wire.AppendString(b, 12, m.Err)
	return wire.AppendString(b, 13, m.Omitted)
}

// Parse reads a body.
func (m *FileInfo) Parse(body []byte) error {
	*m = FileInfo{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Path = f.String()
		case 2:
			m.Type = FileType(f.Uint8())
		case 3:
			m.Mode = f.Uint32()
		case 4:
			m.Size = f.Uint64()
		case 5:
			m.UID = f.Uint32()
		case 6:
			m.GID = f.Uint32()
		case 7:
			m.MTime = f.Int64()
		case 8:
			m.CTime = f.Int64()
		case 9:
			m.Inode = f.Uint64()
		case 10:
			m.Links = f.Uint64()
		case 11:
			m.Target = f.String()
		case 12:
			m.Err = f.String()
		case 13:
			m.Omitted = f.String()
		}
	})
}

// MessageType returns TypeData.
func (*Data) MessageType() Type { return TypeData }

// AppendDataHead appends what stands before n bytes in the body of a Data message, so that the sender need not copy them.
func AppendDataHead(b []byte, n int) []byte { return wire.AppendHead(b, 1, n) }

// Append appends the message's body to b.
func (m *Data) Append(b []byte) []byte {
	return wire.AppendBytes(b, 1, m.Data)
}

// Parse reads a body.
func (m *Data) Parse(body []byte) error {
	*m = Data{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Data = f.Bytes()
		}
	})
}
