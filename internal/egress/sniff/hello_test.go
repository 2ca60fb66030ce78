package sniff

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"testing"
)

// clientHello is what a real client sends first.
func clientHello(t testing.TB, server string) []byte {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		_ = tls.Client(theirs, &tls.Config{ServerName: server, InsecureSkipVerify: true}).Handshake()
		theirs.Close()
	}()
	b := make([]byte, 1<<16)
	n, err := ours.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// split spreads a handshake message over records of so many bytes.
func split(record []byte, size int) (all []byte) {
	for body := record[5:]; len(body) > 0; {
		n := min(size, len(body))
		all = append(append(all, TLSHandshake, 3, 1, byte(n>>8), byte(n)), body[:n]...)
		body = body[n:]
	}
	return all
}

// FuzzHello: a hello says the same in however many records it comes, and none of its beginnings says anything.
func FuzzHello(f *testing.F) {
	whole := clientHello(f, "site.example")
	f.Add(whole, 100)
	f.Add(clientHello(f, "a.b"), 1)
	f.Add([]byte{22, 3, 1, 0, 1, 1}, 3)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		h, err := ParseHello(b)
		if err != nil || size < 1 || len(b) != 5+int(b[3])<<8+int(b[4]) || len(b) > 2000 {
			return
		}
		again, err := ParseHello(split(b, size))
		if err != nil || again != h {
			t.Fatalf("%+v in one record, %+v, %v in records of %d", h, again, err, size)
		}
		message := 9 + int(b[6])<<16 + int(b[7])<<8 + int(b[8])
		for n := size % 50; n < message; n += 50 { // all would take too long
			if _, err := ParseHello(b[:n]); !errors.Is(err, ErrMore) {
				t.Fatalf("%d of %d bytes: %v", n, message, err)
			}
		}
	})
}

// TestLongHello: a hello of more than maxHello bytes is malformed, also if all of it comes at once.
func TestLongHello(t *testing.T) {
	for size, want := range map[int]error{maxHello - 200: nil, maxHello: ErrHello} {
		body := append([]byte{3, 3}, make([]byte, 32)...)          // version, random
		body = append(body, 0, 0, 2, 0x13, 1, 1, 0)                // session, cipher suite, compression
		body = binary.BigEndian.AppendUint16(body, uint16(size+4)) // extensions: padding
		body = binary.BigEndian.AppendUint16(append(body, 0, 21), uint16(size))
		body = append(body, make([]byte, size)...)
		message := append([]byte{1, 0, byte(len(body) >> 8), byte(len(body))}, body...)
		b := split(append(make([]byte, 5), message...), 1<<14)
		if _, err := ParseHello(b); !errors.Is(err, want) {
			t.Errorf("a hello of %d bytes: %v, want %v", len(b), err, want)
		}
	}
}

// TestServerName: a server name that ends in a dot is malformed, and so is one that is not ASCII, whose canonical form
// is costly to find.
func TestServerName(t *testing.T) {
	b := clientHello(t, "site.examplex")
	if h, err := ParseHello(b); err != nil || h.Server != "site.examplex" {
		t.Fatal(h, err)
	}
	for _, name := range []string{"site.example.", "s\u00efte.example", "site.ex\xffmplex"} {
		if h, err := ParseHello(bytes.Replace(b, []byte("site.examplex"), []byte(name), 1)); !errors.Is(err, ErrHello) {
			t.Errorf("%q: %+v, %v", name, h, err)
		}
	}
}

// TestPartialHello: the parser does not run before a hello is complete, so that small packets cost little.
func TestPartialHello(t *testing.T) {
	for _, b := range [][]byte{clientHello(t, "site.example"), split(clientHello(t, "site.example"), 1)} {
		for _, n := range []int{1, 6, len(b) / 2, len(b) - 1} {
			if allocs := testing.AllocsPerRun(10, func() {
				if _, err := ParseHello(b[:n]); !errors.Is(err, ErrMore) {
					t.Errorf("%d of %d bytes: %v", n, len(b), err)
				}
			}); allocs > 0 {
				t.Errorf("%d of %d bytes cost %v allocations", n, len(b), allocs)
			}
		}
	}
}
