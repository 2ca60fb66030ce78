package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// socketPair returns the two ends of a unix socket, as in production.
func socketPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := [2]net.Conn{}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	t.Cleanup(func() { ends[0].Close(); ends[1].Close() })
	return ends[0], ends[1]
}

func sessions(t testing.TB) (host, guest *Session) {
	a, b := socketPair(t)
	host, guest = NewSession(a, Host), NewSession(b, Guest)
	t.Cleanup(func() { host.Close(); guest.Close() })
	return host, guest
}

// echo serves streams by sending back their data.
func echo(s *Session, wg *sync.WaitGroup) {
	for {
		st, err := s.Accept()
		if err != nil {
			return
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			io.Copy(st, st)
			st.Close()
		}()
	}
}

func open(t testing.TB, s *Session) *Stream {
	t.Helper()
	st, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestManyStreamsEcho(t *testing.T) {
	before := runtime.NumGoroutine()
	a, b := socketPair(t)
	host, guest := NewSession(a, Host), NewSession(b, Guest)
	var served, wg sync.WaitGroup
	go echo(guest, &served)
	for i := range 50 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(1, uint64(i)))
			data := make([]byte, r.IntN(2<<20))
			rand.NewChaCha8([32]byte{byte(i)}).Read(data)
			st, err := host.Open()
			if err != nil {
				t.Error(err)
				return
			}
			go func() {
				for rest := data; len(rest) > 0; {
					n := min(len(rest), 1+r.IntN(200_000))
					if _, err := st.Write(rest[:n]); err != nil {
						t.Error(err)
						return
					}
					rest = rest[n:]
				}
				st.CloseWrite()
			}()
			got, err := io.ReadAll(st)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d of %d bytes, %v", len(got), len(data), err)
			}
			st.Close()
		}()
	}
	wg.Wait()
	served.Wait()
	host.mu.Lock()
	if len(host.streams) > 0 {
		t.Errorf("%d streams are left", len(host.streams))
	}
	host.mu.Unlock()
	host.Close()
	<-guest.Done()
	if guest.Err() != io.EOF || host.Err() != ErrClosed {
		t.Errorf("%v, %v", guest.Err(), host.Err())
	}
	guest.Close()
	for end := time.Now().Add(2 * time.Minute); runtime.NumGoroutine() > before && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, before %d", n, before)
	}
}

