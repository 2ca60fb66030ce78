package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// ErrMalformed says that bytes are not a sequence of fields, or that a field's content is not what its reader expects.
var ErrMalformed = errors.New("wire: malformed message")

// A field is a key, a varint with tag<<1 | kind, and a value: a varint, or a varint length and that many bytes. Zero fields
// are left out, so a new field costs older peers nothing.
const (
	kindVarint = 0
	kindBytes  = 1
)

// AppendUint appends an unsigned field unless it is zero.
func AppendUint(b []byte, tag int, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(tag)<<1|kindVarint), v)
}

// AppendInt appends a signed field unless it is zero.
func AppendInt(b []byte, tag int, v int64) []byte {
	return AppendUint(b, tag, uint64(v)<<1^uint64(v>>63))
}

// AppendBool appends a field unless it is false.
func AppendBool(b []byte, tag int, v bool) []byte {
	if !v {
		return b
	}
	return AppendUint(b, tag, 1)
}

// AppendString appends a string field unless it is empty.
func AppendString(b []byte, tag int, s string) []byte {
	if s == "" {
		return b
	}
	return append(AppendHead(b, tag, len(s)), s...)
}

// AppendStrings appends one field for each string, including empty ones.
func AppendStrings(b []byte, tag int, list []string) []byte {
	for _, s := range list {
		b = append(AppendHead(b, tag, len(s)), s...)
	}
	return b
}

// AppendBytes appends a bytes field unless it is empty.
func AppendBytes(b []byte, tag int, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return AppendElement(b, tag, v)
}

// AppendElement appends a bytes field, even if empty: one element of a repeated field.
func AppendElement(b []byte, tag int, v []byte) []byte {
	return append(AppendHead(b, tag, len(v)), v...)
}

// AppendHead appends a bytes field's head. The caller appends its n bytes.
func AppendHead(b []byte, tag, n int) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(tag)<<1|kindBytes), uint64(n))
}

// Fields reads a sequence of fields. The first error ends it; see Err.
type Fields struct {
	rest  []byte
	tag   int
	kind  uint8
	num   uint64
	bytes []byte
	bad   bool
}

// NewFields returns a reader of the fields in b. The byte slices it returns lie within b.
func NewFields(b []byte) Fields { return Fields{rest: b} }

// Next moves to the next field. It returns false at the end, and at the first malformed byte or misread field.
func (f *Fields) Next() bool {
	if f.bad || len(f.rest) == 0 {
		return false
	}
	key, ok := f.varint()
	if !ok || key>>1 > math.MaxInt32 {
		f.bad = true
		return false
	}
	f.tag, f.kind = int(key>>1), uint8(key&1)
	f.num, ok = f.varint()
	if !ok {
		return false
	}
	if f.kind == kindBytes {
		if f.num > uint64(len(f.rest)) {
			f.bad = true
			return false
		}
		f.bytes, f.rest = f.rest[:f.num:f.num], f.rest[f.num:]
	}
	return true
}

func (f *Fields) varint() (uint64, bool) {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.bad = true
		return 0, false
	}
	f.rest = f.rest[n:]
	return v, true
}

// Tag returns the current field's tag. Readers skip unknown tags.
func (f *Fields) Tag() int { return f.tag }

// Err returns ErrMalformed if the bytes were not what their reader expected.
func (f *Fields) Err() error {
	if f.bad {
		return ErrMalformed
	}
	return nil
}

// Fail marks the current field as malformed: its value is out of bounds.
func (f *Fields) Fail() { f.bad = true }

// Uint returns the current field as a number of at most most.
func (f *Fields) Uint(most uint64) uint64 {
	if f.kind != kindVarint || f.num > most {
		f.bad = true
		return 0
	}
	return f.num
}

// Uint64 returns the current field as a number.
func (f *Fields) Uint64() uint64 { return f.Uint(math.MaxUint64) }

// Uint32 returns the current field as a number.
func (f *Fields) Uint32() uint32 { return uint32(f.Uint(math.MaxUint32)) }

// Uint16 returns the current field as a number.
func (f *Fields) Uint16() uint16 { return uint16(f.Uint(math.MaxUint16)) }

// Uint8 returns the current field as a number.
func (f *Fields) Uint8() uint8 { return uint8(f.Uint(math.MaxUint8)) }

// Bool returns the current field as a boolean.
func (f *Fields) Bool() bool { return f.Uint(1) == 1 }

// Int64 returns the current field as a signed number.
func (f *Fields) Int64() int64 {
	v := f.Uint64()
	return int64(v>>1) ^ -int64(v&1)
}

// Int32 returns the current field as a signed number.
func (f *Fields) Int32() int32 {
	v := f.Int64()
	if v < math.MinInt32 || v > math.MaxInt32 {
		f.bad = true
		return 0
	}
	return int32(v)
}

// Duration returns the current field as a duration in nanoseconds. No duration of the protocol is negative.
func (f *Fields) Duration() time.Duration { return time.Duration(f.Uint(math.MaxInt64)) }

// Bytes returns the current field's bytes; they lie within the message.
func (f *Fields) Bytes() []byte {
	if f.kind != kindBytes {
		f.bad = true
		return nil
	}
	return f.bytes
}

// String returns a copy of the current field's bytes.
func (f *Fields) String() string { return string(f.Bytes()) }
