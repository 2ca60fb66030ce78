package wire

import (
	"math"
	"time"
)

// Message is a sequence of fields, written down once for both directions: Fields calls a function of this package for each of them, always
// for all, in the order in which they are sent. A tag never changes its meaning.
type Message interface{ Fields(c *Codec) }

// Codec is what Fields is called with: it appends the fields of a message, or reads them.
type Codec struct {
	out []byte // where they are appended

	reading bool
	first   bool // the first pass over the fields, which empties each before it is read
	in      Fields
	more    bool // in is at a field that is not read yet
	read    int  // how many were
}

// Encode appends a message to b.
func Encode(b []byte, m Message) []byte {
	c := Codec{out: b}
	m.Fields(&c)
	return c.out
}

// Decode reads a message, which may be hostile. Byte slices lie within b afterwards, strings are copies. Tags that it does not know are
// skipped. Fields in the order in which Encode writes them are read in one pass.
func Decode(b []byte, m Message) error {
	c := Codec{reading: true, first: true, in: NewFields(b)}
	c.more = c.in.Next()
	m.Fields(&c)
	c.first = false
	for before := 0; c.more; {
		if c.read == before {
			c.more = c.in.Next() // nobody knows this one
		}
		before = c.read
		m.Fields(&c)
	}
	return c.in.Err()
}

// at says whether the field that is to be read is this one.
func (c *Codec) at(tag int) bool { return c.more && c.in.tag == tag }

func (c *Codec) next() { c.more, c.read = c.in.Next(), c.read+1 }

// empty is the value of a field before it is read.
func empty[T any](c *Codec, v *T) {
	if c.first {
		*v = *new(T)
	}
}

// Uint is an unsigned field. A value that does not fit is malformed.
func Uint[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *Codec, tag int, v *T) {
	if !c.reading {
		c.out = AppendUint(c.out, tag, uint64(*v))
		return
	}
	for empty(c, v); c.at(tag); c.next() {
		*v = T(c.in.Uint(uint64(^T(0))))
	}
}

// Natural is a signed number that is never negative, a duration in nanoseconds for one.
func Natural[T ~int | ~int32 | ~int64](c *Codec, tag int, v *T) {
	if !c.reading {
		c.out = AppendUint(c.out, tag, uint64(*v))
		return
	}
	for empty(c, v); c.at(tag); c.next() {
		n := c.in.Uint(math.MaxInt64)
		if *v = T(n); uint64(*v) != n {
			c.in.Fail()
		}
	}
}

// Int is a signed field. A value that does not fit is malformed.
func Int[T ~int32 | ~int64](c *Codec, tag int, v *T) {
	if !c.reading {
		c.out = AppendInt(c.out, tag, int64(*v))
		return
	}
	for empty(c, v); c.at(tag); c.next() {
		n := c.in.Int64()
		if *v = T(n); int64(*v) != n {
			c.in.Fail()
		}
	}
}

// Bool is a truth value.
func Bool(c *Codec, tag int, v *bool) {
	if !c.reading {
		c.out = AppendBool(c.out, tag, *v)
		return
	}
	for empty(c, v); c.at(tag); c.next() {
		*v = c.in.Bool()
	}
}

// String is text, or any bytes.
func String(c *Codec, tag int, v *string) {
	if !c.reading {
		c.out = AppendString(c.out, tag, *v)
		return
	}
	for empty(c, v); c.at(tag); c.next() {
		*v = c.in.String()
	}
}

// Strings are one field for each.
func Strings(c *Codec, tag int, v *[]string) {
	if !c.reading {
		c.out = AppendStrings(c.out, tag, *v)
		return
	}
	for empty(c, v); c.at(tag); c.next() {
		*v = append(*v, c.in.String())
	}
}

// Bytes are bytes that lie within the message once read.
func Bytes(c *Codec, tag int, v *[]byte) {
	if !c.reading {
		c.out = AppendBytes(c.out, tag, *v)
		return
	}
	for empty(c, v); c.at(tag); c.next() {
		*v = c.in.Bytes()
	}
}

// Uint8s are small numbers, a byte each.
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
	for empty(c, v); c.at(tag); c.next() {
		*v = nil
		for _, n := range c.in.Bytes() {
			*v = append(*v, T(n))
		}
	}
}

// Time is a time in nanoseconds since 1970, or none.
func Time(c *Codec, tag int, v *time.Time) {
	if !c.reading {
		if !v.IsZero() {
			c.out = AppendInt(c.out, tag, v.UnixNano())
		}
		return
	}
	for empty(c, v); c.at(tag); c.next() {
		*v = time.Unix(0, c.in.Int64())
	}
}

// List is one field for each element, which is a message itself. More than most are malformed.
func List[T any, P interface {
	*T
	Message
}](c *Codec, tag, most int, v *[]T) {
	if !c.reading {
		var one []byte
		for i := range *v {
			one = Encode(one[:0], P(&(*v)[i]))
			c.out = AppendElement(c.out, tag, one)
		}
		return
	}
	for empty(c, v); c.at(tag); c.next() {
		var one T
		if Decode(c.in.Bytes(), P(&one)) != nil || len(*v) >= most {
			c.in.Fail()
			return
		}
		*v = append(*v, one)
	}
}