func TestMessageSizes(t *testing.T) {
	host, guest := sessions(t)
	sizes := []int{0, 1, 1000, MaxFrame - 5, MaxFrame, MaxFrame + 1, InitialCredit, MaxMessage, 3, 0}
	st := open(t, host)
	go func() {
		for i, n := range sizes {
			body := bytes.Repeat([]byte{byte(i)}, n)
			send := st.Send
			if i == len(sizes)-1 {
				send = st.SendLast
			}
			if err := send(uint8(i), body[:n/3], body[n/3:n/2], body[n/2:]); err != nil {
				t.Error(err)
			}
		}
	}()
	in, err := guest.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range sizes {
		typ, body, err := in.Recv()
		if err != nil || int(typ) != i || len(body) != n || bytes.Count(body, []byte{byte(i)}) != n {
			t.Fatalf("message %d: type %d, %d bytes, %v", i, typ, len(body), err)
		}
	}
	if _, _, err := in.Recv(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if err := st.Send(1, make([]byte, MaxMessage+1)); err != ErrTooLong {
		t.Errorf("too long: %v", err)
	}
}

func TestMessageThatIsTooLongResets(t *testing.T) {
	host, guest := sessions(t)
	st := open(t, host)
	st.Write([]byte{0xff, 0xff, 0xff, 0xff, 1})
	in, err := guest.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := in.Recv(); err != ErrTooLong {
		t.Errorf("%v", err)
	}
	if _, err := st.Read(make([]byte, 1)); err != ErrReset {
		t.Errorf("%v", err)
	}
	again := open(t, host) // only that stream
	again.Write([]byte("x"))
	if _, err := guest.Accept(); err != nil {
		t.Error(err)
	}
}

// Data from before the peer's reset is read, then the reset; after an own reset nothing is read.
func TestReset(t *testing.T) {
	host, guest := sessions(t)
	st := open(t, host)
	st.Write([]byte("request"))
	in, err := guest.Accept()
	if err != nil {
		t.Fatal(err)
	}
	in.Write([]byte("answer"))
	in.Reset()
	<-st.Done()
	b := make([]byte, 10)
	if n, err := st.Read(b); string(b[:n]) != "answer" || err != nil {
		t.Errorf("%q, %v", b[:n], err)
	}
	if _, err := st.Read(b); err != ErrReset {
		t.Errorf("%v", err)
	}
	if _, err := st.Write(b); err != ErrReset {
		t.Errorf("%v", err)
	}
	if _, err := in.Read(b); err != ErrReset {
		t.Errorf("after an own reset: %v", err)
	}
}

func TestResetWakesEveryone(t *testing.T) {
	host, _ := sessions(t)
	reader, writer := open(t, host), open(t, host)
	reader.Write([]byte("x"))
	errs := make(chan error, 2)
	go func() { _, err := reader.Read(make([]byte, 1)); errs <- err }()
	go func() { _, err := writer.Write(make([]byte, 2*InitialCredit)); errs <- err }()
	time.Sleep(20 * time.Millisecond)
	reader.Reset()
	writer.Reset()
	for range 2 {
		if err := <-errs; err != ErrReset {
			t.Errorf("%v", err)
		}
	}
}

// An unread stream uses up its credit and no more; others continue at full speed.
func TestSlowStreamHoldsNobodyUp(t *testing.T) {
	host, guest := sessions(t)
	stuck := make(chan int, 1)
	slow := open(t, host)
	go func() {
		n := 0
		for {
			if _, err := slow.Write(make([]byte, 1000)); err != nil {
				stuck <- n
				return
			}
			n += 1000
		}
	}()
	if _, err := guest.Accept(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	go echo(guest, &wg)
	for range 20 {
		st := open(t, host)
		data := make([]byte, 1<<20)
		go func() { st.Write(data); st.CloseWrite() }()
		if got, err := io.ReadAll(st); err != nil || len(got) != len(data) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	slow.Reset()
	if n := <-stuck; n > InitialCredit {
		t.Errorf("%d bytes went into a stream that nobody reads", n)
	}
	wg.Wait()
}

// A connection that the peer does not read blocks its writers, and a reset still frees them.
func TestConnectionThatNobodyReads(t *testing.T) {
	a, _ := socketPair(t)
	host := NewSession(a, Host)
	defer host.Close()
	var wg sync.WaitGroup
	for range 10 {
		st := open(t, host)
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := st.Write(make([]byte, 2*InitialCredit)); err != ErrReset {
				t.Errorf("%v", err)
			}
		}()
		time.AfterFunc(50*time.Millisecond, st.Reset)
	}
	wg.Wait()
	host.mu.Lock()
	if len(host.out) > outLimit+MaxFrame+headerSize+10*headerSize {
		t.Errorf("%d bytes wait", len(host.out))
	}
	host.mu.Unlock()
}

func TestStreamsAreBounded(t *testing.T) {
	host, guest := sessions(t)
	var streams []*Stream
	for range MaxStreams {
		st := open(t, host)
		if _, err := st.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, st)
	}
	if _, err := host.Open(); err != ErrExhausted {
		t.Errorf("one more: %v", err)
	}
	streams[0].Reset()
	for range MaxStreams {
		if _, err := guest.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	st := open(t, host)
	st.Write([]byte("x"))
	if _, err := guest.Accept(); err != nil {
		t.Error(err)
	}
}

func TestFlush(t *testing.T) {
	a, b := socketPair(t)
	guest := NewSession(b, Guest)
	a.Write(frame(1, frameData, "x"))
	st, err := guest.Accept()
	if err != nil {
		t.Fatal(err)
	}
	st.SendLast(3, []byte("bye"))
	guest.Flush()
	guest.Close()
	got, err := io.ReadAll(a)
	if want := append(frame(1, frameData, "\x03\x00\x00\x00\x03bye"), frame(1, frameEnd, "")...); err != nil ||
		!bytes.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

func frame(id uint32, kind uint8, payload string) []byte {
	return append(appendHeader(nil, id, kind, len(payload)), payload...)
}

func credit(n uint32) string { return string(binary.LittleEndian.AppendUint32(nil, n)) }

// A violation of the frame rules ends the connection; frames that may cross with a reset do not.
func TestBrokenFrames(t *testing.T) {
	full := func(id uint32) (b []byte) {
		for n := 0; n < InitialCredit; n += MaxFrame {
			b = append(b, frame(id, frameData, string(make([]byte, MaxFrame)))...)
		}
		return b
	}
	join := func(frames ...[]byte) []byte { return bytes.Join(frames, nil) }
	for _, test := range []struct {
		name string
		side Side
		in   []byte
		want error
	}{
		{"nothing", Guest, nil, io.EOF},
		{"half a header", Guest, frame(1, frameData, "")[:5], io.ErrUnexpectedEOF},
		{"half a payload", Guest, frame(1, frameData, "abc")[:9], io.ErrUnexpectedEOF},
		{"half a credit", Guest, frame(1, frameCredit, "abcd")[:9], io.ErrUnexpectedEOF},
		{"unknown kind", Guest, frame(1, 4, ""), ErrProtocol},
		{"kind 255", Guest, frame(1, 255, ""), ErrProtocol},
		{"long data", Guest, frame(1, frameData, string(make([]byte, MaxFrame+1))), ErrProtocol},
		{"longest data", Guest, appendHeader(nil, 1, frameData, 1<<24-1), ErrProtocol},
		{"stream 0", Guest, frame(0, frameData, "x"), ErrProtocol},
		{"end of no stream", Guest, frame(1, frameEnd, ""), ErrProtocol},
		{"credit of no stream", Guest, frame(7, frameCredit, credit(1)), ErrProtocol},
		{"end with a payload", Guest, join(frame(1, frameData, "x"), frame(1, frameEnd, "x")), ErrProtocol},
		{"reset with a payload", Guest, join(frame(1, frameData, "x"), frame(1, frameReset, "x")), ErrProtocol},
		{"credit of 3 bytes", Guest, join(frame(1, frameData, "x"), frame(1, frameCredit, "abc")), ErrProtocol},
		{"credit that overflows", Guest, join(frame(1, frameData, "x"), frame(1, frameCredit, credit(1<<32-1))),
			ErrProtocol},
		{"credit that adds up", Guest, join(frame(1, frameData, "x"), bytes.Repeat(frame(1, frameCredit, credit(1<<29)),
			2)),
			ErrProtocol},
		{"beyond the credit", Guest, join(full(1), frame(1, frameData, "x")), ErrProtocol},
		{"all of the credit", Guest, full(1), io.EOF},
		{"data after the end", Guest, join(frame(1, frameData, "x"), frame(1, frameEnd, ""), frame(1, frameData, "x")),
			ErrProtocol},
		{"two ends", Guest, join(frame(1, frameData, "x"), frame(1, frameEnd, ""), frame(1, frameEnd, "")),
			ErrProtocol},
		{"anything after a reset", Guest, join(frame(1, frameData, "x"), frame(1, frameReset, ""), full(1),
			frame(1, frameData, "x"),
			frame(1, frameCredit, credit(1<<32-1)), frame(1, frameEnd, ""), frame(1, frameReset, "")), io.EOF},
		{"a lower id, skipped", Guest, join(frame(9, frameData, "x"), frame(3, frameData, "x")), io.EOF},
		{"a guest that opens", Host, frame(1, frameData, "x"), ErrProtocol},
		{"a guest that resets", Host, frame(1, frameReset, ""), ErrProtocol},
	} {
		a, b := socketPair(t)
		s := NewSession(b, test.side)
		go func() {
			a.Write(test.in)
			a.(*net.UnixConn).CloseWrite()
		}()
		<-s.Done()
		if err := s.Err(); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
		s.Close()
		a.Close()
	}
}

// A peer that keeps sending and never reads its credit and resets cannot exhaust memory.
func TestPeerThatOnlySends(t *testing.T) {
	a, b := socketPair(t)
	s := NewSession(b, Guest)
	defer s.Close()
	go func() {
		for id := uint32(1); ; id++ {
			if _, err := a.Write(frame(id, frameData, "x")); err != nil {
				return
			}
		}
	}()
	go func() {
		for {
			st, err := s.Accept()
			if err != nil {
				return
			}
			st.Reset()
		}
	}()
	<-s.Done()
	if err := s.Err(); err != ErrProtocol {
		t.Errorf("%v", err)
	}
}

func TestRing(t *testing.T) {
	r, noise := rand.New(rand.NewPCG(5, 6)), rand.NewChaCha8([32]byte{7})
	for range 200 {
		var ring Ring
		var all []byte
		for range 100 {
			n := r.IntN(3000)
			first, second := ring.Reserve(n)
			noise.Read(first)
			noise.Read(second)
			if len(first)+len(second) != n {
				t.Fatalf("%d and %d bytes of room for %d", len(first), len(second), n)
			}
			k := r.IntN(n + 1)
			all = append(all, append(append([]byte{}, first...), second...)[:k]...)
			ring.Commit(k)
			ring.Consume(r.IntN(ring.Len() + 1))
			if ring.End() != uint64(len(all)) {
				t.Fatalf("end %d of %d", ring.End(), len(all))
			}
			if ring.Len() > 0 {
				at := ring.Start() + uint64(r.IntN(ring.Len()))
				first, second = ring.At(at, int(ring.End()-at))
				if got := append(append([]byte{}, first...), second...); !bytes.Equal(got, all[at:]) {
					t.Fatalf("at %d: not what was put there", at)
				}
			}
		}
	}
}

// A session knows its streams before their first data.
func TestEndOfSessionWakesAFreshStream(t *testing.T) {
	host, _ := sessions(t)
	st := open(t, host)
	errs := make(chan error)
	go func() { _, err := st.Read(make([]byte, 1)); errs <- err }()
	time.Sleep(10 * time.Millisecond)
	host.Close()
	if err := <-errs; err != ErrClosed {
		t.Errorf("%v", err)
	}
	<-st.Done()
}
