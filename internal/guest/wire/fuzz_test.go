package wire

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// FuzzSession is a hostile peer for both sides: once the peer ends, the session must end with all its goroutines,
// whatever it received. Streams are read and written meanwhile.
func FuzzSession(f *testing.F) {
	join := func(frames ...[]byte) []byte { return bytes.Join(frames, nil) }
	f.Add(join(frame(1, frameData, "\x01\x00\x00\x00\x05x"), frame(1, frameEnd, "")))
	f.Add(join(frame(1, frameData, "x"), frame(1, frameCredit, credit(100)), frame(1, frameReset, "")))
	f.Add(join(frame(2, frameData, "\xff\xff\xff\xffabc"), frame(3, frameData, ""), frame(2, frameEnd, "")))
	f.Add(frame(1, 9, "x"))
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, side := range []Side{Host, Guest} {
			peer, conn := net.Pipe()
			s := NewSession(conn, side)
			var wg sync.WaitGroup
			wg.Add(2)
			go func() {
				defer wg.Done()
				io.Copy(io.Discard, peer)
			}()
			go func() {
				defer wg.Done()
				use(s, side, &wg)
			}()
			peer.Write(in)
			peer.Close()
			<-s.Done()
			s.Close()
			wg.Wait()
		}
	})
}

// use receives from a few streams and answers on them.
func use(s *Session, side Side, wg *sync.WaitGroup) {
	for i := range 4 {
		var st *Stream
		var err error
		if side == Host {
			if st, err = s.Open(); err == nil {
				st.Send(1, []byte("request"))
			}
		} else {
			st, err = s.Accept()
		}
		if err != nil {
			return
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				typ, body, err := st.Recv()
				if err != nil {
					break
				}
				if len(body) > MaxMessage {
					panic("a message of more than MaxMessage")
				}
				st.Send(typ, body)
			}
			if i%2 == 0 {
				st.Reset()
			}
			st.Close()
		}()
	}
}

// FuzzReadMessage compares reading hostile messages with a plain reading of the format.
func FuzzReadMessage(f *testing.F) {
	f.Add([]byte("\x03\x00\x00\x00\x07abc\x00\x00\x00\x00\x01"))
	f.Add([]byte("\xff\xff\xff\xff\x01"))
	f.Add([]byte("\x00\x00\x10\x00\x01abc"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		var buf []byte
		for at := 0; ; {
			typ, body, err := ReadMessage(r, buf)
			if err != nil {
				return
			}
			again := append(AppendMessageHeader(nil, typ, len(body)), body...)
			if !bytes.Equal(in[at:at+len(again)], again) {
				t.Fatalf("at %d: type %d, %d bytes", at, typ, len(body))
			}
			at += len(again)
			buf = body
		}
	})
}

// everyKind has a field of each kind.
type everyKind struct {
	u64     uint64
	u32     uint32
	u16     uint16
	u8      uint8
	yes     bool
	i64     int64
	i32     int32
	natural time.Duration
	text    string
	list    []string
	bytes   []byte
	small   []uint8
	at      time.Time
	inner   []pair
}

// pair is a message in a list.
type pair struct{ a, b uint32 }

func (m *pair) Fields(c *Codec) {
	Uint(c, 1, &m.a)
	Uint(c, 2, &m.b)
}

func (m *everyKind) Fields(c *Codec) {
	Uint(c, 1, &m.u64)
	Uint(c, 2, &m.u32)
	Uint(c, 3, &m.u16)
	Uint(c, 4, &m.u8)
	Bool(c, 5, &m.yes)
	Int(c, 6, &m.i64)
	Int(c, 7, &m.i32)
	Natural(c, 8, &m.natural)
	String(c, 9, &m.text)
	Strings(c, 10, &m.list)
	Bytes(c, 11, &m.bytes)
	Uint8s(c, 12, &m.small)
	Time(c, 13, &m.at)
	List(c, 14, 3, &m.inner)
}

// FuzzFields reads hostile fields in every possible way. What it accepts is bounded, and the same after another round.
func FuzzFields(f *testing.F) {
	f.Add(Encode(nil, &everyKind{u64: 300, u32: 1, u16: 2, u8: 3, yes: true, i64: -5, i32: -6, natural: 7, text: "text",
		list:  []string{"", "b"},
		bytes: []byte("bytes"), small: []uint8{1, 2}, at: time.Unix(0, 9), inner: []pair{{1, 2}, {}}}))
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, in []byte) {
		var m, again everyKind
		if Decode(in, &m) != nil {
			return
		}
		if m.natural < 0 {
			t.Fatal("a negative duration")
		}
		if len(m.text) > len(in) || len(m.bytes) > len(in) || len(m.list) > len(in) || len(m.small) > len(in) ||
			len(m.inner) > 3 {
			t.Fatal("more than there is")
		}
		b := Encode(nil, &m)
		if err := Decode(b, &again); err != nil || !bytes.Equal(Encode(nil, &again), b) {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}
