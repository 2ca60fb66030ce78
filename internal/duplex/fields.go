package duplex

// fields follows the fields of heads in HPACK (RFC 7541), as far as their sizes need it. It sets no bound that net/http
// does not set. A decoder would add 40 KB to the program.
type fields struct {
	most int              // bytes of a string
	each func(one field)  // is called with each field
	last [maxFields]field // those that a later field may refer to, in a ring
	next int              // fields that were put into last

	in      inField
	kind    byte // the first bits of the field
	n       int  // the integer being read, and then bytes of the string
	shift   int
	huffman bool
	one     field
	named   bool // the next string is the value
}

// field is the sizes of a field. A coded string counts as the longest one of its size.
type field struct {
	name, value int
	costly      bool // it may be Trailer or Cookie
}

const (
	maxFields = 128 // that are remembered: the table has 4 KiB, and each takes 32 bytes
	static    = 61  // fields that are known from the start
	cookie    = 32  // the one of them
)

type inField uint8

const (
	inBegin inField = iota
	inInteger
	inLength // of a string
	inLengthInteger
	inString
)

const (
	indexed    = 0x80
	remembered = 0x40
	resize     = 0x20
)

// read follows bytes of a head. It returns false for a field that net/http cannot decode either.
func (f *fields) read(b []byte) bool {
	for ok := true; len(b) > 0; {
		c := b[0]
		switch f.in {
		case inBegin:
			mask := byte(0x0f)
			for f.kind = indexed; f.kind >= resize; f.kind >>= 1 {
				if c&f.kind != 0 {
					mask = f.kind - 1
					break
				}
			}
			ok = f.begin(c, mask, inInteger)
		case inLength:
			f.huffman = c >= 0x80
			ok = f.begin(c, 0x7f, inLengthInteger)
		case inInteger, inLengthInteger:
			f.n += int(c&0x7f) << f.shift
			if f.shift += 7; f.shift > 28 {
				return false
			}
			if c < 0x80 {
				ok = f.number()
			}
		case inString:
			passed := min(f.n, len(b))
			f.n -= passed
			b = b[passed-1:]
			if f.n == 0 {
				f.endString()
			}
		}
		if b = b[1:]; !ok {
			return false
		}
	}
	return true
}

// begin begins an integer in the last bits of a byte (section 5.1).
func (f *fields) begin(c, mask byte, in inField) bool {
	f.in, f.n, f.shift = in, int(c&mask), 0
	return c&mask == mask || f.number()
}

// number notes the integer: an index, or the length of a string.
func (f *fields) number() (ok bool) {
	switch {
	case f.in == inLengthInteger:
		return f.beginString()
	case f.kind == resize:
		f.in = inBegin
		return true
	case f.n == 0 && f.kind != indexed:
		f.one, f.named, f.in = field{}, false, inLength
		return true
	}
	if f.one, ok = f.at(f.n); f.kind == indexed {
		f.in = inBegin
		f.each(f.one)
	} else {
		f.named, f.in = true, inLength
	}
	return ok
}

// at returns the field of an index (section 2.3.3).
func (f *fields) at(i int) (field, bool) {
	if i <= static {
		return field{16, 8, i == cookie}, i > 0
	}
	if i -= static; i > min(f.next, maxFields) {
		return field{}, false
	}
	return f.last[(f.next-i)%maxFields], true
}

func (f *fields) beginString() bool {
	size := f.n
	if f.huffman {
		size = size * 8 / 5
	}
	if f.named {
		f.one.value = size
	} else { // "cookie" and "trailer" have 4 and 5 bytes in the code of Huffman
		f.one.name, f.one.costly = size, f.huffman && (f.n == 4 || f.n == 5) || !f.huffman && (f.n == 6 || f.n == 7)
	}
	if f.in = inString; f.n == 0 {
		f.endString()
	}
	return f.n <= f.most
}

func (f *fields) endString() {
	if !f.named {
		f.named, f.in = true, inLength
		return
	}
	f.in = inBegin
	f.each(f.one)
	if f.kind == remembered {
		f.last[f.next%maxFields] = f.one
		f.next++
	}
}
