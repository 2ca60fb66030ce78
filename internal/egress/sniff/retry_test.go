package sniff

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptest"
	"testing"
)

// watched is the client's end of a connection whose hellos Retry follows, by pieces.
type watched struct {
	net.Conn
	retry  *Retry
	size   int    // of a piece
	second string // replaces the name in the second hello
	hellos int
	err    error
}

func (w *watched) pieces(b []byte, each func([]byte)) {
	for len(b) > 0 {
		n := min(w.size, len(b))
		each(b[:n])
		b = b[n:]
	}
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.pieces(b[:n], w.retry.Server)
	return n, err
}

func (w *watched) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("site.example")) {
		if w.hellos++; w.hellos == 1 {
			h, err := ParseHello(b)
			if err != nil {
				return 0, err
			}
			w.retry = NewRetry(h, b)
		} else if w.second != "" {
			b = bytes.Replace(b, []byte("site.example"), []byte(w.second), 1)
		}
	}
	w.pieces(b, func(b []byte) { w.err = errors.Join(w.err, w.retry.Client(b)) })
	if w.err != nil {
		return 0, w.err
	}
	return w.Conn.Write(b)
}

// TestRetry: a handshake in which the server requests another hello passes, unless that states another name.
func TestRetry(t *testing.T) {
	for _, c := range []struct {
		curve   tls.CurveID // of the server
		version uint16
		second  string
		refused bool
	}{
		{tls.X25519, tls.VersionTLS13, "", false}, {tls.CurveP384, tls.VersionTLS12, "", false},
		{tls.CurveP384, tls.VersionTLS13, "", false}, {tls.CurveP384, tls.VersionTLS13, "evil.example", true},
	} {
		server := httptest.NewUnstartedServer(nil)
		server.TLS = &tls.Config{CurvePreferences: []tls.CurveID{c.curve}}
		server.StartTLS()
		for _, size := range []int{1, 7, 1 << 16} {
			raw, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			w := &watched{Conn: raw, size: size, second: c.second}
			client := tls.Client(w, &tls.Config{ServerName: "site.example", InsecureSkipVerify: true,
				MaxVersion: c.version, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP384}})
			err = client.Handshake()
			if errors.Is(w.err, ErrRetry) != c.refused || (err == nil) == c.refused {
				t.Errorf("%+v by %d: %v, %v", c, size, err, w.err)
			}
			raw.Close()
		}
		server.Close()
	}
}

// FuzzRetry: what a client and a server send is judged the same in however many pieces it comes.
func FuzzRetry(f *testing.F) {
	first := clientHello(f, "site.example")
	request := append([]byte{TLSHandshake, 3, 3, 0, 38, 2, 0, 0, 34, 3, 3}, retryRandom[:]...)
	f.Add(first, request, clientHello(f, "site.example"), 7)
	f.Add(first, request, clientHello(f, "evil.example"), 100)
	f.Add(first, []byte{21, 3, 3, 0, 2, 1, 112}, []byte{20, 3, 3, 0, 1, 1}, 1)
	f.Fuzz(func(t *testing.T, first, server, client []byte, size int) {
		h, err := ParseHello(first)
		if err != nil || size < 1 || len(client) > 2000 {
			return
		}
		judge := func(size int) (err error) {
			r := NewRetry(h, first)
			w := &watched{size: size}
			w.pieces(first, func(b []byte) { err = errors.Join(err, r.Client(b)) })
			w.pieces(server, r.Server)
			w.pieces(client, func(b []byte) {
				if err == nil {
					err = r.Client(b)
				}
			})
			return err
		}
		if whole, parts := judge(1<<30), judge(size); (whole == nil) != (parts == nil) {
			t.Fatalf("whole: %v, by %d: %v", whole, size, parts)
		}
	})
}

// TestEarlyHello: no other hello passes before the server has requested one, whatever is before it.
func TestEarlyHello(t *testing.T) {
	first, second := clientHello(t, "site.example"), clientHello(t, "evil.example")
	inside := bytes.Clone(first)
	size := len(inside) - recordHeader + len(second) - recordHeader
	inside[3], inside[4] = byte(size>>8), byte(size) // both in one record
	for i, sent := range [][]byte{
		append(bytes.Clone(first), second...),
		append(append(bytes.Clone(first), 20, 3, 3, 0, 1, 1, 23, 3, 3, 0, 2, 22, 3), second...),
		append(inside, second[recordHeader:]...),
	} {
		h, err := ParseHello(sent)
		if err != nil {
			t.Fatal(err)
		}
		if err := NewRetry(h, sent).Client(sent); !errors.Is(err, ErrRetry) {
			t.Errorf("%d: %v", i, err)
		}
	}
}
