package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// ErrMalformed reports bytes that are not a sequence of fields, or a field with unexpected content.
var ErrMalformed = errors.New("wire: malformed message")

// A field is a key, a varint with tag<<1 | kind, and a value: a varint, or a varint length and that many bytes. Zero
// fields are omitted, so a new field costs older peers nothing.
const (
	kindVarint = 0
	kindBytes  = 1
)

// Message is a sequence of fields, written once for both directions: Fields calls a function of this package for each
// field, always for all of them, in the order in which they are sent. A tag never changes its meaning.
type Message interface{ Fields(c *Codec) }

// Codec appends a message's fields, or reads them.
type Codec struct {
	out []byte // the message so far

	reading bool
	first   bool // the first pass over the fields, which empties each field before reading it
	in      fields
	more    bool // in is at an unread field
	read    int  // number of read fields
}

func Encode(b []byte, m Message) []byte {
	c := Codec{out: b}
	m.Fields(&c)
	return c.out
}

// Decode reads a message, which may be hostile. Byte slices lie within b afterwards, strings are copies. It skips
// unknown tags. Fields in the order of Encode need one pass.
func Decode(b []byte, m Message) error {
	c := Codec{reading: true, first: true, in: fields{rest: b}}
	c.more = c.in.next()
	m.Fields(&c)
	c.first = false
	for before := 0; c.more; {
		if c.read == before {
			c.more = c.in.next() // an unknown tag
		}
		before = c.read
		m.Fields(&c)
	}
	if c.in.bad {
		return ErrMalformed
	}
	return nil
}

// at reports whether the next unread field has this tag. In the first pass it also empties v.
func at[T any](c *Codec, tag int, v *T) bool {
	if c.first {
		*v = *new(T)
	}
	return c.more && c.in.tag == tag
}

// again moves to the next field and reports whether it has this tag too.
func (c *Codec) again(tag int) bool {
	c.more, c.read = c.in.next(), c.read+1
	return c.more && c.in.tag == tag
}

// number appends a field unless it is zero.
func (c *Codec) number(tag int, v uint64) {
	if v != 0 {
		c.out = binary.AppendUvarint(binary.AppendUvarint(c.out, uint64(tag)<<1|kindVarint), v)
	}
}

// AppendHead appends a bytes field's head. The caller appends its n bytes.
func AppendHead(b []byte, tag, n int) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(tag)<<1|kindBytes), uint64(n))
}

// Uint is an unsigned field. A value that does not fit is malformed.
func Uint[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *Codec, tag int, v *T) {
	if !c.reading {
		c.number(tag, uint64(*v))
		return
	}
	for ok := at(c, tag, v); ok; ok = c.again(tag) {
		*v = T(c.in.number(uint64(^T(0))))
	}
}

// Natural is a signed number that is never negative, for example a duration in nanoseconds.
func Natural[T ~int | ~int32 | ~int64](c *Codec, tag int, v *T) {
	if !c.reading {
		c.number(tag, uint64(*v))
		return
	}
	for ok := at(c, tag, v); ok; ok = c.again(tag) {
		n := c.in.number(math.MaxInt64)
		if *v = T(n); uint64(*v) != n {
			c.in.bad = true
		}
	}
}

// Int is a signed field. A value that does not fit is malformed.
func Int[T ~int32 | ~int64](c *Codec, tag int, v *T) {
	if !c.reading {
		c.number(tag, uint64(int64(*v))<<1^uint64(int64(*v)>>63))
		return
	}
	for ok := at(c, tag, v); ok; ok = c.again(tag) {
		n := c.in.signed()
		if *v = T(n); int64(*v) != n {
			c.in.bad = true
		}
	}
}

func Bool(c *Codec, tag int, v *bool) {
	if !c.reading {
		if *v {
			c.number(tag, 1)
		}
		return
	}
	for ok := at(c, tag, v); ok; ok = c.again(tag) {
		*v = c.in.number(1) == 1
	}
}

