package server

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
)

// plain returns a server that is not pid 1.
func plain(t testing.TB) *Server {
	t.Helper()
	s, err := New(Config{Key: [32]byte{1}, ID: "fuzz"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// FuzzPreamble sends any first bytes. Without the key nobody gets a byte.
func FuzzPreamble(f *testing.F) {
	f.Add([]byte(guest.Magic + "\x00"))
	f.Add([]byte(guest.Magic + "\x01" + string(make([]byte, 32))))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	s := plain(f)
	defer s.Close()
	var key [32]byte
	copy(key[:], "a key that no fuzzer will guess.")
	s.key = key
	f.Fuzz(func(t *testing.T, in []byte) {
		peer, conn := net.Pipe()
		served := make(chan struct{})
		go func() { defer close(served); s.ServeConn(conn) }()
		go func() {
			peer.Write(in)
			if len(in) < len(guest.Magic)+1+guest.KeySize {
				peer.Close() // it would wait for the rest
			}
		}()
		if b, _ := io.ReadAll(peer); len(b) > 0 {
			t.Errorf("answered %q", b)
		}
		peer.Close()
		<-served
	})
}

// FuzzRequest sends any body as any request that touches neither processes nor files of this machine, then any second
// message. Each is answered or reset, and the server ends normally.
func FuzzRequest(f *testing.F) {
	for _, m := range []guest.Message{&guest.Hello{}, &guest.Attach{ID: "x", Stdout: 5, Channel: 7},
		&guest.Input{ID: "x", Data: []byte("abc")},
		&guest.Ack{ID: "x", Channel: 3, Exit: true}, &guest.Signal{ID: "x", Signal: 9},
		&guest.Resize{ID: "x", Rows: 1, Cols: 2}, &guest.List{}, &guest.Park{Argv: []string{"x"}},
		&guest.Wait{ID: "x"}, &guest.KillAll{}, &guest.Hold{}, &guest.Lease{For: time.Second},
		&guest.Reborn{Key: make([]byte, 32), ID: "y"}, &guest.Memory{Limit: 1 << 30}, &guest.Shutdown{}} {
		f.Add(uint8(m.MessageType()), guest.Append(nil, m), uint8(guest.TypeAck), []byte{2})
	}
	answers := make(map[guest.Type]guest.Message)
	for _, m := range []guest.Message{new(guest.Welcome), new(guest.Output), new(guest.Exited), new(guest.Accepted),
		new(guest.Processes), new(guest.MemoryState), new(guest.Done), new(guest.Failed)} {
		answers[m.MessageType()] = m
	}
	f.Fuzz(func(t *testing.T, typ uint8, body []byte, typ2 uint8, body2 []byte) {
		switch guest.Type(typ) {
		case guest.TypeStart:
			return // see FuzzStart
		case guest.TypeDial:
			return // it would reach this machine's ports
		case guest.TypeLease:
			return // its effect is time's
		}
		if guest.Type(typ) >= guest.TypeStat && guest.Type(typ) <= guest.TypeUnpack || len(body) > wire.MaxMessage ||
			len(body2) > wire.MaxMessage {
			return
		}
		s := plain(t)
		peer, conn := net.Pipe()
		go s.ServeConn(conn)
		peer.Write(append([]byte(guest.Magic+"\x00"), s.key[:]...))
		var reply [16]byte
		if _, err := io.ReadFull(peer, reply[:]); err != nil {
			t.Fatal(err)
		}
		session := wire.NewSession(peer, wire.Host)
		st, err := session.Open()
		if err != nil {
			t.Fatal(err)
		}
		st.Send(typ, body)
		st.SendLast(typ2, body2)
		for err == nil {
			var typ uint8
			var answer []byte
			if typ, answer, err = st.Recv(); err != nil {
				break
			}
			if m := answers[guest.Type(typ)]; m == nil || guest.Parse(answer, m) != nil {
				t.Errorf("answer of type %d: %q", typ, answer)
			}
		}
		session.Close()
		s.Close()
	})
}

// FuzzStart checks what a start is refused for, without starting anything.
func FuzzStart(f *testing.F) {
	f.Add(guest.Append(nil, &guest.Start{ID: "a", Argv: []string{"sh"}, Env: []string{"PATH=/bin:/usr/bin"}}))
	f.Add(guest.Append(nil, &guest.Start{ID: "a", Argv: []string{"sh"}, Channel: true, TTY: true}))
	f.Fuzz(func(t *testing.T, body []byte) {
		var m guest.Start
		if guest.Parse(body, &m) != nil || checkStart(&m) != nil {
			return
		}
		for _, p := range programPaths(&m) {
			if len(p) == 0 {
				t.Error("an empty path")
			}
		}
	})
}

// FuzzStat reads /proc/PID/stat, whose second field any program chooses.
func FuzzStat(f *testing.F) {
	f.Add([]byte("77 (sh) S 1 77 77" + restOfStat))
	f.Add([]byte("77 () S 9 9 9 (a) b) Z 1 2 3" + restOfStat))
	f.Add([]byte("77 (sh"))
	f.Add([]byte(")    1 2 3"))
	f.Fuzz(func(t *testing.T, in []byte) { parseStat(77, in) })
}

// restOfStat is what follows the session; the start time is 123456.
const restOfStat = " 0 -1 4194560 98 0 0 0 1 2 3 4 20 0 1 0 123456 2600960 256 18446744073709551615 1 1 0 0 0"

func TestParseStat(t *testing.T) {
	for in, want := range map[string]stat{
		"77 (sh) S 1 2 3": {pid: 77, parent: 1, group: 2, session: 3, threads: 1, spawned: 123456},
		"77 () S 9 9 9 (a) b) Z 1 2 3": {pid: 77, parent: 1, group: 2, session: 3, threads: 1, spawned: 123456,
			zombie: true},
		"77 (new\nline )) R 10 20 30": {pid: 77, parent: 10, group: 20, session: 30, threads: 1, spawned: 123456},
	} {
		if got, ok := parseStat(77, []byte(in+restOfStat)); !ok || got != want {
			t.Errorf("%q: %+v", in, got)
		}
	}
	for _, in := range []string{"", "77", "77 (sh)", "77 (sh) S 1 2", "77 (sh) S 1 2 3 0 -1",
		"77 (sh) S x 2 3" + restOfStat} {
		if got, ok := parseStat(77, []byte(in)); ok {
			t.Errorf("%q: %+v", in, got)
		}
	}
}
