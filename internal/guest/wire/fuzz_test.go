package wire

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// FuzzSession is a hostile peer for both sides: once the peer ends, the session must end with all its goroutines, whatever
// it received. Streams are read and written meanwhile.
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

// FuzzFields reads hostile fields in every possible way.
func FuzzFields(f *testing.F) {
	f.Add(AppendString(AppendInt(AppendUint(nil, 1, 300), 2, -5), 3, "text"))
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, in []byte) {
		for way := range 9 {
			for r := NewFields(in); r.Next(); {
				switch way {
				case 0:
					r.Uint64()
				case 1:
					r.Uint32()
				case 2:
					r.Uint16()
				case 3:
					r.Uint8()
				case 4:
					r.Bool()
				case 5:
					r.Int64()
				case 6:
					r.Int32()
				case 7:
					if r.Duration() < 0 {
						t.Fatal("a negative duration")
					}
				case 8:
					if len(r.String()) > len(in) {
						t.Fatal("more bytes than there are")
					}
				}
			}
		}
	})
}