// String is text, or any bytes.
func String(c *Codec, tag int, v *string) {
	if !c.reading {
		if *v != "" {
			c.out = append(AppendHead(c.out, tag, len(*v)), *v...)
		}
		return
	}
	for ok := at(c, tag, v); ok; ok = c.again(tag) {
		*v = string(c.in.content())
	}
}

// Strings has one field for each string, also for an empty one.
func Strings(c *Codec, tag int, v *[]string) {
	if !c.reading {
		for _, s := range *v {
			c.out = append(AppendHead(c.out, tag, len(s)), s...)
		}
		return
	}
	for ok := at(c, tag, v); ok; ok = c.again(tag) {
		*v = append(*v, string(c.in.content()))
	}
}

// Bytes reads bytes that lie within the message.
func Bytes(c *Codec, tag int, v *[]byte) {
	if !c.reading {
		if len(*v) > 0 {
			c.out = append(AppendHead(c.out, tag, len(*v)), *v...)
		}
		return
	}
	for ok := at(c, tag, v); ok; ok = c.again(tag) {
		*v = c.in.content()
	}
}

// Uint8s is a list of small numbers, one byte each.
func Uint8s[T ~uint8](c *Codec, tag int, v *[]T) {
	if !c.reading {
		if len(*v) > 0 {
			c.out = AppendHead(c.out, tag, len(*v))
		}
		for _, n := range *v {
			c.out = append(c.out, byte(n))
		}
		return
	}
	for ok := at(c, tag, v); ok; ok = c.again(tag) {
		*v = nil
		for _, n := range c.in.content() {
			*v = append(*v, T(n))
		}
	}
}

// Time is a time in nanoseconds since 1970. The zero time is omitted.
func Time(c *Codec, tag int, v *time.Time) {
	if !c.reading {
		if !v.IsZero() {
			n := v.UnixNano()
			Int(c, tag, &n)
		}
		return
	}
	for ok := at(c, tag, v); ok; ok = c.again(tag) {
		*v = time.Unix(0, c.in.signed())
	}
}

// List has one field for each element, which is a message itself. More elements than most are malformed.
func List[T any, P interface {
	*T
	Message
}](c *Codec, tag, most int, v *[]T) {
	if !c.reading {
		var one []byte
		for i := range *v {
			one = Encode(one[:0], P(&(*v)[i]))
			c.out = append(AppendHead(c.out, tag, len(one)), one...)
		}
		return
	}
	for ok := at(c, tag, v); ok; ok = c.again(tag) {
		var one T
		if Decode(c.in.content(), P(&one)) != nil || len(*v) >= most {
			c.in.bad = true
			return
		}
		*v = append(*v, one)
	}
}

// fields reads a sequence of fields. After the first error, bad is set and next returns false.
type fields struct {
	rest  []byte
	tag   int
	kind  uint8
	num   uint64
	bytes []byte
	bad   bool
}

// next moves to the next field. It returns false at the end, and at the first malformed byte or misread field.
func (f *fields) next() bool {
	if f.bad || len(f.rest) == 0 {
		return false
	}
	key := f.varint()
	f.tag, f.kind = int(key>>1), uint8(key&1)
	f.num = f.varint()
	if f.bad = f.bad || key>>1 > math.MaxInt32 || f.kind == kindBytes && f.num > uint64(len(f.rest)); f.bad {
		return false
	}
	if f.kind == kindBytes {
		f.bytes, f.rest = f.rest[:f.num:f.num], f.rest[f.num:]
	}
	return true
}

func (f *fields) varint() uint64 {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.bad = true
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

// number returns the current field, a number of at most most.
func (f *fields) number(most uint64) uint64 {
	if f.kind != kindVarint || f.num > most {
		f.bad = true
		return 0
	}
	return f.num
}

// signed returns the current field, a signed number.
func (f *fields) signed() int64 {
	v := f.number(math.MaxUint64)
	return int64(v>>1) ^ -int64(v&1)
}

// content returns the current field's bytes, which lie within the message.
func (f *fields) content() []byte {
	if f.kind != kindBytes {
		f.bad = true
		return nil
	}
	return f.bytes
}
